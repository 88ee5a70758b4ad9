#include "launcher/process/survivors.hpp"

#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <cstddef>
#include <vector>

#include <doctest/doctest.h>

using namespace toporun::launcher;

namespace {

/// A process that stands for toporun's supervisor: it starts two others and collects what ends.
class StandIn {
  public:
    StandIn() {
        std::array<int, 2> told{};
        REQUIRE(::pipe(told.data()) == 0);
        pid_ = ::fork();
        REQUIRE(pid_ >= 0);
        if (pid_ == 0) supervise(told[1]);
        ::close(told[1]);
        const bool read = ::read(told[0], workers_.data(), sizeof workers_) == sizeof workers_;
        ::close(told[0]);
        REQUIRE(read);
    }
    StandIn(const StandIn&) = delete;
    StandIn& operator=(const StandIn&) = delete;
    ~StandIn() {
        for (const ProcessInfo& left : processes_below(pid_, ::getpid())) ::kill(left.pid, SIGKILL);
        ::kill(pid_, SIGKILL);
        ::waitpid(pid_, nullptr, 0);
    }

    pid_t pid() const { return pid_; }
    pid_t worker(std::size_t i) const { return workers_.at(i); }

    /// Ends a worker as if it did so by itself, and waits until it is gone.
    void end_worker(std::size_t i) const {
        const auto handle = static_cast<int>(::syscall(SYS_pidfd_open, worker(i), 0));
        ::kill(worker(i), SIGKILL);
        pollfd ended{handle, POLLIN, 0};
        CHECK(::poll(&ended, 1, -1) == 1);
        ::close(handle);
    }

  private:
    [[noreturn]] static void supervise(int told) {
        ::prctl(PR_SET_PDEATHSIG, SIGKILL);
        ::prctl(PR_SET_CHILD_SUBREAPER, 1);
        std::array<pid_t, 2> workers{};
        for (pid_t& worker : workers) {
            worker = ::fork();
            if (worker != 0) continue;
            ::prctl(PR_SET_PDEATHSIG, SIGKILL);
            ::signal(SIGTERM, SIG_DFL);  // not doctest's
            for (;;) ::pause();
        }
        if (::write(told, workers.data(), sizeof workers) != sizeof workers) ::_exit(1);
        while (::waitpid(-1, nullptr, 0) > 0) {
        }
        for (;;) ::pause();
    }

    pid_t pid_ = -1;
    std::array<pid_t, 2> workers_{};
};

}  // namespace

TEST_CASE("a survivor that ended by itself was not ended by a signal of toporun") {
    const StandIn supervisor;
    const std::vector<ProcessInfo> survivors = processes_below(supervisor.pid(), ::getpid());
    REQUIRE(survivors.size() == 2);
    supervisor.end_worker(0);
    const std::vector<Reaped> reaped = reap_survivors(supervisor.pid(), ::getpid(), survivors);
    REQUIRE(reaped.size() == 1);
    CHECK(reaped[0].process.pid == supervisor.worker(1));
    CHECK(reaped[0].signal == SIGTERM);
    CHECK(processes_below(supervisor.pid(), ::getpid()).empty());
}
