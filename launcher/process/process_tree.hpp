#pragma once

#include <sys/types.h>

#include <cstdint>
#include <string>
#include <vector>

namespace toporun::launcher {

/// A process at a moment: pid and start time name it uniquely until the next boot.
struct ProcessInfo {
    pid_t pid = 0;
    std::uint64_t start_ticks = 0;
    std::string name;  ///< /proc/PID/comm, untrusted
};

/// `root` and every process below it now, `root` first. Empty when it is gone.
std::vector<ProcessInfo> process_tree(pid_t root);

/// Those of `processes` that still run (a zombie does not).
std::vector<ProcessInfo> still_running(const std::vector<ProcessInfo>& processes);

/// Whether the process is stopped by a signal or by a debugger; false when it is gone.
bool is_stopped(pid_t pid);

}  // namespace toporun::launcher
