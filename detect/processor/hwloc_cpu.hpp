#pragma once

#include <string>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::detect {

/// What hwloc tells of the processors.
struct HwlocCpu {
    bool loaded = false;
    int packages = 0;
    std::vector<NumaNode> numa_nodes;
    std::vector<Core> cores;
    CpuSet allowed;       ///< by the cgroup's cpuset
    std::string failure;  ///< of the process that read a tree: "ended by signal 6", "" none
};

/// `root` "" for this machine, else a tree with /sys and /proc. A tree is read in a helper process:
/// hwloc asserts what the kernel promises, and a tree promises nothing.
///
/// hwloc is told what it must do by variables (HWLOC_PLUGINS_PATH so that it does not load X11,
/// OpenCL and libxml2; HWLOC_FSROOT for the tree): there is no call for either. They stand in an
/// environment of their own that exists during this call, so that nothing reaches the training and
/// no HWLOC_ variable of the user's reaches us. The calling process must have one thread.
HwlocCpu read_hwloc_cpu(const std::string& root);

}  // namespace toporun::detect
