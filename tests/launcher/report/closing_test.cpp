#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "facts.hpp"
#include "launcher/profiler/in_flight.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/report.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;
using Lines = std::vector<std::string>;

namespace {

bool has_start(const Lines& lines, const std::string& start) {
    const auto starts = [&](const std::string& line) { return line.starts_with(start); };
    return std::any_of(lines.begin(), lines.end(), starts);
}

}  // namespace

TEST_CASE("a run above the limit is warned with the late rank and next steps") {
    CHECK(
        closing_lines(eight_gpu_run()) ==
        Lines{
            "ended with 0 after 12 min 03 s",
            "warning: collectives in flight 34 % of the time (measured, limit 30 %): transfer 11 "
            "%, waiting 23 %, exposed share unknown",
            "rank 5 (node-a, GPU 5) arrives last in 91 % of collectives, the others wait 41 ms "
            "each time",
            "next: compare rank 5 (node-a, GPU 5) with the others: clocks, CPU binding, data "
            "loading, work per step: 0 to 23 % less time (bounded)",
            "next: overlap collectives with compute, reduce in bf16, or accumulate gradients over "
            "more micro-batches: 0 to 11 % less time (bounded)",
            "report: toporun/torchrun-4711.0/report.txt"});
}

TEST_CASE("a run below the limit has its figure and no warning") {
    CHECK(
        closing_lines(ring_run()) ==
        Lines{"ended with 0 after 4.25 s",
              "collectives in flight 9 % of the time (measured, limit 30 %): transfer 6 %, waiting "
              "3 %",
              "next: communication is not the limit here: look at compute and data loading",
              "report: toporun/mpirun-20260301-120000-abcd/report.txt"});
}

TEST_CASE("a run above the limit is warned once, while it goes on or at its end") {
    RunFacts facts = eight_gpu_run();
    facts.measured.window_seconds = 59;
    CHECK_FALSE(live_warning(facts));
    facts.measured.window_seconds = 61;
    REQUIRE(live_warning(facts));
    CHECK(live_warning(facts)->starts_with("warning: collectives in flight 34 %"));
    CHECK(has_start(closing_lines(facts), "warning: collectives in flight 34 %"));
    facts.warned_of_share = true;
    CHECK_FALSE(has_start(closing_lines(facts), "warning: collectives in flight"));
    CHECK(has_start(closing_lines(facts), "collectives in flight 34 %"));
    facts = ring_run();
    facts.measured.window_seconds = 600;
    CHECK_FALSE(live_warning(facts));
    facts.measured = {};
    CHECK_FALSE(live_warning(facts));
}

TEST_CASE("lost records make the share a lower bound that no advice is drawn from") {
    RunFacts facts = ring_run();
    facts.measured.lost = 12;
    facts.measured.label = toporun::profiler::Label::bounded;
    const Lines below = closing_lines(facts);
    CHECK(has_start(below, "collectives in flight at least 9 % of the time (bounded"));
    CHECK_FALSE(has_start(below, "next: communication is not the limit"));
    facts = eight_gpu_run();
    facts.measured.lost = 12;
    for (const std::string& line : closing_lines(facts))
        CHECK(line.find("% less time") == std::string::npos);
}

TEST_CASE("a program without NCCL gets one line") {
    CHECK(closing_lines(plain_run()) == Lines{"ended with 0 after 0.01 s; no sign of NCCL"});
}

TEST_CASE("what was not watched is unknown and not absent") {
    RunFacts facts = plain_run();
    facts.plan.takes_log = facts.plan.measures = false;
    facts.plan.log_reason = "NCCL_DEBUG is set by the user";
    CHECK(
        closing_lines(facts) ==
        Lines{"ended with 0 after 0.01 s; what NCCL did is unknown: NCCL_DEBUG is set by the user",
              "report: toporun/true-20260301-120000-abcd/report.txt"});
    facts = ring_run();
    facts.log = {};
    facts.measured = {};
    for (RankRecord& record : facts.ranks) record.log = "unwritable";
    CHECK(nccl_use(facts) == NcclUse::unknown);
    facts.ranks[0].log = "set";
    CHECK(nccl_use(facts) == NcclUse::no_sign);
    facts.log.notes = {"cannot read /tmp/x: Permission denied"};
    CHECK(nccl_use(facts) == NcclUse::unknown);
}

TEST_CASE("measuring is a next step only where one option makes it possible") {
    RunFacts facts = ring_run();
    facts.measured = {};
    facts.plan.measures = false;
    facts.plan.measure_reason = "NCCL_PROFILER_PLUGIN is set already";
    CHECK_FALSE(has_start(next_steps(facts), "run once with --measure=always"));
    facts.plan.measure_on_demand = true;
    CHECK(has_start(next_steps(facts), "run once with --measure=always"));
}

