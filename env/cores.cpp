#include "env/cores.hpp"

#include <algorithm>
#include <limits>

namespace toporun::env {
namespace {

using detect::Core;
using detect::CpuSet;
using detect::Machine;
using detect::NumaNode;

/// The cores of one place by its PUs alone. Two ranges of equal length are Linux' usual numbering
/// of SMT siblings; anything else counts each PU as a core.
std::vector<Core> cores_of_place(const CpuSet& pus, std::optional<int> numa_node) {
    const std::vector<int>& index = pus.indices();
    const std::size_t half = index.size() / 2;
    const bool siblings = half > 0 && index.size() % 2 == 0 &&
                          index[half - 1] - index[0] == static_cast<int>(half) - 1 &&
                          index.back() - index[half] == static_cast<int>(half) - 1 &&
                          index[half] != index[half - 1] + 1;
    std::vector<Core> cores(siblings ? half : index.size());
    for (std::size_t i = 0; i < cores.size(); ++i) {
        cores[i].numa_node = numa_node;
        cores[i].pus = siblings ? CpuSet({index[i], index[half + i]}) : CpuSet({index[i]});
    }
    return cores;
}

/// Where hwloc told nothing (captures): the places that NUMA nodes or GPUs name, then the rest.
std::vector<Core> guessed_cores(const Machine& machine) {
    std::vector<Core> cores;
    const CpuSet rest = machine.cpu.allowed;
    CpuSet seen;
    const auto add = [&](const CpuSet& pus, std::optional<int> numa_node) {
        if (!(pus & seen).empty()) return;
        for (Core& core : cores_of_place(pus, numa_node)) cores.push_back(std::move(core));
        seen = seen | pus;
    };
    for (const NumaNode& numa : machine.cpu.numa_nodes) add(numa.cpus, numa.os_index);
    for (const detect::Gpu& gpu : machine.gpus) add(gpu.cpus, gpu.numa_node);
    const CpuSet elsewhere = rest - seen;
    for (const int pu : elsewhere.indices()) {
        cores.emplace_back();
        cores.back().pus = CpuSet({pu});
    }
    return rest.empty() ? cores : within(cores, rest);
}

CpuSet cpus_of_numa_node(const Machine& machine, int node) {
    CpuSet cpus;
    for (const NumaNode& numa : machine.cpu.numa_nodes)
        if (numa.os_index == node) cpus = cpus | numa.cpus;
    if (!cpus.empty()) return cpus;
    std::vector<Core> cores;
    for (const Core& core : machine.cpu.cores)
        if (core.numa_node == node) cores.push_back(core);
    return pus_of(cores);
}

/// The CPUs of the nodes at the shortest distance from one that has none.
CpuSet cpus_nearest_to(const Machine& machine, int node) {
    const std::vector<NumaNode>& nodes = machine.cpu.numa_nodes;
    const auto own = std::find_if(nodes.begin(), nodes.end(),
                                  [&](const NumaNode& numa) { return numa.os_index == node; });
    const auto row = static_cast<std::size_t>(own - nodes.begin());
    const auto& distances = machine.cpu.numa_distances;
    if (own == nodes.end() || row >= distances.size()) return {};
    int least = std::numeric_limits<int>::max();
    CpuSet cpus;
    for (std::size_t i = 0; i < nodes.size() && i < distances[row].size(); ++i) {
        if (nodes[i].cpus.empty() || distances[row][i] > least) continue;
        if (distances[row][i] < least) cpus = {};
        least = distances[row][i];
        cpus = cpus | nodes[i].cpus;
    }
    return cpus;
}

}  // namespace

CpuSet pus_of(const std::vector<Core>& cores) {
    std::vector<int> indices;
    for (const Core& core : cores)
        indices.insert(indices.end(), core.pus.indices().begin(), core.pus.indices().end());
    return CpuSet(std::move(indices));
}

std::vector<Core> within(const std::vector<Core>& cores, const CpuSet& cpus) {
    std::vector<Core> found;
    for (const Core& core : cores) {
        Core part = core;
        part.pus = core.pus & cpus;
        if (!part.pus.empty()) found.push_back(std::move(part));
    }
    return found;
}

std::vector<Core> allowed_cores(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    if (cpu.cores.empty()) return guessed_cores(machine);
    return cpu.allowed.empty() ? cpu.cores : within(cpu.cores, cpu.allowed);
}

bool tells_all_cores(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    if (!cpu.cores.empty() || !cpu.allowed.empty() || cpu.packages || !cpu.numa_distances.empty())
        return true;
    CpuSet named;
    int next = 0;
    bool gap = false;
    std::vector<int> nodes;
    for (const NumaNode& numa : cpu.numa_nodes) {
        if (numa.memory_bytes) return true;
        if (numa.cpus.empty()) continue;
        named = named | numa.cpus;
        nodes.push_back(numa.os_index);
    }
    for (const detect::Gpu& gpu : machine.gpus) {
        named = named | gpu.cpus;
        if (gpu.numa_node && !gpu.cpus.empty()) nodes.push_back(*gpu.numa_node);
    }
    std::sort(nodes.begin(), nodes.end());
    for (const int node : nodes) {
        gap = gap || node > next;
        next = std::max(next, node + 1);
    }
    return !gap && !named.empty() && named.indices().back() + 1 == named.count();
}

CpuSet cpus_near_gpu(const Machine& machine, const detect::Gpu& gpu) {
    if (!gpu.cpus.empty()) return gpu.cpus;
    if (!gpu.numa_node) return {};
    const CpuSet own = cpus_of_numa_node(machine, *gpu.numa_node);
    return own.empty() ? cpus_nearest_to(machine, *gpu.numa_node) : own;
}

std::optional<int> numa_node_of(const Machine& machine, const CpuSet& cpus) {
    if (cpus.empty()) return std::nullopt;
    for (const NumaNode& numa : machine.cpu.numa_nodes)
        if (numa.cpus.contains(cpus)) return numa.os_index;
    return std::nullopt;
}

}  // namespace toporun::env
