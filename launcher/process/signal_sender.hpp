#pragma once

#include <sys/types.h>

#include <csignal>
#include <string>

struct signalfd_siginfo;

namespace toporun::launcher {

/// Who sent a signal, as the kernel tells it (signalfd(2)); of fixed size, to be sent to the
/// observer.
struct SignalSender {
    pid_t pid = 0;       ///< 0: outside this PID namespace, or the kernel
    uid_t uid = 0;       ///< real user
    char name[16] = {};  ///< its comm at that moment; "" = it had ended, or is not to be seen here
};

/// The name is read at once: kill(1) ends as soon as it has sent the signal.
SignalSender sender_of(const signalfd_siginfo& info);

/// "timeout (process 4711)", "process 4711 of user 1001, which has ended", "a process that is not
/// seen from here"; `own`: this process's user, which is not named. Printable.
std::string sender_text(const SignalSender& sender, uid_t own);

}  // namespace toporun::launcher
