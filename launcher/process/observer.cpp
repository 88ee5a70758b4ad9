#include "launcher/process/observer.hpp"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <span>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "launcher/process/observer_link.hpp"
#include "launcher/process/observer_loop.hpp"

namespace toporun::launcher {
namespace {

using ObserverClock = std::chrono::steady_clock;

/// /dev/null at 0 to 2 and nothing else but these, so that nobody who waits for the end of a pipe
/// or a lock waits for the observer.
void keep_only(std::span<const int> kept) {
    close_descriptors_except(kept);
    for (int fd = 0; fd < 3; ++fd)
        if (::open("/dev/null", O_RDWR) > 2) break;
}

/// A command that reads from the terminal in the background stops its group, not the observer.
void block_terminal_stops() {
    sigset_t stops;
    sigemptyset(&stops);
    sigaddset(&stops, SIGTTIN);
    sigaddset(&stops, SIGTTOU);
    ::sigprocmask(SIG_BLOCK, &stops, nullptr);
}

/// Waits for an observer that is ending, which closes its end of the link, but not for one that the
/// kernel holds.
void reap_briefly(const Observer& observer) {
    constexpr int kTries = 50;
    pollfd wait{observer.link, 0, 0};  // hang-up only
    ::poll(&wait, 1, 2 * kTries);
    for (int i = 0; i < kTries && ::waitpid(observer.pid, nullptr, WNOHANG) == 0; ++i)
        ::poll(nullptr, 0, i == 0 ? 0 : 2);
}

}  // namespace

Observer start_observer(const ObserverTask& task) {
    const LinkPair link = make_link();
    const pid_t pid = ::fork();
    if (pid < 0) {
        const int error = errno;
        ::close(link.supervisor);
        ::close(link.observer);
        throw Error(std::string("no process for the observer: ") + std::strerror(error));
    }
    if (pid > 0) {
        ::close(link.observer);
        return {pid, link.supervisor};
    }
    ::prctl(PR_SET_NAME, "toporun-observer");
    block_terminal_stops();
    const int error_copy = task.silent ? -1 : ::fcntl(2, F_DUPFD_CLOEXEC, 3);
    keep_only(std::array{link.observer, error_copy, task.held});
    try {
        run_observer(task, link.observer, error_copy);
    } catch (const std::exception&) {
        ::_exit(1);  // the supervisor sees the link close and says so
    }
    ::_exit(0);
}

ReportState finish_observer(Observer& observer, int wait_status, double wait_s,
                            const std::function<bool()>& interrupted) {
    if (observer.pid < 0) return ReportState::lost;
    send_message(observer.link, {LinkKind::ended, wait_status});
    const auto deadline = ObserverClock::now() + std::chrono::duration<double>(wait_s);
    ReportState state = ReportState::late;
    while (state == ReportState::late) {
        const auto left =
            std::chrono::duration_cast<std::chrono::milliseconds>(deadline - ObserverClock::now());
        if (left.count() <= 0 || interrupted()) break;
        pollfd wait{observer.link, POLLIN, 0};
        ::poll(&wait, 1, static_cast<int>(std::min<std::int64_t>(left.count(), 50)));
        LinkMessage message;
        switch (receive_message(observer.link, message)) {
            case LinkState::closed:
                state = ReportState::lost;
                break;
            case LinkState::message:
                if (message.kind == LinkKind::done) state = ReportState::written;
                break;
            case LinkState::nothing:
                break;
        }
    }
    if (state == ReportState::late) ::kill(observer.pid, SIGKILL);
    reap_briefly(observer);
    ::close(observer.link);
    observer = {};
    return state;
}

void report_later(ObserverTask task, int wait_status, double seconds) {
    task.quiet = true;
    task.silent = true;
    task.facts.duration_s = seconds;
    Observer observer = start_observer(task);
    send_message(observer.link, {LinkKind::ended, wait_status});
    ::close(observer.link);
}

void dismiss_observer(Observer& observer) {
    if (observer.pid < 0) return;
    ::kill(observer.pid, SIGKILL);
    reap_briefly(observer);
    ::close(observer.link);
    observer = {};
}

}  // namespace toporun::launcher
