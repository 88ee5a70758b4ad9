#pragma once

#include <vector>

#include "env/inputs.hpp"
#include "env/placement.hpp"

namespace toporun::env {

struct WorkersDecision {
    Workers workers;
    std::vector<Setting> settings;  ///< OMP_NUM_THREADS, TOPORUN_NUM_WORKERS
    std::vector<Finding> findings;
};

/// Threads and loader workers of a rank, by its share of cores, quota and ranks.
WorkersDecision decide_workers(const Inputs& inputs, const PlacementDecision& placement);

}  // namespace toporun::env
