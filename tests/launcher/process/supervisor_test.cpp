#include "launcher/process/supervisor.hpp"

#include <doctest/doctest.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>

#include "files.hpp"
#include "launcher/process/observer_link.hpp"
#include "launcher/process/process_tree.hpp"
#include "launcher/process/signal_window.hpp"
#include "launcher/process/survivors.hpp"

namespace toporun::launcher {
namespace {

/// Supervises in a process of its own, as the program does, and returns what that process returned.
template <class Body>
int in_child(Body&& body) {
    const pid_t pid = ::fork();
    REQUIRE(pid >= 0);
    if (pid == 0) ::_exit(body());
    int status = 0;
    REQUIRE(::waitpid(pid, &status, 0) == pid);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

ChildEnd shell(const std::string& script) {
    const InheritedSignals inherited = take_signals();
    return supervise({"/bin/sh", {"sh", "-c", script}, {"PATH=/usr/bin:/bin", "A=b c"}, true},
                     inherited, -1);
}

TEST_CASE("the wait status is the command's own") {
    struct Row {
        std::string script;
        int status;
    };
    const std::vector<Row> rows = {
        {"exit 0", 0},          {"exit 3", 3 << 8},         {"exit 9", 9 << 8},
        {"exit 255", 255 << 8}, {"kill -KILL $$", SIGKILL}, {"kill -TERM $$", SIGTERM}};
    for (const Row& row : rows) {
        CAPTURE(row.script);
        CHECK(in_child([&] {
                  const ChildEnd end = shell(row.script);
                  const int without_core = end.status & ~0x80;
                  return end.started && without_core == row.status ? 0 : 1;
              }) == 0);
    }
}

TEST_CASE("the status is not lost when the caller ignores SIGCHLD") {
    CHECK(in_child([] {
              ::signal(SIGCHLD, SIG_IGN);
              return WEXITSTATUS(shell("exit 4").status);
          }) == 4);
}

TEST_CASE("the command gets the inherited signal state") {
    // SigBlk and SigIgn of proc(5): bit n-1 is signal n.
    CHECK(in_child([] {
              ::signal(SIGPIPE, SIG_DFL);
              ::signal(SIGUSR2, SIG_IGN);
              const ChildEnd end = shell(
                  "blocked=$(sed -n 's/^SigBlk:\\t//p' /proc/self/status); "
                  "ignored=$(sed -n 's/^SigIgn:\\t//p' /proc/self/status); "
                  "[ $(( 0x$blocked )) = 0 ] && [ $(( 0x$ignored & 0x1800 )) = $(( 0x800 )) ]");
              return WEXITSTATUS(end.status);
          }) == 0);
}

TEST_CASE("a command that cannot be forked leaves a process that adopts nobody") {
    int failed = 0;
    for (rlim_t descriptors = 3; descriptors < 40; ++descriptors) {
        // 0: the command ran, 1: there was no descriptor for it, 2: and orphans are adopted still.
        const int outcome = in_child([&] {
            const rlimit few{descriptors, descriptors};
            ::setrlimit(RLIMIT_NOFILE, &few);
            try {
                const InheritedSignals inherited = take_signals();
                const ChildEnd end = supervise({"/bin/true", {"true"}, {}, true}, inherited, -1);
                return end.started ? 0 : 1;
            } catch (const std::exception&) {
                int adopts = 0;
                ::prctl(PR_GET_CHILD_SUBREAPER, &adopts);
                return adopts == 0 ? 1 : 2;
            }
        });
        CAPTURE(descriptors);
        CHECK(outcome != 2);
        failed += outcome == 1;
    }
    CHECK(failed > 0);
}

TEST_CASE("what a dead process of the command left is below the supervisor") {
    CHECK(in_child([] {
              ::prctl(PR_SET_CHILD_SUBREAPER, 1);
              const pid_t self = ::getpid();
              int waits[2];  // the orphan ends when this process does
              if (::pipe(waits) != 0) return 1;
              int told[2];
              if (::pipe(told) != 0) return 1;
              const pid_t middle = ::fork();
              if (middle == 0) {
                  if (const pid_t orphan = ::fork(); orphan != 0) {
                      const bool written =
                          ::write(told[1], &orphan, sizeof orphan) == sizeof orphan;
                      ::_exit(written ? 0 : 1);
                  }
                  ::close(waits[1]);
                  char end = 0;
                  ::_exit(static_cast<int>(::read(waits[0], &end, 1)));
              }
              pid_t orphan = 0;
              if (::read(told[0], &orphan, sizeof orphan) != sizeof orphan) return 2;
              ::waitpid(middle, nullptr, 0);
              for (const ProcessInfo& process : process_tree(middle))
                  if (process.pid == orphan) return 3;
              const auto found = processes_below(self, self);
              return found.size() == 1 && found.front().pid == orphan ? 0 : 4;
          }) == 0);
}

TEST_CASE("the environment is exactly what was given") {
    CHECK(in_child([] {
              return WEXITSTATUS(shell("test \"$A\" = 'b c' && test -z \"$HOME\"").status);
          }) == 0);
}

TEST_CASE("a command that cannot be run has an errno and leaves no zombie") {
    CHECK(in_child([] {
              const InheritedSignals inherited = take_signals();
              const ChildEnd end = supervise({"/nonexistent/x", {"x"}, {}, true}, inherited, -1);
              const bool no_child = ::waitpid(-1, nullptr, WNOHANG) == -1 && errno == ECHILD;
              return !end.started && end.error == ENOENT && no_child ? 0 : 1;
          }) == 0);
}

TEST_CASE("a script without an interpreter line runs under the shell with its arguments") {
    const tests::TemporaryDirectory temporary;
    const std::string script = temporary.write("script", "test \"$1\" = one && exit 6\n").string();
    REQUIRE(::chmod(script.c_str(), 0755) == 0);
    CHECK(in_child([&] {
              const InheritedSignals inherited = take_signals();
              return WEXITSTATUS(
                  supervise({script, {"script", "one"}, {}, true}, inherited, -1).status);
          }) == 6);
}

TEST_CASE("a signal from a process is passed on when nobody witnesses it") {
    CHECK(in_child([] {
              const ChildEnd end =
                  shell("trap 'exit 7' USR1; kill -USR1 $PPID & wait; while :; do wait; done");
              return WEXITSTATUS(end.status);
          }) == 7);
}

TEST_CASE("a signal is passed on once unless the witness saw it within the window") {
    using namespace std::chrono_literals;
    const SignalWindow::Time start{1h};
    SUBCASE("nobody saw it") {
        SignalWindow window;
        CHECK(window.arrived(SIGTERM, start));
        CHECK(window.decide(SIGTERM));
    }
    SUBCASE("seen after it arrived") {
        SignalWindow window;
        CHECK(window.arrived(SIGTERM, start));
        window.witnessed(SIGTERM, start + 10ms);
        CHECK_FALSE(window.decide(SIGTERM));
    }
    SUBCASE("seen just before it arrived") {
        SignalWindow window;
        window.witnessed(SIGTERM, start);
        CHECK(window.arrived(SIGTERM, start + 10ms));
        CHECK_FALSE(window.decide(SIGTERM));
    }
    SUBCASE("seen long before it arrived") {
        SignalWindow window;
        window.witnessed(SIGTERM, start);
        CHECK(window.arrived(SIGTERM, start + 60ms));
        CHECK(window.decide(SIGTERM));
    }
    SUBCASE("a repeat within the window counts once") {
        SignalWindow window;
        CHECK(window.arrived(SIGTERM, start));
        CHECK_FALSE(window.arrived(SIGTERM, start + 1ms));
        CHECK(window.decide(SIGTERM));
        CHECK_FALSE(window.decide(SIGTERM));
    }
    SUBCASE("a sight is used up by the signal it belongs to") {
        SignalWindow window;
        CHECK(window.arrived(SIGTERM, start));
        window.witnessed(SIGTERM, start + 45ms);
        CHECK_FALSE(window.decide(SIGTERM));
        CHECK(window.arrived(SIGTERM, start + 60ms));
        CHECK(window.decide(SIGTERM));
    }
    SUBCASE("signals are counted apart") {
        SignalWindow window;
        CHECK(window.arrived(SIGTERM, start));
        window.witnessed(SIGINT, start);
        CHECK(window.decide(SIGTERM));
    }
    SUBCASE("numbers that are no signal are ignored") {
        SignalWindow window;
        window.witnessed(-1, start);
        CHECK_FALSE(window.arrived(65, start));
        CHECK_FALSE(window.decide(0));
    }
}

TEST_CASE("links carry whole messages and notice their end") {
    const LinkPair link = make_link();
    LinkMessage message;
    CHECK(receive_message(link.supervisor, message) == LinkState::nothing);
    CHECK(send_message(link.observer, {LinkKind::saw_signal, 15}));
    CHECK(receive_message(link.supervisor, message) == LinkState::message);
    CHECK(message.kind == LinkKind::saw_signal);
    CHECK(message.value == 15);
    int sent = 0;
    while (sent < 1'000'000 && send_message(link.supervisor, {LinkKind::started, sent})) ++sent;
    CHECK(sent < 1'000'000);  // a full buffer refuses, it does not wait
    ::close(link.observer);
    CHECK(receive_message(link.supervisor, message) == LinkState::closed);
    CHECK_FALSE(send_message(link.supervisor, {LinkKind::started, 1}));
    ::close(link.supervisor);
}

TEST_CASE("the process tree holds the process itself and its children") {
    const pid_t child = ::fork();
    REQUIRE(child >= 0);
    if (child == 0) {
        ::pause();
        ::_exit(0);
    }
    const std::vector<ProcessInfo> tree = process_tree(::getpid());
    REQUIRE(tree.size() >= 2);
    CHECK(tree.front().pid == ::getpid());
    CHECK(still_running(tree).size() == tree.size());
    ::kill(child, SIGKILL);
    ::waitpid(child, nullptr, 0);
    CHECK(still_running(tree).size() == tree.size() - 1);
}

}  // namespace
}  // namespace toporun::launcher
