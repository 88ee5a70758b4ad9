#include "launcher/process/run_failure.hpp"

#include <csignal>

#include <doctest/doctest.h>

#include "files.hpp"

using namespace toporun::launcher;
using toporun::tests::TemporaryDirectory;

namespace {

RunFacts ended(int status, std::optional<int> signal = {}) {
    RunFacts facts;
    facts.machine.hostname = "node-a";
    facts.exit = {status, signal};
    return facts;
}

}  // namespace

TEST_CASE("a run that ended well has no first cause") {
    const TemporaryDirectory directory;
    directory.write("nccl.0.0.a.1.log",
                    "a:1:1 [0] NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA "
                    "device 10000\n");
    CHECK_FALSE(failure_of_run(ended(0), directory.path(), {1, 2}));
    CHECK_FALSE(failure_of_run(ended(1), "", {}));
    CHECK_FALSE(failure_of_run(ended(1), "", {3, 3}));
}

TEST_CASE("NCCL's own logs name the cause of a run") {
    const TemporaryDirectory directory;
    directory.write("nccl.0.0.a.1.log",
                    "a:1:1 [0] NCCL WARN Duplicate GPU detected : rank 0 and rank 1 both on CUDA "
                    "device 10000\n");
    directory.write("notes.log", "MemoryError\n");
    const auto verdict = failure_of_run(ended(1), directory.path(), {});
    REQUIRE(verdict);
    CHECK(verdict->cause == "nccl-usage");
    CHECK(verdict->rank == 0);
    CHECK(verdict->where == "nccl.0.0.a.1.log:1");
}

TEST_CASE("a kill by the kernel and the command's own death") {
    const auto counted = failure_of_run(ended(1), "", {4, 6});
    REQUIRE(counted);
    CHECK(counted->cause == "host-oom-kill");
    CHECK(counted->evidence == "oom_kill rose from 4 to 6");
    CHECK(failure_of_run(ended(128 + SIGSEGV, SIGSEGV), "", {})->cause == "native-crash");
    CHECK(failure_of_run(ended(128 + SIGKILL, SIGKILL), "", {})->cause == "unknown-kill");
    CHECK(failure_of_run(ended(128 + SIGKILL, SIGKILL), "", {0, 1})->cause == "host-oom-kill");
    CHECK(failure_of_run(ended(128 + SIGTERM, SIGTERM), "", {})->cause == "signal-external");
}

TEST_CASE("a signal shortly before the end") {
    const auto after = [](RunEnd::Signal signal, int status, std::optional<int> killed_by = {}) {
        RunEnd end;
        end.signal = signal;
        return failure_of_run(ended(status, killed_by), "", end);
    };
    const auto twice = after({SIGINT, 2, true, 0.25}, 255);
    REQUIRE(twice);
    CHECK(twice->cause == "signal-external");
    CHECK(twice->what == "Ctrl-C came 2 times before the end");
    CHECK(twice->advice.empty());
    const auto term = after({SIGTERM, 1, false, 30}, 1);
    REQUIRE(term);
    CHECK(term->what == "SIGTERM came before the end");
    CHECK(term->confidence == failures::Confidence::possible);
    CHECK(term->evidence == "30.0 s between the signal and the end");
    CHECK_FALSE(term->advice.empty());
    const auto sent = after({SIGTERM, 1, false, 1, "timeout (process 471)"}, 1);
    REQUIRE(sent);
    CHECK(sent->what == "SIGTERM came from timeout (process 471) before the end");
    const auto died = after({SIGTERM, 1, false, 1, "timeout (process 471)"}, 143, SIGTERM);
    REQUIRE(died);
    CHECK(died->evidence == "the command ended by SIGTERM, which came from timeout (process 471)");
    CHECK(after({SIGINT, 1, false, 1, "timeout (process 471)"}, 143, SIGTERM)->evidence ==
          "the command ended by SIGTERM");
    CHECK_FALSE(after({SIGTERM, 1, false, 300}, 1));
    CHECK_FALSE(after({SIGTERM, 1, false, 1}, 0));
    const auto kill = after({SIGTERM, 1, false, 9}, 128 + SIGKILL, SIGKILL);
    REQUIRE(kill);
    CHECK(kill->cause == "signal-external");
    CHECK(kill->confidence == failures::Confidence::likely);
    CHECK(after({SIGTERM, 1, false, 300}, 128 + SIGKILL, SIGKILL)->cause == "unknown-kill");
    CHECK(after({SIGTERM, 1, false, 1}, 128 + SIGSEGV, SIGSEGV)->cause == "native-crash");
}

TEST_CASE("a launcher that is told to end, kills its ranks and ends with 0") {
    RunFacts facts = ended(0);
    facts.ranks.resize(1);
    facts.ranks[0].rank = 0;
    facts.ranks[0].wait_status = SIGTERM;  // killed by it
    RunEnd end;
    CHECK_FALSE(failure_of_run(facts, "", end));
    end.signal = {SIGTERM, 1, false, 1, "kill (process 7)"};
    REQUIRE(failure_of_run(facts, "", end));
    CHECK(failure_of_run(facts, "", end)->cause == "signal-external");
    facts.ranks[0].wait_status = 0;
    CHECK_FALSE(failure_of_run(facts, "", end));
}
