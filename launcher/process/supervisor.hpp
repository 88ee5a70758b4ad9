#pragma once

#include <string>
#include <vector>

#include "launcher/process/signals.hpp"

namespace toporun::launcher {

struct ChildCommand {
    std::string executable;                ///< resolved path
    std::vector<std::string> argv;         ///< argv[0] as the user typed it
    std::vector<std::string> environment;  ///< NAME=VALUE
    bool parent_death_signal = true;       ///< SIGTERM to the command if the supervisor dies
    std::vector<std::string> typed =
        {};  ///< run instead where `argv` and `environment` are too long
    std::vector<std::string> typed_environment = {};
};

struct ChildEnd {
    bool started = false;
    int error = 0;               ///< errno of exec when it did not start
    int status = 0;              ///< raw wait status when it did
    bool observer_lost = false;  ///< the observer went away while the command ran
};

/// Runs the command in this process group, with the inherited descriptors and terminal, and waits.
///
/// Signals: one that the kernel sends for a key press has reached the command already. One sent by
/// a process is passed on after 50 ms unless the observer, which sits in the same process group and
/// job step, saw it too: then the whole group was signalled (`timeout`, srun, `kill -- -PGID`) and
/// the command has it. Repeats within that time count once. Without an observer (`link` -1 or
/// closed) every signal from a process is passed on.
///
/// When the command stops (Ctrl-Z), this process stops likewise; the observer, process `witness`,
/// continues it once the command runs again or has ended. Without an observer only the terminal's
/// own stops are followed: SIGTSTP, SIGTTIN, SIGTTOU.
///
/// This process becomes the parent of what the command orphans (PR_SET_CHILD_SUBREAPER) and takes
/// leave of those that end. Call while single-threaded, after take_signals(). Throws, a
/// std::exception, when there are no descriptors to supervise with; never once the command runs.
ChildEnd supervise(const ChildCommand& command, const InheritedSignals& inherited, int link,
                   pid_t witness = -1);

/// Ends this process as the command ended, so that shells see the signal; 128+n where that fails.
[[noreturn]] void exit_like(int wait_status);

}  // namespace toporun::launcher
