#include "launcher/report/node_report.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "facts.hpp"
#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

using nlohmann::json;

/// One of `nodes` nodes with `tasks` tasks each.
JobPlace task_of(int task, int nodes, int tasks) {
    JobPlace place;
    place.job = "1.0";
    place.task = task;
    place.node = task / tasks;
    place.local_task = task % tasks;
    place.local_tasks = tasks;
    place.nodes = nodes;
    place.name = fmt::format("n{}", place.node);
    return place;
}

/// A program without NCCL on node `place.node`, which recorded its rank.
RunFacts plain(const JobPlace& place) {
    RunFacts facts = tests::plain_run();
    facts.machine.hostname = fmt::format("host-{}", place.node);
    facts.exit = {0, std::nullopt};
    RankRecord rank;
    rank.rank = place.task;
    rank.host = facts.machine.hostname;
    facts.ranks = {rank};
    return facts;
}

std::string file_of(const std::vector<RunFacts>& runs, const std::vector<JobPlace>& places) {
    std::vector<std::string> reports;
    for (std::size_t i = 0; i < runs.size(); ++i)
        reports.push_back(task_report(runs[i], places[i], true));
    return node_file(node_facts(runs.front(), places.front()), places.front(), reports);
}

std::string plain_file(int node, int nodes) {
    const JobPlace place = task_of(node, nodes, 1);
    return file_of({plain(place)}, {place});
}

TEST_CASE("one node alone keeps its report") {
    const JobPlace place = task_of(0, 1, 1);
    const RunFacts facts = tests::eight_gpu_run();
    const auto merged = merge_nodes(std::vector<std::string>{file_of({facts}, {place})});
    REQUIRE(merged);
    const json before = json::parse(report_json(facts));
    const json after = json::parse(merged->json);
    for (const auto& [key, value] : before.items()) {
        CAPTURE(key);
        if (key != "ranks" && key != "findings") CHECK(after[key] == value);
    }
    CHECK(after["ranks"].size() == before["ranks"].size());
    CHECK(after["findings"].size() == before["findings"].size());
    CHECK(after["node_count"] == 1);
    CHECK(merged->lines.empty());
    CHECK(merged->text.starts_with(report_text(facts).substr(0, 200)));
}

TEST_CASE("the ranks, ends and hosts of all nodes are in one report") {
    std::vector<std::string> files;
    for (int node = 3; node >= 0; --node) {  // in any order
        std::vector<RunFacts> runs;
        std::vector<JobPlace> places;
        for (int local = 0; local < 2; ++local) {
            places.push_back(task_of(2 * node + local, 4, 2));
            runs.push_back(plain(places.back()));
            if (node == 2 && local == 1) runs.back().exit.status = 3;
        }
        files.push_back(file_of(runs, places));
    }
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    CHECK(report["schema"] == "toporun.report/1");
    CHECK(report["exit"]["status"] == 3);
    CHECK(report["node_count"] == 4);
    CHECK(report["nodes"] == json{"host-0", "host-1", "host-2", "host-3"});
    REQUIRE(report["ranks"].size() == 8);
    for (int rank = 0; rank < 8; ++rank) {
        CHECK(report["ranks"][static_cast<std::size_t>(rank)]["rank"] == rank);
        CHECK(report["ranks"][static_cast<std::size_t>(rank)]["node"] == rank / 2);
    }
    REQUIRE(report["node_reports"].size() == 4);
    const json& third = report["node_reports"][2];
    CHECK(third["name"] == "n2");
    CHECK(third["host"] == "host-2");
    CHECK(third["ranks"] == json{4, 5});
    CHECK(third["status"] == 3);
    CHECK(third["tasks"] == 2);
    CHECK(third["tasks_ended"] == 2);
    CHECK(merged->lines == std::vector<std::string>{"n2 ended with 3"});
    CHECK(merged->text.find("4 of 4 nodes ended, highest status 3") != std::string::npos);
    CHECK(merged->text.find("node 2, n2 (host-2), ranks 4 to 5, 2 of 2 tasks: ended with 3") !=
          std::string::npos);
    CHECK(merged->text.find("4 nodes agree") != std::string::npos);
}

