#pragma once

#include <cstdint>
#include <optional>

#include "detect/cpu_set.hpp"
#include "detect/files.hpp"

namespace toporun::detect {

struct CgroupLimits {
    std::optional<double> cpu_quota;            ///< CPUs; empty = none
    std::optional<std::uint64_t> memory_bytes;  ///< empty = none
    std::optional<std::uint64_t> pids;          ///< processes and threads; empty = none
};

/// Limits of this process's control groups, version 1, 2 or both mounted: the smallest from its own
/// group upwards to the highest that is visible here.
CgroupLimits read_cgroup_limits(const Files& files);

/// How often the kernel has killed for want of memory in this process's memory group or one above
/// it, counted since each was made (memory.events of version 2 counts those below as well); the
/// group with the most. Empty: not told.
std::optional<std::uint64_t> read_oom_kills(const Files& files);

/// The PUs that the cpusets of this process's groups leave, version 1 and 2, from its own group
/// upwards; empty = no cpuset is visible.
CpuSet read_cgroup_cpus(const Files& files);

}  // namespace toporun::detect
