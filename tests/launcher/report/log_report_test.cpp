#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "facts.hpp"
#include "launcher/report/report.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;

namespace {

RunFacts facts_of_log() {
    RunFacts facts;
    facts.tool_version = "0";
    facts.logs = {"job.log"};
    facts.log = ring_run().log;
    return facts;
}

}  // namespace

TEST_CASE("a log is told without what only a run knows") {
    const std::string text = log_report_text(facts_of_log());
    CHECK(text.starts_with("Log\n  job.log: "));
    CHECK(text.find("What NCCL did\n") != text.npos);
    CHECK(text.find("Machine") == text.npos);
    const auto json = nlohmann::json::parse(report_json(facts_of_log()));
    CHECK(json["schema"] == "toporun.report/1");
    CHECK(json["logs"] == nlohmann::json::array({"job.log"}));
    CHECK(json["machine"].is_null());
    CHECK(json["exit"]["status"].is_null());
    CHECK(json["communication"]["in_flight_share"]["value"].is_null());
    CHECK(json["communication"]["in_flight_share"]["label"] == "unknown");
}

TEST_CASE("a log without NCCL is one line") {
    RunFacts facts;
    facts.logs = {"a\x1b[31m.log"};
    CHECK(log_report_text(facts) == "no line of NCCL's in a\\x1b[31m.log\n");
    facts.logs.emplace_back("b.log");
    CHECK(log_report_text(facts) == "no line of NCCL's in 2 files\n");
}

TEST_CASE("Markdown has headings, lists and no live marks") {
    CHECK(markdown("Log\n  one\n    evidence: two\n\nNext\n  three\n") ==
          "## Log\n\n- one\n  - evidence: two\n\n## Next\n\n- three\n");
    CHECK(markdown("  <b>*a* [x](y) `c` & | # !\n") ==
          "- &lt;b\\>\\*a\\* \\[x\\](y) \\`c\\` &amp; \\| \\# \\!\n");
}
