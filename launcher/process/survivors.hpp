#pragma once

#include <sys/types.h>

#include <vector>

#include "launcher/process/process_tree.hpp"

namespace toporun::launcher {

/// What of a command still runs when it has ended: processes below `supervisor`, which adopts
/// orphans. Neither `self`, the observer, nor what is toporun's own. Those that end within
/// 300 ms are not counted: they were about to.
std::vector<ProcessInfo> find_survivors(pid_t supervisor, pid_t self);

/// All processes below `supervisor` that run now, without toporun's own.
std::vector<ProcessInfo> processes_below(pid_t supervisor, pid_t self);

struct Reaped {
    ProcessInfo process;
    int signal = 0;  ///< the last one that it was sent while it ran; 0 = it still runs
};

/// Ends the survivors: SIGTERM, five seconds, then SIGKILL for those that are left and for what
/// they started meanwhile. One that ended by itself before its signal is not among them.
std::vector<Reaped> reap_survivors(pid_t supervisor, pid_t self,
                                   const std::vector<ProcessInfo>& survivors);

/// How long reap_survivors() may take beyond the report.
inline constexpr double kReapSeconds = 7;

}  // namespace toporun::launcher
