#pragma once

#include <string>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

struct PlacementDecision {
    std::vector<RankPlacement> ranks;  ///< one a rank; of one rank a GPU when the number is unknown
    bool binds = false;
    std::string reason;  ///< why not, when it does not
    std::vector<Finding> findings;
};

/// Which CPUs each local rank gets: those near its GPU that this job may use, divided among the
/// ranks of that place without overlap, cores whole. RankPlacement::cpus are a proposal where
/// `binds` is false.
PlacementDecision decide_placement(const Inputs& inputs);

/// The cores of the machine with the PUs that this job may use; cores without one are left out.
/// Where the cores are not known each PU counts as one.
std::vector<detect::Core> allowed_cores(const detect::Machine& machine);

/// `cores` for each of `ranks` ranks, at least one each: whole NUMA nodes if they can be divided
/// evenly, else whole last-level caches, else neighbouring cores; the remainder goes to the low
/// ranks. Empty when there are fewer cores than ranks.
std::vector<std::vector<detect::Core>> divide_cores(std::vector<detect::Core> cores, int ranks);

/// The PUs of `cores`.
detect::CpuSet pus_of(const std::vector<detect::Core>& cores);

}  // namespace toporun::env
