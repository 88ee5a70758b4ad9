#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"
#include "env/matrix.hpp"

/// What NCCL believes of the machine: flat guests and topology files.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::PathType;

constexpr std::string_view kFamily = "topology";
constexpr const char* kTopoFile = "NCCL_TOPO_FILE";
/// NCCL reads it without being asked (src/graph/topo.cc).
constexpr std::string_view kDefaultFile = "/var/run/nvidia-topologyd/virtualTopology.xml";

bool default_file_there(const Machine& machine) {
    const auto& files = machine.software.topology_files;
    return std::find(files.begin(), files.end(), kDefaultFile) != files.end() ||
           std::find(files.begin(), files.end(), kDefaultFile.substr(4)) != files.end();
}

/// Every GPU pair, and every GPU with every adapter, is PHB: no switch in sight.
bool is_flat(const Patient& patient) {
    const Machine& machine = patient.machine();
    const PairMatrix matrix(machine);
    if (!matrix.known() || machine.gpus.size() < 2) return false;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b) {
            const PathType path = matrix.path(static_cast<int>(a), static_cast<int>(b));
            if (path != PathType::PHB && path != PathType::NVL && path != PathType::NVB)
                return false;
        }
    bool any = false;
    for (std::size_t nic = 0; nic < machine.nics.size(); ++nic) {
        if (!machine.nics[nic].rdma_device) continue;
        for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
            const auto path = nic_path(machine, static_cast<int>(gpu), static_cast<int>(nic));
            if (!path) continue;
            if (*path != PathType::PHB) return false;
            any = true;
        }
    }
    return any;
}

/// The machine was looked at from inside and is no guest. Captures of a part do not tell.
bool bare_metal_known(const Machine& machine) {
    return !machine.virtual_machine && (!machine.product.empty() || !machine.vendor.empty() ||
                                        !machine.software.kernel.empty());
}

void flat(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (user_has(patient.inputs, kTopoFile) || default_file_there(machine)) return;
    if (patient.inputs.rccl || !maybe_several_nodes(patient) || !is_flat(patient)) return;
    if (bare_metal_known(machine)) return;  // then the cards do hang off the root ports
    // One workstation in many has two cards and an adapter on its one CPU.
    if (!machine.virtual_machine && machine.gpus.size() < 4) return;
    verdict.find(
        machine.virtual_machine ? Severity::slow : Severity::note,
        {.what = fmt::format("a flat PCI tree: {} GPUs and their adapters all hang off the root",
                             machine.gpus.size()),
         .evidence = "every path between GPUs and adapters is PHB",
         .effect = "NCCL assumes PHB: no GPUDirect RDMA, and GPUs are not matched with their "
                   "nearest adapters",
         .fix = "if this is a virtual machine: write a topology file with the host's switches "
                "and the guest's bus ids and set NCCL_TOPO_FILE, or have the hypervisor expose "
                "the PCIe switches"});
}

/// Azure images ship one a size, and set it in /etc/nccl.conf.
void shipped_unused(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    const auto& files = machine.software.topology_files;
    if (files.empty() || default_file_there(machine)) return;
    if (user_has(patient.inputs, kTopoFile) || !machine.virtual_machine) return;
    if (patient.inputs.visible.size() < 2) return;
    std::vector<std::string> shipped;
    for (const std::string& file : files)
        if (file.starts_with("/opt/microsoft/")) shipped.push_back(file);
    if (shipped.empty()) return;
    verdict.slow({.what = "the image ships a topology file that NCCL is not told of",
                  .evidence = fmt::format("{}; NCCL_TOPO_FILE is not set", join(shipped, ", ")),
                  .effect = "the guest hides the PCIe switches: without the file NCCL matches GPUs "
                            "with far adapters and uses no GPUDirect RDMA",
                  .fix = shipped.size() == 1
                             ? fmt::format("export NCCL_TOPO_FILE={}", shell_word(shipped.front()))
                             : "export NCCL_TOPO_FILE with the file of this size"});
}

/// Parts of file names of machines with eight GPUs.
constexpr std::array<std::string_view, 6> kEightGpuFiles = {"ndv4", "ndv5",    "p4d",
                                                            "p4de", "p5.48xl", "p5-48xl"};

void other_size(const Patient& patient, Verdict& verdict) {
    const auto file = user_value(patient.inputs, kTopoFile);
    const Machine& machine = patient.machine();
    const std::size_t gpus = machine.gpus.size();
    if (gpus == 0 || gpus >= 8 || !machine.gpus_known) return;
    const bool eight = file && std::any_of(kEightGpuFiles.begin(), kEightGpuFiles.end(),
                                           [&](std::string_view part) {
                                               return file->find(part) != std::string::npos;
                                           });
    const bool plugin_sets = contains_any(machine.product, {"p4d.24xlarge", "p4de.24xlarge",
                                                            "p5.48xlarge", "p5e.48xlarge"}) &&
                             (has_efa(machine) || !machine.software.nccl_plugins.empty());
    if (!eight && !plugin_sets) return;
    verdict.note({.what = fmt::format("the topology file describes 8 GPUs, here are {}", gpus),
                  .evidence = eight ? assigned(kTopoFile, *file)
                                    : fmt::format("{}, whose plugin sets NCCL_TOPO_FILE itself",
                                                  machine.product),
                  .effect = "NCCL may match GPUs with the wrong adapters, or stop with 'Attribute "
                            "arch of node cpu not found' (aws/aws-ofi-nccl issue 476)",
                  .fix = "use the whole machine, or unset NCCL_TOPO_FILE and compare"});
}

constexpr Check kChecks[] = {
    {{"pci-tree-flat", kFamily, Severity::slow,
      "whether GPUs and adapters have any PCIe switch in common: guests often hide them all"},
     flat},
    {{"topo-file-unused", kFamily, Severity::slow,
      "topology files that cloud images ship, and whether NCCL is told of them"},
     shipped_unused},
    {{"topo-file-size", kFamily, Severity::note,
      "topology files of machines with eight GPUs where fewer are seen"},
     other_size},
};

}  // namespace

std::span<const Check> topology_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