TEST_CASE("a rank number of several worlds is there once for each, and told") {
    std::vector<std::string> files;
    for (int node = 0; node < 2; ++node) {
        const JobPlace place = task_of(node, 2, 1);
        RunFacts facts = plain(place);
        facts.ranks.front().rank = 0;  // torchrun --standalone on each node
        files.push_back(file_of({facts}, {place}));
    }
    json report = json::parse(merge_nodes(files)->json);
    REQUIRE(report["ranks"].size() == 2);
    CHECK(report["ranks"][0]["node"] == 0);
    CHECK(report["ranks"][1]["node"] == 1);
    CHECK(report["notes"].back().get<std::string>().starts_with("rank 0 is there more than once"));
    // A rank that was started again elsewhere is one.
    const JobPlace place = task_of(1, 2, 1);
    RunFacts moved = plain(place);
    moved.ranks.front().rank = 0;
    moved.ranks.front().restart = 1;
    report = json::parse(merge_nodes(std::vector{files[0], file_of({moved}, {place})})->json);
    REQUIRE(report["ranks"].size() == 1);
    CHECK(report["ranks"][0]["node"] == 1);
}

TEST_CASE("of a task in several files the last word counts once") {
    const JobPlace place = task_of(0, 1, 1);
    RunFacts facts = plain(place);
    facts.exit = {};
    const auto file = [&](bool ended) {
        return node_file(node_facts(facts, place), place,
                         std::vector{task_report(facts, place, ended)});
    };
    const std::string early = file(false);
    facts.exit.status = 4;
    const std::string late = file(true);
    for (const auto& files : {std::vector{early, late}, std::vector{late, early}}) {
        const json report = json::parse(merge_nodes(files)->json);
        CHECK(report["exit"]["status"] == 4);
        CHECK(report["node_reports"][0]["tasks_ended"] == 1);
        CHECK(report["ranks"].size() == 1);
    }
}

TEST_CASE("nodes that have not ended are told") {
    const JobPlace second = task_of(1, 3, 1);
    const std::string start = node_facts_text(node_facts(plain(second), second));
    const auto merged = merge_nodes(std::vector<std::string>{start, plain_file(0, 3)});
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    CHECK(report["node_count"] == 3);
    REQUIRE(report["node_reports"].size() == 2);
    CHECK(report["node_reports"][1]["tasks_ended"] == 0);
    CHECK(report["node_reports"][1]["status"].is_null());
    CHECK(report["notes"].back().get<std::string>().starts_with("2 of 3 nodes are not in"));
    CHECK(merged->text.find("node 1, n1: not ended") != std::string::npos);
    CHECK_FALSE(merge_nodes(std::vector<std::string>{start}));  // nobody has ended
    CHECK_FALSE(merge_nodes({}));
}

TEST_CASE("shares are the mean over the ranks of all nodes") {
    std::vector<std::string> files;
    for (int node = 0; node < 2; ++node) {
        const JobPlace place = task_of(node, 2, 1);
        RunFacts facts = tests::eight_gpu_run();
        facts.machine.hostname = fmt::format("host-{}", node);
        facts.measured.in_flight = node == 0 ? 0.2 : 0.4;
        for (auto& rank : facts.measured.ranks) rank.key.rank += 8 * node;
        for (auto& rank : facts.log.ranks) rank.rank += 8 * node;
        for (RankRecord& rank : facts.ranks) rank.rank = rank.rank.value_or(0) + 8 * node;
        files.push_back(file_of({facts}, {place}));
    }
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json one = json::parse(report_json(tests::eight_gpu_run()));
    const json report = json::parse(merged->json);
    CHECK(report["communication"]["in_flight_share"]["value"].get<double>() ==
          doctest::Approx(0.3));
    CHECK(report["communication"]["in_flight_share"]["label"] == "measured");
    CHECK(report["communication"]["operations"] ==
          2 * one["communication"]["operations"].get<std::int64_t>());
    CHECK(report["ranks"].size() == 2 * one["ranks"].size());
    REQUIRE_FALSE(one["collectives"].empty());
    CHECK(report["collectives"].size() == one["collectives"].size());
    CHECK(report["collectives"][0]["count"] ==
          2 * one["collectives"][0]["count"].get<std::int64_t>());
    CHECK(report["collectives"][0]["busbw_gbytes_per_s"].get<double>() ==
          doctest::Approx(one["collectives"][0]["busbw_gbytes_per_s"].get<double>()));
    CHECK(report["nccl"]["log"]["lines"] == 2 * one["nccl"]["log"]["lines"].get<std::int64_t>());
    CHECK(report["nccl"]["versions"] == one["nccl"]["versions"]);
}

