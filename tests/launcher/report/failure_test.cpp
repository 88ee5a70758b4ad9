#include <doctest/doctest.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "facts.hpp"
#include "launcher/report/report.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;

namespace {

failures::Verdict killed() {
    failures::Verdict verdict;
    verdict.cause = "host-oom-kill";
    verdict.severity = "resource";
    verdict.rank = 1;
    verdict.node = "node-a";
    verdict.what = "rank 1 (node-a): the kernel killed it";
    verdict.evidence = "oom-kill:\x1b[31m pid=383";
    verdict.where = "dmesg.txt:9";
    verdict.confidence = failures::Confidence::certain;
    verdict.advice = {"raise --mem", "fewer loader workers"};
    verdict.remarks = {"2 lines are its consequences"};
    return verdict;
}

RunFacts failed_run() {
    RunFacts facts = ring_run();
    facts.exit = {137, 9};
    facts.failure = killed();
    return facts;
}

}  // namespace

TEST_CASE("the first cause is the first line of every report") {
    const std::string first =
        "first cause: rank 1 (node-a): the kernel killed it [host-oom-kill, certain]";
    const std::vector<std::string> lines = closing_lines(failed_run());
    REQUIRE(lines.size() >= 4);
    CHECK(lines.size() <= 10);
    CHECK(lines[0] == first);
    CHECK(lines[1] == "evidence: oom-kill:\\x1b[31m pid=383");
    const auto has = [&](const std::string& line) {
        return std::find(lines.begin(), lines.end(), line) != lines.end();
    };
    CHECK(has("next: raise --mem"));
    for (const std::string& text : {report_text(failed_run()), log_report_text(failed_run())}) {
        CHECK(text.starts_with("Failure\n  " + first + "\n    evidence: oom-kill:\\x1b[31m"));
        CHECK(text.find("    what to do: raise --mem\n") != text.npos);
    }
}

TEST_CASE("a job without NCCL that failed is told as well") {
    RunFacts facts;
    facts.logs = {"a.log"};
    facts.failure = killed();
    const std::string text = log_report_text(facts);
    CHECK(text.starts_with("Failure\n"));
    CHECK(text.find("no line of NCCL's in a.log") != text.npos);
    RunFacts run = plain_run();
    run.failure = killed();
    CHECK(closing_lines(run).front().starts_with("first cause: "));
    run.failure->from_status_only = true;  // the line on the end says it
    CHECK(closing_lines(run).size() == 1);
}

TEST_CASE("the first failure keeps its contract in JSON") {
    const auto json = nlohmann::json::parse(report_json(failed_run()));
    const auto& failure = json["exit"]["first_failure"];
    CHECK(failure["rank"] == 1);
    CHECK(failure["node"] == "node-a");
    CHECK(failure["cause"] == "host-oom-kill");
    CHECK(failure["evidence"].is_string());
    CHECK(json["next_steps"][0] == "raise --mem");
    RunFacts all = failed_run();
    all.failure->all_ranks = true;
    CHECK(nlohmann::json::parse(report_json(all))["exit"]["first_failure"]["rank"] == "all");
    all.failure.reset();
    CHECK(nlohmann::json::parse(report_json(all))["exit"]["first_failure"].is_null());
}
