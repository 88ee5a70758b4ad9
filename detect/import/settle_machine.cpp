#include "detect/import/settle_machine.hpp"

#include <fmt/format.h>

#include <optional>
#include <set>
#include <string>

#include "detect/import/settle_pairs.hpp"
#include "detect/machine_text.hpp"

namespace toporun::detect {
namespace {

/// The first GPU keeps what a second one has too.
template <class Fact>
void keep_first(Machine& machine, std::optional<Fact> Gpu::*fact, const char* what) {
    std::set<Fact> seen;
    for (Gpu& gpu : machine.gpus) {
        std::optional<Fact>& own = gpu.*fact;
        if (!own || seen.insert(*own).second) continue;
        own.reset();
        machine.notes.push_back(
            fmt::format("GPU {}: its {} is that of another GPU, it is not taken", gpu.index, what));
    }
}

/// The later one of two GPUs with one index gets the next free one.
void keep_indices_apart(Machine& machine) {
    std::set<int> used;
    for (Gpu& gpu : machine.gpus) {
        if (used.insert(gpu.index).second) continue;
        const int told = gpu.index;
        while (!used.insert(gpu.index).second) ++gpu.index;
        machine.notes.push_back(
            fmt::format("two GPUs {} are told: the second is GPU {} here", told, gpu.index));
    }
}

/// A figure out of a damaged line that no machine has is no figure.
void keep_possible(std::optional<int>& figure, std::int64_t most) {
    if (figure && (*figure < 0 || *figure > most)) figure.reset();
}

template <class Device>
void keep_possible_slot(Device& device) {
    keep_possible(device.pcie_generation, kMostPcieGeneration);
    keep_possible(device.pcie_generation_now, kMostPcieGeneration);
    keep_possible(device.pcie_width, kMostPcieLanes);
    keep_possible(device.pcie_width_now, kMostPcieLanes);
    keep_possible(device.numa_node, kMostOsIndex);
}

}  // namespace

void settle_machine(Machine& machine) {
    make_printable(machine);
    settle_pairs(machine);
    for (Gpu& gpu : machine.gpus) keep_possible_slot(gpu);
    for (Nic& nic : machine.nics) {
        keep_possible_slot(nic);
        keep_possible(nic.mtu, kMostOsIndex);
        keep_possible(nic.port, kMostRdmaPort);
    }
    keep_indices_apart(machine);
    keep_first(machine, &Gpu::pci, "bus id");
    keep_first(machine, &Gpu::uuid, "UUID");
}

}  // namespace toporun::detect