TEST_CASE("what of the command still runs is named, on which GPU, and what was ended") {
    RunFacts facts = plain_run();
    facts.left = {{4711, "python3", std::vector<int>{1, 2}, std::nullopt},
                  {4712, "a\033b", std::nullopt, std::nullopt},
                  {4713, "sh", std::vector<int>{}, std::nullopt}};
    CHECK(closing_lines(facts)[1] ==
          "still running after the command's end: 4711 (python3, GPU 1 and 2), 4712 (a\\x1bb, GPU "
          "unknown), 4713 (sh); --reap ends what is left");
    CHECK(report_text(facts).find("Left over\n  still running") != std::string::npos);
    facts.left = {{4711, "python3", std::vector<int>{}, 15}, {4712, "sh", std::vector<int>{}, 9}};
    CHECK(closing_lines(facts)[1] ==
          "left by the command and ended: 4711 (python3, SIGTERM), 4712 (sh, SIGKILL)");
    CHECK(closing_lines(facts).size() == 2);
    facts.left.assign(20, {1, "x", std::vector<int>{}, std::nullopt});
    CHECK(closing_lines(facts)[1].find("and 12 more; --reap") != std::string::npos);
}

TEST_CASE("an unknown share is said with its reason and never as zero") {
    struct Row {
        const char* name;
        bool measures;
        std::string reason;
        bool plugin_loaded;
        std::string line;
    };
    const std::vector<Row> rows = {
        {"switched off", false, "NCCL 2.31.0 is known to slow down with it", true,
         "collectives in flight: unknown, NCCL 2.31.0 is known to slow down with it"},
        {"no reason given", false, "", true, "collectives in flight: unknown, it was not measured"},
        {"not loaded", true, "", false,
         "collectives in flight: unknown, NCCL did not load the profiler plugin"},
        {"nothing recorded", true, "", true,
         "collectives in flight: unknown, the profiler plugin recorded no collective"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        RunFacts facts = ring_run();
        facts.measured = {};
        facts.plan.measures = row.measures;
        facts.plan.measure_reason = row.reason;
        if (!row.plugin_loaded) facts.log.plugins.clear();
        const Lines lines = closing_lines(facts);
        CHECK(lines[1] == row.line);
        CHECK_FALSE(has_start(lines, "next: communication is not the limit"));
        for (const std::string& line : lines) CHECK(line.find("0 %") == std::string::npos);
    }
}

TEST_CASE("the share and the limit do not look equal when they are not") {
    RunFacts facts = ring_run();
    facts.measured.in_flight = 0.304;
    CHECK(share_text(facts).starts_with("warning: collectives in flight 30.4 % of the time"));
    facts.measured.in_flight = 0.30;
    CHECK(share_text(facts).starts_with("collectives in flight 30 % of the time"));
    facts.comm_limit = 0.05;
    facts.measured.in_flight = 0.30;
    CHECK(share_text(facts).starts_with("warning: collectives in flight 30 % of the time"));
}

TEST_CASE("a gain has the figure of the share that it comes from") {
    RunFacts facts = eight_gpu_run();
    facts.measured.in_flight = 0.653;
    facts.measured.transfer = 0.528;
    facts.measured.waiting = 0.125;
    CHECK(share_text(facts).find("transfer 53 %, waiting 12 %") != std::string::npos);
    REQUIRE(next_steps(facts).size() == 2);
    CHECK(next_steps(facts)[0].ends_with("0 to 53 % less time (bounded)"));
    CHECK(next_steps(facts)[1].ends_with("0 to 12 % less time (bounded)"));
    facts.measured.in_flight = 0.304;
    facts.measured.transfer = 0.258;
    facts.measured.waiting = 0.046;
    CHECK(share_text(facts).find("transfer 25.8 %, waiting 4.6 %") != std::string::npos);
    CHECK(next_steps(facts)[0].ends_with("0 to 25.8 % less time (bounded)"));
}

TEST_CASE("communication is the limit or not by its share and not by the user's limit") {
    struct Row {
        double in_flight, limit;
        bool said;
    };
    for (const Row& row : {Row{0.65, 0.95, false}, Row{0.15, 0.95, false}, Row{0.149, 0.95, true},
                           Row{0.149, 0.30, true}, Row{0.20, 0.30, false}}) {
        CAPTURE(row.in_flight);
        RunFacts facts = ring_run();
        facts.measured.in_flight = row.in_flight;
        facts.comm_limit = row.limit;
        CHECK(has_start(next_steps(facts), "communication is not the limit") == row.said);
        CHECK(next_steps(facts).size() == 1);
    }
}

TEST_CASE("a rank has no GPU on a machine without one") {
    RunFacts facts = ring_run();
    CHECK(rank_text(facts, 2) == "rank 2 (laptop)");
    facts.machine.hostname = "laptop.example.org";
    CHECK(rank_text(facts, 2) == "rank 2 (laptop)");
    facts.machine.hostname = "head";
    CHECK(rank_text(facts, 2) == "rank 2 (laptop, GPU 2)");
    facts = ring_run();
    facts.machine.gpus.emplace_back();
    CHECK(rank_text(facts, 2) == "rank 2 (laptop, GPU 2)");
}

TEST_CASE("labels are those of the figures") {
    RunFacts facts = eight_gpu_run();
    facts.measured.parts_label = toporun::profiler::Label::bounded;
    CHECK(share_text(facts).find("waiting 23 % (bounded)") != std::string::npos);
    facts.measured.label = toporun::profiler::Label::bounded;
    CHECK(share_text(facts).find("(bounded, limit 30 %)") != std::string::npos);
    facts.measured.transfer = facts.measured.waiting = std::nullopt;
    CHECK(share_text(facts).find("transfer and waiting parts unknown") != std::string::npos);
}

TEST_CASE("the end is told as the command ended") {
    RunFacts facts = plain_run();
    facts.exit.status = 3;
    facts.duration_s = 59.96;
    CHECK(end_text(facts) == "ended with 3 after 1 min 00 s");
    facts.exit = {143, 15};
    facts.duration_s = 7449.0;
    CHECK(end_text(facts) == "ended by SIGTERM after 2 h 04 min 09 s");
    facts.exit = {128 + 63, 63};
    facts.duration_s.reset();
    CHECK(end_text(facts) == "ended by signal 63");
    facts.exit = {};
    CHECK(end_text(facts) == "ended with an unknown status");
    CHECK(duration_text(12.34) == "12.3 s");
    CHECK(duration_text(-1) == "an unknown time");
    CHECK(duration_text(std::numeric_limits<double>::quiet_NaN()) == "an unknown time");
}

TEST_CASE("a late rank is named only when waiting for it costs time") {
    RunFacts facts = eight_gpu_run();
    facts.measured.last->share = 0.4;
    CHECK_FALSE(last_rank_text(facts).has_value());
    CHECK(has_start(next_steps(facts), "even out the work of the ranks"));
    facts = eight_gpu_run();
    facts.measured.waiting = 0.01;
    CHECK_FALSE(last_rank_text(facts).has_value());
    facts.measured.waiting.reset();
    CHECK_FALSE(last_rank_text(facts).has_value());
}

TEST_CASE("small collectives get another step than large ones") {
    RunFacts facts = eight_gpu_run();
    facts.measured.transfer = 0.4;
    facts.measured.rows[0].bytes = facts.measured.rows[0].count * 4096;
    CHECK(next_steps(facts)[0].find("they are 4 KiB on average") != std::string::npos);
    facts.measured.rows.clear();
    facts.log.node_count = 2;
    CHECK(next_steps(facts)[0].starts_with("shard within a node"));
}

TEST_CASE("a failed run points to the first warning of NCCL") {
    RunFacts facts = ring_run();
    facts.exit.status = 1;
    facts.log.warnings = {{"connection refused", "socket.cc:9", "laptop", 4002, 2, 5}};
    facts.log.warning_count = 7;
    const Lines lines = closing_lines(facts);
    CHECK(has_start(lines, "NCCL warned on rank 2 (laptop): connection refused (7 warnings"));
    CHECK(has_start(lines, "next: read NCCL's first warning, of rank 2 (laptop)"));
}

TEST_CASE("there are never more than ten lines and at most three steps") {
    RunFacts facts = eight_gpu_run();
    facts.log.versions = {"2.28.9", "2.19.3"};
    for (LogTransport& row : facts.log.transports) {
        row.transport = toporun::detect::nccl_log::Transport::shm;
    }
    facts.log.warnings = {{"w", "", "h", 1, std::nullopt, 1}};
    for (int i = 0; i < 20; ++i) {
        facts.plan.findings.push_back(
            {"x", toporun::env::Severity::broken, "w", "e", "f", "fix", ""});
    }
    const Lines lines = closing_lines(facts);
    CHECK(lines.size() == 10);
    CHECK(lines.back() == "report: toporun/torchrun-4711.0/report.txt");
    CHECK(next_steps(facts).size() == 3);
}

TEST_CASE("the lines of a bad end are ten with what the nodes add") {
    RunFacts facts = eight_gpu_run();
    facts.failure.emplace();
    facts.failure->evidence = "a line of the log";
    facts.left = {{41, "python", std::nullopt, 15}, {42, "python", std::nullopt, std::nullopt}};
    facts.log.warnings.push_back({"refused", "socket.cc:1", "node-a", 4001, 1, 3});
    facts.log.warning_count = 1;
    for (const std::size_t others : {0U, 1U, 2U}) {
        CAPTURE(others);
        const Lines lines = closing_lines(facts, others);
        CHECK(lines.size() + others == 10);
        CHECK(has_start(lines, "still running after the command's end"));
        CHECK(has_start(lines, "NCCL warned on") == (others < 2));
        CHECK(lines.back().starts_with("report: "));
    }
}
