#pragma once

#include <csignal>

namespace toporun::launcher {

/// The signals that are passed on to the command.
sigset_t relayed_signals();

/// What this process inherited and changes for itself only; the command gets it back as it was.
struct InheritedSignals {
    sigset_t mask;
    struct sigaction pipe;
    struct sigaction child;
};

/// Saves the inherited state, then: the relayed signals are blocked (they are read from a
/// signalfd), SIGPIPE is ignored (own text on a closed stderr must not end the start), SIGCHLD has
/// its default action (an inherited SIG_IGN would lose the command's status). Call while
/// single-threaded.
InheritedSignals take_signals();

/// Gives the inherited state back; async-signal-safe, for the child between fork and exec.
void restore_signals(const InheritedSignals& inherited);

}  // namespace toporun::launcher
