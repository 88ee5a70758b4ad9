#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/cores.hpp"
#include "env/inputs.hpp"

namespace toporun::env {

/// Of one node; more is a slip of the command line.
inline constexpr int kMostRanks = 4096;

struct PlacementDecision {
    std::vector<RankPlacement> ranks;  ///< one a rank; of one rank a GPU when the number is unknown
    bool binds = false;
    Bind bind = Bind::none;  ///< core, numa or none
    std::string reason;      ///< why so, or why not
    /// Cores that each rank can count on, bound or not: of the smallest of the disjoint shares,
    /// less than one core shared by several ranks counts as one. 0 = unknown.
    int cores_each = 0;
    /// The mask of this process is one rank's own: the scheduler has divided the CPUs already.
    bool own_mask = false;
    std::vector<Finding> findings;
};

/// Which CPUs each local rank gets: those near its GPU that this job may use. With Bind::core they
/// are divided among the ranks of that place without overlap, cores whole; with Bind::numa the
/// ranks of a place share them. RankPlacement::cpus are a proposal where `binds` is false.
PlacementDecision decide_placement(const Inputs& inputs);

/// Loader workers that the user announced for each rank: on the command line, else by
/// TOPORUN_NUM_WORKERS.
std::optional<int> announced_workers(const Inputs& inputs);

}  // namespace toporun::env
