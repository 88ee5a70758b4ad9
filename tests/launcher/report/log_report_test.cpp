#include <doctest/doctest.h>

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "facts.hpp"
#include "launcher/report/estimate.hpp"
#include "launcher/report/judge.hpp"
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

TEST_CASE("nodes are those that wrote, and more where not all ranks did") {
    const auto told = [](const std::vector<std::string>& nodes, std::optional<int> counted,
                         std::size_t ranks) {
        RunFacts facts = facts_of_log();
        facts.log.nodes = nodes;
        facts.log.node_count = counted;
        facts.log.rank_count = 4;
        facts.log.ranks.assign(ranks, {});
        const std::string text = log_report_text(facts);
        const std::size_t at = text.find("nodes: ");
        return text.substr(at, text.find('\n', at) - at);
    };
    CHECK(told({"a"}, {}, 4) == "nodes: 1");
    CHECK(told({"a"}, {}, 1) == "nodes: at least 1");
    CHECK(told({"a"}, 2, 1) == "nodes: 2");
    CHECK(told({}, {}, 4) == "nodes: unknown");
    CHECK(told({"a", "b"}, 1, 2) == "nodes: 2 (NCCL counts 1: NVLink joins them, MNNVL)");
}

TEST_CASE("a log without NCCL is one line") {
    RunFacts facts;
    facts.logs = {"a\x1b[31m.log"};
    CHECK(log_report_text(facts) == "no line of NCCL's in a\\x1b[31m.log\n");
    facts.logs.emplace_back("b.log");
    CHECK(log_report_text(facts) == "no line of NCCL's in 2 files\n");
}

TEST_CASE("collectives of a log as commands of nccl-tests") {
    LogSummary log;
    log.rank_count = 8;
    using toporun::detect::nccl_log::Function;
    log.calls = {{Function::broadcast, 1, 0, 8, 256, 256, 1, 1},
                 {Function::all_reduce, 7, 0, 2, 1u << 20, 64u << 20, 10, 10},
                 {Function::all_reduce, 9, 4, {}, 1u << 10, 1u << 30, 10, 99},
                 {Function::all_gather, 12, 7, 1, 512, 512, 1, 1},
                 {Function::reduce_scatter, 6, 5, 8, 512, 512, 1, 1},
                 {Function::recv, 7, 0, 8, 512, 512, 1, 1}};
    CHECK(replay_commands(log) ==
          std::vector<std::string>{
              "mpirun -np 8 all_reduce_perf -b 1K -e 1G -f 2 -g 1 -d bfloat16 -o avg",
              "mpirun -np 2 all_reduce_perf -b 1M -e 64M -f 2 -g 1 -d float -o sum",
              "all_gather_perf -b 512 -e 512 -f 2 -g 1",
              "mpirun -np 8 reduce_scatter_perf -b 512 -e 512 -f 2 -g 1 -d half -o mulsum",
              "mpirun -np 8 broadcast_perf -b 256 -e 256 -f 2 -g 1 -d uint8"});
    CHECK(replay_commands({}).empty());
}

TEST_CASE("interfaces that reach nobody and torn lines are findings of a log") {
    RunFacts facts;
    facts.logs = {"a.log"};
    facts.interfaces = {{"docker0", "172.17.0.1"},
                        {"eno1", "10.0.0.1"},
                        {"lo", "127.0.0.1"},
                        {"ib0", "fe80::1%ib0"}};
    facts.log.torn = 3;
    facts.log.node_count = 2;
    std::vector<std::string> ids;
    for (const auto& finding : log_findings(facts)) {
        ids.push_back(finding.id);
        if (finding.id.starts_with("log-interface")) {
            CHECK(finding.fix == "NCCL_SOCKET_IFNAME=eno1");
            CHECK(finding.severity == toporun::env::Severity::slow);
        }
    }
    CHECK(ids == std::vector<std::string>{"log-interface-virtual", "log-interface-link-local",
                                          "log-interface-loopback", "log-torn"});
    facts.log.node_count = 1;
    CHECK(log_findings(facts).front().severity == toporun::env::Severity::note);
    facts.logs.clear();  // a run has a plan for its interfaces
    CHECK(log_findings(facts).empty());
}

TEST_CASE("a communicator that never came about is a finding with the ranks that are missing") {
    RunFacts facts;
    facts.logs = {"a.log"};
    facts.log.rank_count = 4;
    for (const int rank : {0, 1, 3}) {
        LogRank begun;
        begun.rank = rank;
        facts.log.ranks.push_back(begun);
    }
    const auto found = log_findings(facts);
    REQUIRE(found.size() == 1);
    CHECK(found[0].id == "log-init-incomplete");
    CHECK(found[0].severity == toporun::env::Severity::note);
    CHECK(found[0].what.find("3 of them began, none was done; missing: rank 2") !=
          std::string::npos);
    facts.log.ranks[0].complete = true;  // its log goes on, those of the others are cut
    CHECK(log_findings(facts).empty());
    facts.log.ranks[0].complete = false;
    facts.log.rank_count = 3;
    CHECK(log_findings(facts).empty());
}