TEST_CASE("the surest first cause of a node is that of the job") {
    std::vector<std::string> files;
    for (int node = 0; node < 3; ++node) {
        const JobPlace place = task_of(node, 3, 1);
        RunFacts facts = plain(place);
        facts.exit = {node == 1 ? 137 : 143, std::nullopt};
        failures::Verdict verdict;
        verdict.what =
            node == 1 ? "the kernel ended a process for want of memory" : "ended by TERM";
        verdict.cause = node == 1 ? "host-oom-kill" : "signal-external";
        verdict.severity = node == 1 ? "resource" : "external";
        verdict.confidence =
            node == 1 ? failures::Confidence::likely : failures::Confidence::certain;
        facts.failure = verdict;
        files.push_back(file_of({facts}, {place}));
    }
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    CHECK(report["exit"]["first_failure"]["cause"] == "host-oom-kill");
    CHECK(report["exit"]["status"] == 143);
    CHECK(merged->text.starts_with("Failure\n  first cause: the kernel ended a process"));
    CHECK(merged->text.find("ended by TERM") == std::string::npos);
}

TEST_CASE("of ranks that ended on several nodes the earliest is the first") {
    struct Row {
        double first_node_s, second_node_s;
        int rank;
    };
    // Less than a second apart the nodes' clocks do not tell.
    for (const Row row : {Row{602.0, 2.0, 1}, Row{2.0, 602.0, 0}, Row{2.5, 2.0, 0}}) {
        CAPTURE(row.first_node_s);
        std::vector<std::string> files;
        for (int node = 0; node < 2; ++node) {
            const JobPlace place = task_of(node, 2, 1);
            RunFacts facts = plain(place);
            facts.start_utc = "2026-03-01T12:00:00Z";
            facts.ranks[0].pid = 100 + node;
            facts.ranks[0].ended_after_s = node == 0 ? row.first_node_s : row.second_node_s;
            failures::Verdict verdict;
            verdict.cause = node == 0 ? "native-crash" : "silent-exit";
            verdict.what = "ended";
            verdict.severity = "user";
            verdict.confidence = failures::Confidence::possible;
            verdict.rank = node;
            verdict.pid = 100 + node;
            facts.failure = verdict;
            files.push_back(file_of({facts}, {place}));
        }
        const auto merged = merge_nodes(files);
        REQUIRE(merged);
        CHECK(json::parse(merged->json)["exit"]["first_failure"]["rank"] == row.rank);
    }
}

TEST_CASE("differences and findings name their nodes") {
    std::vector<std::string> files;
    for (int node = 0; node < 3; ++node) {
        const JobPlace place = task_of(node, 3, 1);
        RunFacts facts = plain(place);
        facts.machine.software.driver = node == 1 ? "535.1" : "570.2";
        env::Finding finding;
        finding.id = "shm-too-small";
        finding.severity = env::Severity::slow;
        finding.what = "/dev/shm is small";
        if (node > 0) facts.plan.findings.push_back(finding);
        facts.warnings = {fmt::format("odd {}", node)};
        files.push_back(file_of({facts}, {place}));
    }
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    REQUIRE(report["findings"].size() == 2);
    CHECK(report["findings"][0]["id"] == "nodes-differ-driver");
    CHECK(report["findings"][1]["nodes"] == json{"n1", "n2"});
    CHECK(report["warnings"] == json{"odd 0", "n1: odd 1", "n2: odd 2"});
    CHECK(merged->text.find("570.2 on n0, n2; 535.1 on n1") != std::string::npos);
    CHECK(merged->text.find("slow [shm-too-small] on n1: /dev/shm is small (and 1 more nodes)") !=
          std::string::npos);
}

