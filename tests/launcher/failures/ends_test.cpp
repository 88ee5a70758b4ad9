#include <csignal>

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "read.hpp"

using namespace toporun::launcher::failures;
using namespace toporun::tests;

namespace {

/// An end by a status, or for negative numbers by a signal.
RankProcess ended(int rank, int status, double at) {
    RankProcess process;
    process.rank = rank;
    process.host = "node-a";
    process.pid = 1000 + rank;
    process.end_s = at;
    if (status < 0)
        process.signal = -status;
    else
        process.code = status;
    return process;
}

RankProcess unknown(int rank, double at) {
    RankProcess process = ended(rank, 0, at);
    process.code.reset();
    return process;
}

RankProcess unseen(int rank) {
    RankProcess process = unknown(rank, 0);
    process.end_s.reset();
    return process;
}

struct Ends {
    std::string name;
    std::vector<RankProcess> processes;
    std::string cause;  ///< "" for none
    std::optional<int> rank;
    Confidence confidence = Confidence::likely;
    int started = 0;  ///< ranks of the job; 0 = those
};

std::optional<Verdict> judge_ends(const Ends& row, Evidence evidence = {}) {
    evidence.processes = row.processes;
    evidence.ranks_started = row.started > 0 ? row.started : static_cast<int>(row.processes.size());
    return judge(evidence, Catalogue::builtin());
}

}  // namespace

TEST_CASE("the rank whose process ended first, whatever the launcher made of it") {
    const std::vector<Ends> rows = {
        {"a status", {ended(0, -SIGTERM, 2.1), ended(1, 3, 2.0)}, "silent-exit", 1},
        {"a crash", {ended(0, 1, 2.5), ended(1, -SIGSEGV, 2.0)}, "native-crash", 1},
        {"an abort", {ended(0, -SIGABRT, 2.0), ended(1, -SIGTERM, 2.1)}, "native-crash", 0},
        {"a kill", {ended(0, -SIGTERM, 2.1), ended(1, -SIGKILL, 2.0)}, "unknown-kill", 1},
        {"a rank that ended well does not count",
         {ended(0, 0, 1.0), ended(1, 7, 2.0), ended(2, -SIGTERM, 2.1)},
         "silent-exit",
         1},
        {"a victim at the same moment is no rival",
         {ended(0, -SIGTERM, 2.0), ended(1, -SIGSEGV, 2.0), ended(2, -SIGKILL, 2.0)},
         "native-crash",
         1},
        {"two at the same moment",
         {ended(0, 7, 2.0), ended(1, -SIGSEGV, 2.0)},
         "silent-exit",
         0,
         Confidence::possible},
        {"no program", {ended(0, 127, 0.1), ended(1, -SIGTERM, 0.2)}, "environment", 0},
        {"not executable", {ended(0, 126, 0.1), ended(1, -SIGTERM, 0.2)}, "environment", 0},
        {"all alike: one cause, or one rank and its victims",
         {ended(0, 1, 2.2), ended(1, 1, 2.0), ended(2, 1, 2.1)},
         "silent-exit",
         1,
         Confidence::possible},
        {"all seen ones alike, others are on another node",
         {ended(0, 1, 2.2), ended(1, 1, 2.0)},
         "silent-exit",
         1,
         Confidence::possible,
         4},
        {"an abort, perhaps because of a rank on another node",
         {ended(0, -SIGABRT, 602.0), ended(1, -SIGTERM, 602.1)},
         "native-crash",
         0,
         Confidence::possible,
         4},
        {"no program on this node, whatever the others did",
         {ended(0, 127, 0.1), ended(1, -SIGTERM, 0.2)},
         "environment",
         0,
         Confidence::likely,
         4},
        {"somebody ended all",
         {ended(0, -SIGTERM, 2.0), ended(1, -SIGTERM, 2.1)},
         "signal-external",
         std::nullopt},
        {"the ranks here were ended, nobody knows of the others",
         {ended(0, -SIGTERM, 2.0), ended(1, -SIGTERM, 2.1)},
         "",
         std::nullopt,
         Confidence::unknown,
         4},
        {"how the first ended was not seen",
         {ended(0, -SIGTERM, 2.1), unknown(1, 2.0)},
         "unknown-kill",
         1,
         Confidence::possible},
        {"a rank that may have ended well", {unknown(0, 1.0), ended(1, 4, 2.0)}, "silent-exit", 1},
        {"all ended well", {ended(0, 0, 2.0), ended(1, 0, 2.1)}, "", std::nullopt},
        {"no end was seen", {unseen(0), unseen(1)}, "", std::nullopt},
    };
    for (const Ends& row : rows) {
        CAPTURE(row.name);
        const auto verdict = judge_ends(row);
        if (row.cause.empty()) {
            CHECK_FALSE(verdict);
            continue;
        }
        REQUIRE(verdict);
        CHECK(verdict->cause == row.cause);
        CHECK(verdict->rank == row.rank);
        CHECK(confidence_text(verdict->confidence) == confidence_text(row.confidence));
        CHECK_FALSE(verdict->advice.empty());
    }
}

TEST_CASE("an end says which process, how, when, and who followed") {
    const auto verdict =
        judge_ends({"", {ended(0, -SIGTERM, 2.5), ended(1, -SIGSEGV, 2.0)}, "", 1});
    REQUIRE(verdict);
    CHECK(verdict->node == "node-a");
    CHECK(verdict->pid == 1001);
    CHECK(verdict->what == "rank 1 (node-a): ended by SIGSEGV, before all other ranks");
    CHECK(verdict->evidence ==
          "process 1001 (rank 1) ended by SIGSEGV 2.000 s after the start; rank 0 ended 0.500 s "
          "later by SIGTERM");
}

TEST_CASE("an end is not said to be the first of the job where other nodes have ranks") {
    const auto verdict = judge_ends({"",
                                     {ended(0, -SIGABRT, 602.0), ended(1, -SIGTERM, 602.1)},
                                     "",
                                     0,
                                     Confidence::possible,
                                     4});
    REQUIRE(verdict);
    CHECK(verdict->what ==
          "rank 0 (node-a): ended by SIGABRT, before all other ranks whose end was seen here");
    const auto unseen = judge_ends(
        {"", {unknown(0, 2.0), ended(1, -SIGTERM, 2.1)}, "", 0, Confidence::possible, 4});
    REQUIRE(unseen);
    CHECK(
        unseen->what ==
        "rank 0 (node-a): ended before all other ranks whose end was seen here, how was not seen");
}

TEST_CASE("a rank's own account says more than its end") {
    const Ends ends{"", {ended(0, 1, 2.0), ended(1, 1, 2.1)}, "", 1};
    const auto verdict = judge_ends(
        ends, read_failures_of_text("[rank1]: Traceback (most recent call last):\n"
                                    "[rank1]:   File \"/home/user/train.py\", line 9, in step\n"
                                    "[rank1]: ValueError: bad sample\n")
                  .evidence());
    REQUIRE(verdict);
    CHECK(verdict->cause == "user-exception");
    CHECK(verdict->rank == 1);
    CHECK(verdict->confidence == Confidence::certain);
}

TEST_CASE("of several starts the first that failed counts") {
    Ends ends{"", {ended(0, 5, 2.0), ended(0, -SIGSEGV, 9.0)}, "", 0};
    ends.processes[1].attempt = 1;
    Evidence evidence;
    evidence.attempts = 1;
    const auto verdict = judge_ends(ends, evidence);
    REQUIRE(verdict);
    CHECK(verdict->cause == "silent-exit");
}