TEST_CASE("what the log says of adapters and links becomes findings") {
    const auto ids_of = [](const LogFabric& fabric) {
        RunFacts facts;
        facts.logs = {"a.log"};
        facts.log.node_count = 2;
        facts.log.setup.fabric = fabric;
        std::vector<std::string> ids;
        for (const auto& finding : log_findings(facts)) ids.push_back(finding.id);
        return ids;
    };
    using Ids = std::vector<std::string>;
    LogFabric fabric;
    fabric.queue_pairs = {{0, 1, 4096, {}, 8}, {1, 1, 4096, 3, 8}};
    CHECK(ids_of(fabric).empty());
    fabric.queue_pairs[1].mtu_bytes = 1024;
    CHECK(ids_of(fabric) == Ids{"log-path-mtu-differs"});
    fabric.queue_pairs = {{0, 1, 1024, 3, 8}};
    CHECK(ids_of(fabric) == Ids{"log-path-mtu-small"});
    fabric.queue_pairs[0].gid_index.reset();  // InfiniBand's are the subnet manager's
    CHECK(ids_of(fabric).empty());
    fabric.patterns_without_graph = {4, 3};
    fabric.no_verbs = true;
    CHECK(ids_of(fabric) == Ids{"log-no-graph", "log-no-libibverbs"});
}

TEST_CASE("a table of nccl-tests is told with what it means") {
    RunFacts facts;
    facts.logs = {"a.log"};
    LogTest test{"AllReduce", "float", "sum", 5, 8u << 20, 128u << 20, 5.21, 16u << 20, 1.4, 0, 0};
    facts.log.tests = {test};
    std::string text = log_report_text(facts);
    CHECK(text.find("AllReduce, float sum, 8 MiB to 128 MiB: peak 5.21 GB/s of bus bandwidth at 16 "
                    "MiB\n") != text.npos);
    CHECK(text.find("bus bandwidth falls from 5.21 GB/s at 16 MiB to 1.40 GB/s at 128 MiB") !=
          text.npos);
    CHECK(text.find("NCCL_SOCKET_NTHREADS") != text.npos);
    facts.log.networks = {"IB"};
    CHECK(log_report_text(facts).find("NCCL_SOCKET_NTHREADS") == text.npos);
    LogPattern ring;
    ring.pattern = {4, 0, 2, 6, 3, "NVL", "PIX"};
    facts.log.setup.patterns = {ring};
    CHECK(log_report_text(facts).find("43 % of the 12 GB/s of NCCL's model (estimated)") !=
          text.npos);
    facts.log.node_count = 4;  // between the nodes
    CHECK(log_report_text(facts).find("87 % of the 6 GB/s") != text.npos);
    facts.log.tests[0].wrong = 3;
    facts.log.tests[0].wrong_bytes = 32u << 20;
    text = log_report_text(facts);
    CHECK(text.find("3 wrong values, from 32 MiB on") != text.npos);
    const auto json = nlohmann::json::parse(report_json(facts));
    CHECK(json["tests"][0]["peak_bytes"] == 16u << 20);
    CHECK(json["tests"][0]["model_busbw_gbytes_per_s"] == 6);
    CHECK(json["findings"][0]["id"] == "test-wrong-data");
    CHECK(json["findings"][0]["severity"] == "broken");
}

TEST_CASE("an estimated share says so, with its band, and nothing is said without the model") {
    CallTimes times;
    for (int second = 0; second < 60; ++second)
        times.add_lines(fmt::format(
            "2026-11-30T10:20:{:02}.000Z node-a:7:7 [0] NCCL INFO AllReduce: opCount 1f "
            "sendbuff 0x7f1 recvbuff 0x7f2 count 250000000 datatype 7 op 0 root 0 comm "
            "0x1 [nranks=8] stream 0x56\n",
            second));
    RunFacts facts = facts_of_log();
    facts.log.setup.patterns.clear();
    estimate_in_flight(times, facts);
    CHECK_FALSE(facts.measured.in_flight);
    LogPattern ring;
    ring.pattern = {4, 0, 2, 5, 5, "NVL", "PIX"};
    facts.log.setup.patterns = {ring};
    estimate_in_flight(times, facts);
    const std::string text = log_report_text(facts);
    CHECK(text.find("collectives in flight 22 % of the time (estimated, limit 30 %)") != text.npos);
    CHECK(text.find("estimated from the transfers alone, 8.9 to 44.5 %") != text.npos);
    const auto share =
        nlohmann::json::parse(report_json(facts))["communication"]["in_flight_share"];
    CHECK(share["label"] == "estimated");
    CHECK(share["low"].get<double>() < share["value"].get<double>());
    CHECK(share["high"].get<double>() > share["value"].get<double>());
}

TEST_CASE("Markdown has headings, lists and no live marks") {
    CHECK(markdown("Log\n  one\n    evidence: two\n\nNext\n  three\n") ==
          "## Log\n\n- one\n  - evidence: two\n\n## Next\n\n- three\n");
    CHECK(markdown("  <b>*a* [x](y) `c` & | # !\n") ==
          "- &lt;b\\>\\*a\\* \\[x\\](y) \\`c\\` &amp; \\| \\# \\!\n");
    CHECK(markdown("- a\n  1. b\n  22) c\n  3d\n  + e\n    - f\n") ==
          "## \\- a\n\n- 1\\. b\n- 22\\) c\n- 3d\n- \\+ e\n  - \\- f\n");
}
