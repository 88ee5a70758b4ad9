#pragma once

#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Processors: NUMA nodes, cores, packages and caches from hwloc (Linux back end, no devices, no
/// plugins), vendor and model from /proc/cpuinfo, and the PUs that this process may use: the cpuset
/// of its cgroup and its affinity mask, whichever is smaller. `root` as in Sources.
Cpu detect_cpu(const std::string& root, const Files& files, std::vector<std::string>& notes);

/// Those PUs alone, of the `known` ones; an empty set is unknown.
CpuSet allowed_cpus(const Files& files, const CpuSet& known);

}  // namespace toporun::detect
