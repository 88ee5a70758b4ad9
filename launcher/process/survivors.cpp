#include "launcher/process/survivors.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>

#include "base/descriptors.hpp"

namespace toporun::launcher {
namespace {

using SteadyClock = std::chrono::steady_clock;
using std::chrono::milliseconds;

constexpr milliseconds kSettleTime{300};
constexpr milliseconds kTermPatience{5000};
constexpr milliseconds kKillPatience{1000};
constexpr milliseconds kLookAgain{20};

bool is_own(const ProcessInfo& process, pid_t supervisor, pid_t self) {
    // 15 characters of a name are kept (prctl(2)); an inner toporun's observer ends by itself.
    return process.pid == supervisor || process.pid == self || process.name == "toporun-observe";
}

bool is_same(const ProcessInfo& a, const ProcessInfo& b) {
    return a.pid == b.pid && a.start_ticks == b.start_ticks;
}

/// Those of `processes` that run on after `patience`; sooner when none is left.
std::vector<ProcessInfo> wait_for_end(std::vector<ProcessInfo> processes, milliseconds patience) {
    const auto until = SteadyClock::now() + patience;
    while (!(processes = still_running(processes)).empty() && SteadyClock::now() < until)
        ::poll(nullptr, 0, static_cast<int>(kLookAgain.count()));
    return processes;
}

/// Through a pidfd, so that no other process that got the number since is hit. False when the
/// process had ended by itself, or the signal is refused.
bool send_signal(const ProcessInfo& process, int signal) {
    const Descriptor fd(static_cast<int>(::syscall(SYS_pidfd_open, process.pid, 0)));
    if (still_running({process}).empty()) return false;
    return (fd ? ::syscall(SYS_pidfd_send_signal, fd.get(), signal, nullptr, 0)
               : ::kill(process.pid, signal)) == 0;
}

}  // namespace

std::vector<ProcessInfo> processes_below(pid_t supervisor, pid_t self) {
    std::vector<ProcessInfo> found = process_tree(supervisor);
    std::erase_if(found, [&](const ProcessInfo& p) { return is_own(p, supervisor, self); });
    return still_running(found);
}

std::vector<ProcessInfo> find_survivors(pid_t supervisor, pid_t self) {
    const std::vector<ProcessInfo> settled =
        wait_for_end(processes_below(supervisor, self), kSettleTime);
    if (settled.empty()) return {};
    std::vector<ProcessInfo> now = processes_below(supervisor, self);  // with the names of today
    std::erase_if(now, [&](const ProcessInfo& process) {
        return std::none_of(settled.begin(), settled.end(),
                            [&](const ProcessInfo& known) { return is_same(known, process); });
    });
    return now;
}

std::vector<Reaped> reap_survivors(pid_t supervisor, pid_t self,
                                   const std::vector<ProcessInfo>& survivors) {
    std::vector<Reaped> all;
    const auto remember = [&](const ProcessInfo& process, int signal) {
        const auto known = std::find_if(all.begin(), all.end(), [&](const Reaped& reaped) {
            return is_same(reaped.process, process);
        });
        if (known == all.end())
            all.push_back({process, signal});
        else
            known->signal = signal;
    };
    const auto signal_all = [&](const std::vector<ProcessInfo>& processes, int signal) {
        for (const ProcessInfo& process : processes)
            if (send_signal(process, signal)) remember(process, signal);
    };
    signal_all(survivors, SIGTERM);
    wait_for_end(survivors, kTermPatience);
    const std::vector<ProcessInfo> stubborn = processes_below(supervisor, self);
    signal_all(stubborn, SIGKILL);
    for (const ProcessInfo& process : wait_for_end(stubborn, kKillPatience))
        remember(process, 0);  // held by the kernel
    return all;
}

}  // namespace toporun::launcher
