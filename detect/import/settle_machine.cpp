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

}  // namespace

void settle_machine(Machine& machine) {
    make_printable(machine);
    settle_pairs(machine);
    keep_first(machine, &Gpu::pci, "bus id");
    keep_first(machine, &Gpu::uuid, "UUID");
}

}  // namespace toporun::detect