TEST_CASE("the file of a node has its machine once") {
    std::vector<RunFacts> runs;
    std::vector<JobPlace> places;
    for (int local = 0; local < 8; ++local) {
        places.push_back(task_of(local, 1, 8));
        runs.push_back(plain(places.back()));
        // As each task is given other CPUs.
        runs.back().machine.cpu.allowed = detect::CpuSet::parse(std::to_string(local));
    }
    const json file = json::parse(file_of(runs, places));
    REQUIRE(file["reports"].size() == 8);
    CHECK(file["reports"][0]["report"].contains("machine"));
    for (std::size_t i = 1; i < 8; ++i) {
        CHECK_FALSE(file["reports"][i]["report"].contains("machine"));
        CHECK_FALSE(file["reports"][i].contains("text"));
    }
}

TEST_CASE("nodes whose ranks loaded different versions of NCCL") {
    std::vector<std::string> files;
    for (int node = 0; node < 3; ++node) {
        const JobPlace place = task_of(node, 3, 1);
        RunFacts facts = tests::eight_gpu_run();
        facts.log.versions = {node == 1 ? "2.27.5" : "2.28.9"};
        facts.machine.software.nccl_version = facts.log.versions.front();
        files.push_back(file_of({facts}, {place}));
    }
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    std::vector<std::string> whats;
    const json report = json::parse(merged->json);
    for (const json& finding : report["findings"]) {
        CHECK(finding["id"] != "nodes-differ-nccl");
        if (finding["id"] == "nccl-versions-mixed")
            whats.push_back(finding["what"].get<std::string>());
    }
    CHECK(whats == std::vector<std::string>{"ranks use different NCCL versions: 2.27.5 on n1, "
                                            "2.28.9 on n0 and 1 more nodes"});
}

TEST_CASE("a thousand nodes make a short text") {
    std::vector<std::string> files;
    for (int node = 0; node < 1000; ++node) files.push_back(plain_file(node, 1000));
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    CHECK(report["node_reports"].size() == 1000);
    CHECK(report["ranks"].size() == 1000);
    CHECK(merged->text.find("1000 of 1000 nodes ended") != std::string::npos);
    CHECK(merged->text.find("984 more in report.json") != std::string::npos);
    CHECK(std::count(merged->text.begin(), merged->text.end(), '\n') < 150);
}

TEST_CASE("damaged files are counted and left out") {
    std::vector<std::string> files = {plain_file(0, 2),
                                      "",
                                      "{}",
                                      "[1",
                                      "toporun-node 1 x\n",
                                      R"({"schema": "toporun.node/1", "node": "x"})"};
    const auto merged = merge_nodes(files);
    REQUIRE(merged);
    const json report = json::parse(merged->json);
    CHECK(report["node_reports"].size() == 1);
    bool told = false;
    for (const json& note : report["notes"])
        told = told || note.get<std::string>().ends_with("node files could not be read");
    CHECK(told);
    json changed = json::parse(files[0]);
    for (const char* key : {"exit", "ranks", "communication", "nccl", "findings", "machine"}) {
        CAPTURE(key);
        json broken = changed;
        broken["reports"][0]["report"].erase(key);
        CHECK_FALSE(merge_nodes(std::vector<std::string>{broken.dump()}));
        broken["reports"][0]["report"][key] = 7;
        CHECK_FALSE(merge_nodes(std::vector<std::string>{broken.dump()}));
        const auto others = merge_nodes(std::vector<std::string>{broken.dump(), plain_file(1, 2)});
        REQUIRE(others);
        CHECK(json::parse(others->json)["ranks"].size() == 1);
    }
}

TEST_CASE("texts of a file that somebody changed reach no terminal as they are") {
    json changed = json::parse(plain_file(0, 2));
    changed["reports"][0]["text"] = "Run\n  \033[31mred\n";
    changed["reports"][0]["report"]["warnings"] = json::array({"\033]0;x\007"});
    changed["facts"] = "";
    const auto merged = merge_nodes(std::vector<std::string>{changed.dump(), plain_file(1, 2)});
    REQUIRE(merged);
    for (const std::string& text : {merged->text, merged->json})
        CHECK(text.find('\033') == std::string::npos);
    CHECK(merged->text.find("\\x1b[31mred") != std::string::npos);
}

}  // namespace
}  // namespace toporun::launcher
