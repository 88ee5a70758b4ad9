#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"
#include "detect/topology/system_tree.hpp"

namespace toporun::detect {

/// A path as NCCL prints it: (hops/bandwidth/type).
struct Path {
    PathType type = PathType::DIS;
    double gbytes_per_s = 0;  ///< of its narrowest link, one direction
    int hops = 0;
    friend bool operator==(const Path&, const Path&) = default;
};

struct TreePaths {
    std::vector<std::vector<Path>> gpus;  ///< GPU x GPU, from row to column, order of the tree
    /// GPU x net, from the GPU's side (with PXN); nets in the order of adapters, then ports.
    std::vector<std::vector<Path>> nets;
};

/// What the search depends on beside the tree.
struct PathRules {
    std::optional<int>
        nccl_version;  ///< major*10000 + minor*100 + patch; nothing = the newest known
    bool nvb = true;   ///< not NCCL_NVB_DISABLE
    bool pxn = true;   ///< not NCCL_PXN_DISABLE
};

/// Paths as ncclTopoComputePaths finds them (src/graph/paths.cc): breadth first, the widest at the
/// fewest hops; from 2.30.7 on the nearest type first. A GPU reaches an adapter through its CPU
/// where one of the two cannot do GPUDirect RDMA. What NCCL diverts because of its levels is left
/// as it is: these are the distances that the levels are compared with.
TreePaths compute_paths(SystemTree tree, const PathRules& rules = {});

}  // namespace toporun::detect
