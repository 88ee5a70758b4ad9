#include "env/placement.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"

namespace toporun::env {
namespace {

using detect::Core;
using detect::CpuSet;

constexpr int kMaxRanks = 4096;  // of one node; more is a slip of the command line

CpuSet cpus_of_numa_node(const detect::Machine& machine, std::optional<int> node) {
    if (!node) return {};
    for (const detect::NumaNode& numa : machine.cpu.numa_nodes)
        if (numa.os_index == *node) return numa.cpus;
    std::vector<Core> cores;
    for (const Core& core : machine.cpu.cores)
        if (core.numa_node == node) cores.push_back(core);
    return pus_of(cores);
}

/// The PUs near a GPU, empty when nobody says.
CpuSet near_gpu(const detect::Machine& machine, const detect::Gpu& gpu) {
    return gpu.cpus.empty() ? cpus_of_numa_node(machine, gpu.numa_node) : gpu.cpus;
}

/// The NUMA node that holds all of `cpus`, if one does.
std::optional<int> numa_node_of(const detect::Machine& machine, const CpuSet& cpus) {
    if (cpus.empty()) return std::nullopt;
    for (const detect::NumaNode& numa : machine.cpu.numa_nodes)
        if (numa.cpus.contains(cpus)) return numa.os_index;
    return std::nullopt;
}

/// RDMA devices at the shortest distance from the GPU, links that are down left out.
std::vector<std::string> nearest_nics(const detect::Machine& machine, int gpu) {
    std::vector<std::string> nearest;
    const auto row = static_cast<std::size_t>(gpu);
    if (row >= machine.gpu_nic_paths.size()) return nearest;
    const auto& paths = machine.gpu_nic_paths[row];
    std::optional<detect::PathType> best;
    for (std::size_t i = 0; i < paths.size() && i < machine.nics.size(); ++i) {
        const detect::Nic& nic = machine.nics[i];
        if (!paths[i] || !nic.rdma_device || nic.state == "down") continue;
        if (!best || *paths[i] < *best) best = paths[i], nearest.clear();
        if (*paths[i] == *best) nearest.push_back(*nic.rdma_device);
    }
    return nearest;
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
std::vector<Core> guessed_cores(const detect::Machine& machine) {
    std::vector<Core> cores;
    const CpuSet rest = machine.cpu.allowed;
    CpuSet seen;
    const auto add = [&](const CpuSet& pus, std::optional<int> numa_node) {
        if (!(pus & seen).empty()) return;
        for (Core& core : cores_of_place(pus, numa_node)) cores.push_back(std::move(core));
        seen = seen | pus;
    };
    for (const detect::NumaNode& numa : machine.cpu.numa_nodes) add(numa.cpus, numa.os_index);
    for (const detect::Gpu& gpu : machine.gpus) add(gpu.cpus, gpu.numa_node);
    const CpuSet elsewhere = rest - seen;
    for (const int pu : elsewhere.indices()) {
        cores.emplace_back();
        cores.back().pus = CpuSet({pu});
    }
    return rest.empty() ? cores : within(cores, rest);
}

/// Ranks that share a place, in rank order.
struct Place {
    CpuSet near;  ///< empty: the whole machine
    std::vector<std::size_t> ranks;
};

std::vector<Place> places_of(const Inputs& inputs, const std::vector<RankPlacement>& ranks) {
    std::vector<Place> places;
    for (std::size_t rank = 0; rank < ranks.size(); ++rank) {
        CpuSet near;
        if (ranks[rank].gpu)
            near = near_gpu(inputs.machine,
                            inputs.machine.gpus[static_cast<std::size_t>(*ranks[rank].gpu)]);
        auto place = std::find_if(places.begin(), places.end(),
                                  [&](const Place& known) { return known.near == near; });
        if (place == places.end()) place = places.insert(places.end(), Place{near, {}});
        place->ranks.push_back(rank);
    }
    // Small places first: what a larger one that contains them gets is what they leave.
    std::stable_sort(places.begin(), places.end(), [](const Place& a, const Place& b) {
        return !a.near.empty() && (b.near.empty() || a.near.count() < b.near.count());
    });
    return places;
}

/// Gives every rank its share; returns why that failed, "" when it did not.
std::string share_out(const Inputs& inputs, PlacementDecision& decision) {
    std::vector<Core> free = allowed_cores(inputs.machine);
    if (free.empty()) return "the CPUs that this job may use are not known";
    if (free.size() < decision.ranks.size())
        return fmt::format("{} ranks on {} core{}: sharing is left to the kernel",
                           decision.ranks.size(), free.size(), free.size() == 1 ? "" : "s");
    for (const Place& place : places_of(inputs, decision.ranks)) {
        const std::vector<Core> here = place.near.empty() ? free : within(free, place.near);
        if (here.empty()) {
            if (!inputs.job.ranks_per_node) continue;
            const RankPlacement& rank = decision.ranks[place.ranks.front()];
            decision.findings.push_back(
                {"gpu-cpus-not-allowed", Severity::slow,
                 fmt::format("rank {} may not use any CPU near its GPU", rank.local_rank),
                 fmt::format("near: {}; allowed: {}", place.near.text(),
                             inputs.machine.cpu.allowed.text()),
                 "its host memory and its loaders are on another NUMA node",
                 "widen the CPU set of the job (cpuset, --cpu-bind=none, taskset)", ""});
            continue;  // keeps the mask that it has
        }
        const auto shares = divide_cores(here, static_cast<int>(place.ranks.size()));
        if (shares.empty())
            return fmt::format(
                "{} ranks on the {} free core{} near their GPUs: sharing is left to "
                "the kernel",
                place.ranks.size(), here.size(), here.size() == 1 ? "" : "s");
        for (std::size_t i = 0; i < shares.size(); ++i) {
            RankPlacement& rank = decision.ranks[place.ranks[i]];
            rank.cpus = pus_of(shares[i]);
            if (!rank.numa_node) rank.numa_node = numa_node_of(inputs.machine, rank.cpus);
        }
        CpuSet taken;
        for (const std::size_t rank : place.ranks) taken = taken | decision.ranks[rank].cpus;
        std::erase_if(free, [&](const Core& core) { return !(core.pus & taken).empty(); });
    }
    const bool any = std::any_of(decision.ranks.begin(), decision.ranks.end(),
                                 [](const RankPlacement& rank) { return !rank.cpus.empty(); });
    return any ? "" : "no rank may use a CPU near its GPU";
}

std::string binding_obstacle(const Inputs& inputs) {
    if (inputs.options.bind == Bind::none) return "switched off (--no-bind)";
    if (inputs.job.user_binds) return "the command line binds the ranks already";
    if (!inputs.job.same_host && !inputs.job.why_not_here.empty()) return inputs.job.why_not_here;
    if (!inputs.job.ranks_per_node) return ranks_unknown_text(inputs.job);
    if (*inputs.job.ranks_per_node == 1) return "one rank: all its CPUs are its own";
    if (!inputs.job.shim)
        return inputs.job.why_not_here.empty() ? "toporun is not in front of the ranks"
                                               : inputs.job.why_not_here;
    if (!inputs.job.same_host) return not_here_text(inputs.job);
    return "";
}

}  // namespace

CpuSet pus_of(const std::vector<Core>& cores) {
    std::vector<int> indices;
    for (const Core& core : cores)
        indices.insert(indices.end(), core.pus.indices().begin(), core.pus.indices().end());
    return CpuSet(std::move(indices));
}

std::vector<Core> allowed_cores(const detect::Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    if (cpu.cores.empty()) return guessed_cores(machine);
    return cpu.allowed.empty() ? cpu.cores : within(cpu.cores, cpu.allowed);
}

PlacementDecision decide_placement(const Inputs& inputs) {
    PlacementDecision decision;
    const auto& known = inputs.job.ranks_per_node;
    const int ranks = known ? *known : static_cast<int>(inputs.visible.size());
    decision.reason = binding_obstacle(inputs);
    if (ranks < 1 || ranks > kMaxRanks) {
        if (known) decision.reason = fmt::format("{} ranks on this host make no sense", ranks);
        return decision;
    }
    // As many ranks as GPUs or fewer: rank r drives the r-th visible one, as every framework has
    // it.
    const bool with_gpus = static_cast<std::size_t>(ranks) <= inputs.visible.size();
    for (int rank = 0; rank < ranks; ++rank) {
        RankPlacement placement;
        placement.local_rank = rank;
        if (with_gpus) {
            const int gpu = inputs.visible[static_cast<std::size_t>(rank)];
            placement.gpu = gpu;
            const detect::Gpu& facts = inputs.machine.gpus[static_cast<std::size_t>(gpu)];
            placement.numa_node =
                facts.numa_node ? facts.numa_node : numa_node_of(inputs.machine, facts.cpus);
            placement.nics = nearest_nics(inputs.machine, gpu);
        }
        decision.ranks.push_back(std::move(placement));
    }
    if (known == 1) return decision;
    const std::string failed = share_out(inputs, decision);
    if (!failed.empty())
        for (RankPlacement& rank : decision.ranks) rank.cpus = {};
    if (decision.reason.empty()) decision.reason = failed;
    decision.binds = decision.reason.empty();
    return decision;
}

}  // namespace toporun::env
