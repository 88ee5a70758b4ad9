#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "env/inputs.hpp"
#include "env/pair_rates.hpp"

/// Which GPUs a job takes that needs fewer than the machine has, and in which order.
namespace toporun::env {

/// Where the GPUs of a machine are, by position in Machine::gpus; -1 = unknown.
struct GpuPlaces {
    std::vector<int> numa_node;
    std::vector<int>
        adapter;  ///< the nearest RDMA port, the lowest of several, as position in nics
};

GpuPlaces gpu_places(const detect::Machine& machine);

/// A set of GPUs and what it is worth. Rates in tenths of GB/s.
struct GpuSet {
    std::vector<int> gpus;  ///< positions in Machine::gpus, ascending
    /// What a large collective over them runs at: of the best single ring its slowest neighbours;
    /// where every one is joined to the rest by NVLinks of its own, all of which rings and trees
    /// use at a time, the smallest cut of those links.
    int pace = 0;
    long long sum = 0;  ///< over all pairs, ways through a third GPU left out: all-to-all
    int adapters = 0;   ///< different nearest adapters
    int numa_nodes = 0;
};

GpuSet judge_gpu_set(const PairRates& rates, const GpuPlaces& places, std::span<const int> gpus);

/// Whether `a` is the better set: pace, then sum, then the fewer NUMA nodes, then the fewer
/// adapters. In a job of several nodes the adapters carry what the pace is for: the more of them
/// the better, between pace and sum.
bool is_better_set(const GpuSet& a, const GpuSet& b, bool several_nodes);

/// The best set of `count` of the candidates, the first in lexicographic order among equals.
/// Exact up to kMostExactGpus candidates; beyond that sets grown from each candidate. Nothing when
/// there are fewer candidates or NCCL would stop on every set.
std::optional<GpuSet> best_gpu_set(const PairRates& rates, const GpuPlaces& places,
                                   std::span<const int> candidates, int count, bool several_nodes);

struct GpuDecision {
    /// CUDA_VISIBLE_DEVICES (AMD: HIP_VISIBLE_DEVICES) where there are several GPUs, and
    /// CUDA_DEVICE_ORDER where numbers have to be written.
    std::vector<Setting> settings;
    std::vector<int> visible;  ///< what the job sees with them, rank 0's GPU first
    std::string visible_note;  ///< why not all
};

/// Inputs::visible must be filled. Other GPUs than the first ones are chosen where they are clearly
/// faster together or the first ones are in use, another order where neighbours of a job on one
/// node are clearly faster; never against a list of the user's, a scheduler's or MIG's.
GpuDecision decide_gpus(const Inputs& inputs);

}  // namespace toporun::env
