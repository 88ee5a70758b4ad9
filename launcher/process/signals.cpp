#include "launcher/process/signals.hpp"

#include <initializer_list>

namespace toporun::launcher {

sigset_t relayed_signals() {
    sigset_t set;
    sigemptyset(&set);
    for (const int signal :
         {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH, SIGCONT, SIGTSTP})
        sigaddset(&set, signal);
    return set;
}

InheritedSignals take_signals() {
    InheritedSignals inherited{};
    const sigset_t relayed = relayed_signals();
    sigprocmask(SIG_BLOCK, &relayed, &inherited.mask);
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &inherited.pipe);
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &inherited.child);
    return inherited;
}

void restore_signals(const InheritedSignals& inherited) {
    sigaction(SIGPIPE, &inherited.pipe, nullptr);
    sigaction(SIGCHLD, &inherited.child, nullptr);
    sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
}

}  // namespace toporun::launcher
