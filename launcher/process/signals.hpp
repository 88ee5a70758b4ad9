#pragma once

#include <csignal>

namespace toporun::launcher {

/// The signals that are passed on to the command.
sigset_t relayed_signals();

/// What this process inherited and changes for itself only; the command gets it back as it was.
struct InheritedSignals {
    sigset_t mask;
    struct sigaction pipe;
    struct sigaction file_limit;
    struct sigaction child;
};

/// Saves the inherited state, then: SIGPIPE and SIGXFSZ are ignored (own text on a closed stderr,
/// or one that is as long as `ulimit -f` allows, must not end the start: write fails with EPIPE,
/// EFBIG), SIGCHLD has its default action (an inherited SIG_IGN would lose the command's status).
/// Other signals keep their effect: what ends the bare command ends this process while it looks at
/// the machine. Call while single-threaded.
InheritedSignals take_signals();

/// From here on the relayed signals and SIGCHLD wait to be read from a signalfd. Repeated, it has
/// no further effect.
void block_relayed_signals();

/// A blocked signal that has come and would have ended this process but for
/// block_relayed_signals(); 0 when there is none.
int pending_end(const InheritedSignals& inherited);

/// Forgets the relayed signals that have come, such as the Ctrl-C that ended the command.
void drain_relayed_signals();

/// Gives the inherited state back; async-signal-safe, for the child between fork and exec.
void restore_signals(const InheritedSignals& inherited);

/// SIGXFSZ is ignored from here on: a file that is too long is an error of write like any other.
void ignore_file_limit();

}  // namespace toporun::launcher
