#include "launcher/failures/pattern.hpp"

#include <doctest/doctest.h>

#include <stdexcept>
#include <string>
#include <vector>

using namespace toporun::launcher::failures;

TEST_CASE("a pattern takes numbers, words and text out of a line") {
    const Pattern pattern(
        "noticed that process rank {rank} with PID {pid} on node {node} exited on signal {signal}");
    const std::string line =
        "mpirun noticed that process rank 1 with PID 0 on node node-a exited on signal 11 "
        "(Segmentation fault).";
    const auto found = pattern.match(line);
    REQUIRE(found);
    CHECK(found->number("rank") == 1);
    CHECK(found->number("pid") == 0);
    CHECK(found->text("node") == "node-a");
    CHECK(found->number("signal") == 11);
    CHECK_FALSE(found->text("code"));
}

TEST_CASE("what a pattern matches and what not") {
    struct Row {
        std::string pattern, line;
        bool matches;
    };
    const std::vector<Row> rows = {
        {"^MemoryError", "MemoryError", true},
        {"^MemoryError", "x MemoryError", false},
        {"Failures:$", "Failures:", true},
        {"Failures:$", "Failures: 3", false},
        {"task {task}: Killed", "srun: error: n1: task 1: Killed", true},
        {"task {task}: Killed", "srun: error: n1: task 0-1: Killed", false},
        {"task {task}: Killed", "task x: task 3: Killed", true},
        {"CANCELLED AT …DUE TO TIME LIMIT",
         "*** JOB 10 ON n1 CANCELLED AT 2026 DUE TO TIME LIMIT ***", true},
        {"CANCELLED AT …DUE TO TIME LIMIT", "*** JOB 10 ON n1 CANCELLED AT 2026 ***", false},
        {"Tried {size}. GPU {gpu} ", "Tried 2.00 GiB. GPU 3 has", true},
        {"Tried {size}. GPU {gpu} ", "Tried 2.00 GiB. GPU x has", false},
        {"code {code}", "code -9", true},
        {"code {code}", "code -", false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.pattern);
        CAPTURE(row.line);
        CHECK(Pattern(row.pattern).match(row.line).has_value() == row.matches);
    }
}

TEST_CASE("a text capture ends at the following text") {
    const std::string line =
        "Rank 1 is running collective: A(x, y), but Rank 0 is running collective: B(z).";
    const auto found = Pattern(
                           "Rank {rank} is running collective: {mine}, but Rank {rank_b} is "
                           "running collective: {theirs}")
                           .match(line);
    REQUIRE(found);
    CHECK(found->text("mine") == "A(x, y)");
    CHECK(found->number("rank_b") == 0);
    CHECK(found->text("theirs") == "B(z).");
}

TEST_CASE("patterns that could match anything are refused") {
    for (const char* text : {"", "{rank}", "…", "ab{rank}c", "four {open"})
        CHECK_THROWS_AS(Pattern{text}, std::invalid_argument);
}

TEST_CASE("a long hostile line takes linear time") {
    const Pattern pattern("rank {rank} with PID {pid} on {node} exited …signal {signal} end");
    std::string line;
    for (int i = 0; i < 200000; ++i) line += "rank 1 with PID 2 on n exited ";
    CHECK_FALSE(pattern.match(line));  // quadratic would not end within the test's time
}

TEST_CASE("the filter finds every pattern that matches") {
    const std::vector<std::string> texts = {"out of memory", "Killed process {pid}",
                                            "^oom_kill {code}"};
    PatternFilter filter;
    std::vector<Pattern> patterns;
    for (const std::string& text : texts) {
        patterns.emplace_back(text);
        filter.add(patterns.back().key(), static_cast<std::uint16_t>(patterns.size() - 1));
    }
    std::vector<std::uint16_t> found;
    filter.find("Memory cgroup out of memory: Killed process 709 (x)", found);
    CHECK(found == std::vector<std::uint16_t>{0, 1});
    filter.find("oom_kill 1", found);
    CHECK(found == std::vector<std::uint16_t>{2});
    filter.find("", found);
    CHECK(found.empty());
}
