#pragma once

#include <sys/types.h>

#include <cstdint>
#include <optional>
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

/// When a process started that is `root` or below it; nothing for any other. Parents are followed
/// upwards, at most 64 of them.
std::optional<std::uint64_t> start_ticks_below(pid_t pid, pid_t root);

/// The wait status of a process that has ended and whose parent has not asked for it yet; nothing
/// for any other, for another that got the number, and where the kernel does not tell.
std::optional<int> zombie_status(pid_t pid, std::uint64_t start_ticks);

/// Whether the process is stopped by a signal or by a debugger; false when it is gone.
bool is_stopped(pid_t pid);

}  // namespace toporun::launcher
