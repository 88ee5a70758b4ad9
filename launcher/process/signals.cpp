#include "launcher/process/signals.hpp"

#include <ctime>
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
    sigprocmask(SIG_BLOCK, nullptr, &inherited.mask);
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    sigaction(SIGPIPE, &action, &inherited.pipe);
    sigaction(SIGXFSZ, &action, &inherited.file_limit);
    action.sa_handler = SIG_DFL;
    sigaction(SIGCHLD, &action, &inherited.child);
    return inherited;
}

void block_relayed_signals() {
    sigset_t blocked = relayed_signals();
    sigaddset(&blocked, SIGCHLD);
    sigprocmask(SIG_BLOCK, &blocked, nullptr);
}

int pending_end(const InheritedSignals& inherited) {
    sigset_t pending;
    if (sigpending(&pending) != 0) return 0;
    for (const int signal : {SIGTERM, SIGHUP, SIGINT, SIGQUIT, SIGUSR1, SIGUSR2}) {
        struct sigaction action {};
        if (sigismember(&pending, signal) == 1 && sigismember(&inherited.mask, signal) == 0 &&
            sigaction(signal, nullptr, &action) == 0 && action.sa_handler == SIG_DFL)
            return signal;
    }
    return 0;
}

void drain_relayed_signals() {
    const sigset_t relayed = relayed_signals();
    const timespec no_wait{};
    while (sigtimedwait(&relayed, nullptr, &no_wait) > 0) {
    }
}

void restore_signals(const InheritedSignals& inherited) {
    sigaction(SIGPIPE, &inherited.pipe, nullptr);
    sigaction(SIGXFSZ, &inherited.file_limit, nullptr);
    sigaction(SIGCHLD, &inherited.child, nullptr);
    sigprocmask(SIG_SETMASK, &inherited.mask, nullptr);
}

void ignore_file_limit() {
    struct sigaction action {};
    action.sa_handler = SIG_IGN;
    sigaction(SIGXFSZ, &action, nullptr);
}

}  // namespace toporun::launcher
