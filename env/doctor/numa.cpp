#include <fmt/format.h>

#include <map>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// CPUs and memory near the GPUs.
namespace toporun::env::doctor {
namespace {

using detect::CpuSet;
using detect::Gpu;
using detect::Machine;
using detect::NumaNode;
using detect::PathType;

constexpr std::string_view kFamily = "numa";

CpuSet all_cpus(const Machine& machine) {
    CpuSet all;
    for (const NumaNode& node : machine.cpu.numa_nodes) all = all | node.cpus;
    for (const detect::Core& core : machine.cpu.cores) all = all | core.pus;
    return all;
}

/// NUMA nodes with a CPU that this job may use.
std::set<int> allowed_nodes(const Machine& machine) {
    std::set<int> nodes;
    for (const NumaNode& node : machine.cpu.numa_nodes)
        if (!(node.cpus & machine.cpu.allowed).empty()) nodes.insert(node.os_index);
    return nodes;
}

std::set<int> gpu_nodes(const Patient& patient) {
    std::set<int> nodes;
    for (const int position : patient.inputs.visible)
        if (const auto node = gpu_at(patient, position).numa_node) nodes.insert(*node);
    return nodes;
}

bool told_by_placement(const Patient& patient) {
    return std::any_of(patient.plan.findings.begin(), patient.plan.findings.end(),
                       [](const Finding& finding) { return finding.id == "gpu-cpus-not-allowed"; });
}

void one_node_allowed(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (machine.cpu.numa_nodes.size() < 2 || patient.inputs.visible.size() < 2) return;
    const std::set<int> gpus = gpu_nodes(patient);
    if (gpus.size() < 2) return;
    if (machine.cpu.allowed.empty()) return verdict.unknown("the CPUs that the job may use");
    const std::set<int> cpus = allowed_nodes(machine);
    if (cpus.empty() || told_by_placement(patient)) return;
    std::vector<std::string> without;
    for (const int node : gpus) {
        const bool has_cpus = std::any_of(
            machine.cpu.numa_nodes.begin(), machine.cpu.numa_nodes.end(),
            [&](const NumaNode& one) { return one.os_index == node && !one.cpus.empty(); });
        if (has_cpus && !cpus.contains(node)) without.push_back(std::to_string(node));
    }
    if (without.empty()) return;
    verdict.slow(
        {.what = fmt::format("no CPU of NUMA node{} {} may be used, but GPUs are there",
                             without.size() == 1 ? "" : "s", and_list(without)),
         .evidence = fmt::format("allowed CPUs {}", machine.cpu.allowed.text()),
         .effect = "the ranks of these GPUs, their host memory and loaders are on the "
                   "other package",
         .fix = "srun --cpu-bind=none --cpus-per-task=N",
         .remark = "or docker run --cpuset-cpus=...; no taskset or numactl around the whole job"});
}

/// One or two CPUs on a machine of many: a binding that was meant for something else.
void few_cpus(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (patient.inputs.visible.empty()) return;
    if (machine.cpu.allowed.empty()) return verdict.unknown("the CPUs that the job may use");
    const int all = all_cpus(machine).count(), allowed = machine.cpu.allowed.count();
    const int ranks = std::max(1, ranks_here(patient));
    if (all < 8 || allowed * 2 > all || allowed > 2 * ranks) return;
    verdict.slow(
        {.what = fmt::format("the job may use {} of {} CPUs for {} rank{}", allowed, all, ranks,
                             ranks == 1 ? "" : "s"),
         .evidence = fmt::format("allowed CPUs {} (taskset -p $$)", machine.cpu.allowed.text()),
         .effect = "the rank, NCCL's proxy thread and the loader workers share a core",
         .fix = "mpirun --bind-to none",
         .remark = "or srun --cpus-per-task=N (Slurm 22.05 to 23.02 do not take it from sbatch: "
                   "SRUN_CPUS_PER_TASK); docker without --cpuset-cpus"});
}

void balancing(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (machine.gpus.empty()) return;
    if (!machine.cpu.numa_nodes.empty() && machine.cpu.numa_nodes.size() < 2) return;
    const auto& on = machine.software.numa_balancing;
    if (!on) {
        if (machine.cpu.numa_nodes.size() > 1) verdict.unknown("kernel.numa_balancing");
        return;
    }
    if (!*on) return;
    const bool amd = patient.inputs.rccl;
    verdict.find(amd ? Severity::slow : Severity::note,
                 {.what = "kernel.numa_balancing=1: automatic NUMA balancing is on",
                  .evidence = "/proc/sys/kernel/numa_balancing",
                  .effect = "page scans interrupt the busy proxy threads; the more memory, the "
                            "longer (ROCm/rccl pull request 696)",
                  .fix = "sysctl kernel.numa_balancing=0",
                  .remark = "as root"});
}

void gpu_node_unknown(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (machine.cpu.numa_nodes.size() < 2 || patient.inputs.visible.size() < 2) return;
    const auto unknown = visible_gpus(
        patient, [](const Gpu& gpu) { return !gpu.numa_node && gpu.cpus.empty() && gpu.pci; });
    if (unknown.size() != patient.inputs.visible.size()) return;
    verdict.note({.what = fmt::format("the NUMA node of {} is not known, and there are {}",
                                      gpus_text(machine, unknown), machine.cpu.numa_nodes.size()),
                  .evidence = "/sys/bus/pci/devices/*/numa_node is -1 or missing",
                  .effect = "ranks and NCCL's threads cannot be placed near their GPUs",
                  .fix = machine.virtual_machine
                             ? "give the guest a PCI bus per NUMA node (pxb-pcie), or NCCL a "
                               "topology file (NCCL_TOPO_FILE)"
                             : "a BIOS update may add the ACPI _PXM entries"});
}

std::optional<int> package_of(const Machine& machine, int node) {
    for (const detect::Core& core : machine.cpu.cores)
        if (core.numa_node == node) return core.package;
    return std::nullopt;
}

/// Sub-NUMA clustering, NPS: NCCL takes different NUMA nodes as SYS even in one package.
void split_package(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (patient.inputs.rccl || machine.gpu_paths.size() != machine.gpus.size()) return;
    std::map<int, std::set<int>> nodes_by_package;
    for (std::size_t i = 0; i < patient.inputs.visible.size(); ++i)
        for (std::size_t j = i + 1; j < patient.inputs.visible.size(); ++j) {
            const auto a = static_cast<std::size_t>(patient.inputs.visible[i]),
                       b = static_cast<std::size_t>(patient.inputs.visible[j]);
            if (machine.gpu_paths[a].size() <= b || machine.gpu_paths[a][b] != PathType::SYS)
                continue;
            const auto x = machine.gpus[a].numa_node, y = machine.gpus[b].numa_node;
            if (!x || !y || x == y) continue;
            const auto package = package_of(machine, *x);
            if (!package || package != package_of(machine, *y)) continue;
            nodes_by_package[*package].insert(*x);
            nodes_by_package[*package].insert(*y);
        }
    if (nodes_by_package.empty()) return;
    const auto& [package, nodes] = *nodes_by_package.begin();
    verdict.note({.what = fmt::format("CPU package {} is split into NUMA nodes, with GPUs in {} of "
                                      "them",
                                      package, nodes.size()),
                  .evidence = "sub-NUMA clustering (SNC) or nodes per socket (NPS) above 1",
                  .effect = "NCCL calls these pairs SYS although they share a package: no P2P at "
                            "level PHB",
                  .fix = "measure NCCL_P2P_LEVEL=SYS for jobs within one package, or set NPS1 / "
                         "SNC off in the BIOS"});
}

constexpr Check kChecks[] = {
    {{"cpus-one-numa-node", kFamily, Severity::slow,
      "whether the CPUs that the job may use reach every NUMA node with a GPU"},
     one_node_allowed},
    {{"cpus-few", kFamily, Severity::slow,
      "the number of CPUs that the job may use: one core for a rank and all its threads is the "
      "most common binding accident"},
     few_cpus},
    {{"numa-balancing", kFamily, Severity::slow,
      "kernel.numa_balancing: its page scans hit NCCL's proxy threads"},
     balancing},
    {{"gpu-numa-unknown", kFamily, Severity::note,
      "whether the GPUs' NUMA nodes are known where there are several, as in virtual machines"},
     gpu_node_unknown},
    {{"numa-split-package", kFamily, Severity::note,
      "GPUs of one CPU package in different NUMA nodes (SNC, NPS)"},
     split_package},
};

}  // namespace

std::span<const Check> numa_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
