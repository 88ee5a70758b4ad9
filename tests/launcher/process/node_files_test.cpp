#include "launcher/process/node_files.hpp"

#include <doctest/doctest.h>
#include <fcntl.h>
#include <fmt/format.h>
#include <sys/file.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <csignal>
#include <nlohmann/json.hpp>
#include <random>

#include "base/descriptors.hpp"
#include "files.hpp"
#include "launcher/process/node_check.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/task_meeting.hpp"
#include "variable.hpp"

namespace toporun::launcher {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;
using tests::read_file;
using tests::TemporaryDirectory;

JobPlace task_of(int task, int nodes, int tasks) {
    JobPlace place;
    place.job = fmt::format("test-{}.0", ::getpid());
    place.task = task;
    place.node = task / tasks;
    place.local_task = task % tasks;
    place.local_tasks = tasks;
    place.nodes = nodes;
    place.name = fmt::format("n{}", place.node);
    return place;
}

RunFacts facts_of(const fs::path& directory) {
    RunFacts facts;
    facts.command = {"train"};
    facts.run_directory = directory.string();
    facts.exit.status = 0;
    return facts;
}

std::vector<std::string> names_in(const fs::path& directory) {
    std::vector<std::string> names;
    for (const auto& entry : fs::directory_iterator(directory))
        names.push_back(entry.path().filename().string());
    std::sort(names.begin(), names.end());
    return names;
}

void end_task(const fs::path& directory, const JobPlace& place, int status = 0, int run = 1) {
    RunFiles files(directory.string());
    RunFacts facts = facts_of(directory);
    facts.exit.status = status;
    CHECK(NodeFiles(files, place, run).write_end(facts).fault.empty());
}

std::string meeting_of(const fs::path& directory, const JobPlace& place, int run = 1) {
    return TaskMeeting(place, directory.string(), run_letters(place, run)).path();
}

TEST_CASE("names of node files") {
    const auto whole = parse_node_file_name("node-17-abcd.json");
    REQUIRE(whole);
    CHECK(whole->node == 17);
    CHECK(whole->letters == "abcd");
    CHECK(whole->kind == NodeFileName::Kind::whole);
    CHECK(parse_node_file_name("node-0-abcd.start")->kind == NodeFileName::Kind::start);
    CHECK(parse_node_file_name("node-0-abcd.part")->kind == NodeFileName::Kind::part);
    const auto alone = parse_node_file_name("node-0-abcd-3-8.json");
    REQUIRE(alone);
    CHECK(alone->letters == "abcd");
    CHECK(alone->alone == 3);
    CHECK(alone->tasks == 8);
    for (const char* other :
         {"node-1-abcd.txt", "node-1-abc.json", "node-x-abcd.json", "node--abcd.json",
          "node-1-abcd", "node-1-abcde.json", "report.json", "node-1-abcd.json.12.0.tmp",
          "node-1-ABCD.json", "node-12345678-abcd.json", "node-0-abcd-3.json",
          "node-0-abcd-8-8.json", "node-0-abcd-3-8-1.json"})
        CHECK_FALSE(parse_node_file_name(other));
}

TEST_CASE("the last node to end writes the report of all, in any order of the ends") {
    std::vector<int> order = {0, 1, 2, 3};
    do {
        const TemporaryDirectory run;
        RunFiles files(run.path().string());
        for (const int node : order) {
            NodeFiles start(files, task_of(node, 4, 1), 1);
            CHECK(start.write_start(facts_of(run.path())).empty());
        }
        for (const std::string& name : names_in(run.path())) CHECK(name.ends_with(".start"));
        for (const int node : order) end_task(run.path(), task_of(node, 4, 1), node);
        const std::vector<std::string> names = names_in(run.path());
        REQUIRE(names.size() == 6);
        CHECK(names[4] == "report.json");
        const json report = json::parse(read_file(run.path() / "report.json"));
        CHECK(report["node_reports"].size() == 4);
        CHECK(report["exit"]["status"] == 3);
    } while (std::next_permutation(order.begin(), order.end()));
}

TEST_CASE("the tasks of a node make one file, and their meeting place is gone") {
    const TemporaryDirectory run;
    std::vector<int> order = {0, 1, 2, 3, 4, 5};
    std::mt19937 random(7);
    std::shuffle(order.begin(), order.end(), random);
    for (const int task : order) end_task(run.path(), task_of(task, 2, 3));
    const std::string letters = run_letters(task_of(0, 2, 3), 1);
    CHECK(names_in(run.path()) == std::vector<std::string>{"node-0-" + letters + ".json",
                                                           "node-1-" + letters + ".json",
                                                           "report.json", "report.txt"});
    const json report = json::parse(read_file(run.path() / "report.json"));
    CHECK(report["node_reports"][0]["tasks_ended"] == 3);
    CHECK(report["node_reports"][1]["tasks_ended"] == 3);
    CHECK_FALSE(fs::exists(meeting_of(run.path(), task_of(0, 2, 3))));
}

TEST_CASE("places of tasks that never came go with time") {
    const TemporaryDirectory run, temporary;
    const tests::Variable parent("TMPDIR", temporary.path().c_str());
    const auto age = [](const std::string& path, int days) {
        fs::last_write_time(path, fs::file_time_type::clock::now() - std::chrono::hours(24 * days));
    };
    const JobPlace first = task_of(0, 1, 2);
    const auto start = [&](int number) {
        const JobPlace place = task_of(0, 1, 2);
        TaskMeeting meeting(place, run.path().string(), run_letters(place, number));
        REQUIRE(meeting.claim() == TaskMeeting::Claim::made);
        return meeting.path();
    };
    const std::string old = start(1), young = start(2), foreign = temporary.path() / "toporun-x";
    fs::create_directory(foreign);
    age(old, 15);
    age(young, 13);
    age(foreign, 99);
    const std::string now = start(3);
    CHECK_FALSE(fs::exists(old));
    for (const std::string& path : {young, now, foreign}) CHECK(fs::exists(path));
}

TEST_CASE("a task that never ends leaves the others' report") {
    const TemporaryDirectory run;
    end_task(run.path(), task_of(1, 1, 3));
    end_task(run.path(), task_of(2, 1, 3), 4);
    const std::string letters = run_letters(task_of(0, 1, 3), 1);
    CHECK(fs::exists(run.path() / ("node-0-" + letters + ".part")));
    const auto report = report_of_nodes(run.path().string());
    REQUIRE(report);
    CHECK(json::parse(report->json)["exit"]["status"] == 4);
    CHECK(names_in(meeting_of(run.path(), task_of(1, 1, 3))) ==
          std::vector<std::string>{"task-1", "task-2"});
    end_task(run.path(), task_of(0, 1, 3));  // and takes the meeting place away
    CHECK_FALSE(fs::exists(run.path() / ("node-0-" + letters + ".part")));
}

TEST_CASE("a node that was killed after SIGTERM has left what was known") {
    const TemporaryDirectory run;
    RunFiles files(run.path().string());
    RunFacts facts = facts_of(run.path());
    facts.exit.status.reset();
    const auto early = [&](const JobPlace& place) {
        CHECK(NodeFiles(files, place, 1).write_early(facts).empty());
        return json::parse(report_of_nodes(run.path().string())->json);
    };
    CHECK(early(task_of(2, 2, 2))["node_reports"][0]["tasks_ended"] == 0);
    CHECK(fs::exists(run.path() / "report.json"));
    for (const int task : {0, 1, 3}) early(task_of(task, 2, 2));
    for (const std::string& name : names_in(run.path())) CHECK_FALSE(name.ends_with(".start"));
    end_task(run.path(), task_of(2, 2, 2));
    end_task(run.path(), task_of(3, 2, 2), 9);
    json report = json::parse(report_of_nodes(run.path().string())->json);
    CHECK(report["node_reports"][0]["tasks_ended"] == 0);
    CHECK(report["node_reports"][1]["tasks_ended"] == 2);
    CHECK(report["exit"]["status"] == 9);
    end_task(run.path(), task_of(0, 2, 2));
    end_task(run.path(), task_of(1, 2, 2));
    report = json::parse(read_file(run.path() / "report.json"));
    CHECK(report["node_reports"][0]["tasks_ended"] == 2);
    CHECK(names_in(run.path()).size() == 4);
}

TEST_CASE("a meeting place of somebody else's making is not used") {
    const TemporaryDirectory run;
    const TemporaryDirectory elsewhere;
    const JobPlace place = task_of(0, 1, 2);
    const fs::path meeting = meeting_of(run.path(), place);
    fs::create_directory_symlink(elsewhere.path(), meeting);
    end_task(run.path(), place);
    end_task(run.path(), task_of(1, 1, 2), 5);
    fs::remove(meeting);
    CHECK(fs::is_empty(elsewhere.path()));
    CHECK(json::parse(read_file(run.path() / "report.json"))["node_reports"][0]["tasks_ended"] ==
          2);
    fs::create_directory(meeting);
    ::chmod(meeting.c_str(), 0777);
    end_task(run.path(), place);
    CHECK(fs::is_empty(meeting));
    fs::remove(meeting);
}

TEST_CASE("commands of a task get a run each, and those of different tasks the same ones") {
    for (const int tasks : {1, 2}) {  // the claim is a file of the node, or of a task
        CAPTURE(tasks);
        const TemporaryDirectory run;
        const std::string path = run.path().string();
        const JobPlace place = task_of(0, 2, tasks);
        const JobPlace other = task_of(tasks == 1 ? 1 : 3, 2, tasks);
        CHECK(claim_run(path, place, 1));
        CHECK_FALSE(claim_run(path, place, 1));  // one beside it
        CHECK(claim_run(path, place, 2));
        CHECK(claim_run(path, other, 1));
        release_run(path, place, 2);
        CHECK(claim_run(path, place, 2));
        for (int task = 0; task < 2 * tasks; ++task) end_task(run.path(), task_of(task, 2, tasks));
        CHECK_FALSE(claim_run(path, place, 1));  // one after it
        CHECK_FALSE(claim_run(path, other, 1));
        CHECK_FALSE(fs::exists(meeting_of(run.path(), place)));
        CHECK(claim_run(path, other, 2));
        for (const JobPlace& left : {place, other}) release_run(path, left, 2);
        CHECK_FALSE(fs::exists(meeting_of(run.path(), place, 2)));
        CHECK_FALSE(fs::exists(meeting_of(run.path(), other, 2)));
    }
}

TEST_CASE("hosts that a launcher reached take a number each, while others run or have ended") {
    const TemporaryDirectory directory;
    const std::string path = directory.path().string();
    const JobPlace place = task_of(0, 4, 1);
    CHECK(claim_run(path, place, 1));  // number 0 is the launcher's own host
    CHECK(claim_node(path, place) == 1);
    CHECK(claim_node(path, place) == 2);
    JobPlace first = place;
    first.node = first.task = 1;
    RunFiles files(path);
    NodeFiles nodes(files, first, 1);
    RunFacts facts = facts_of(directory.path());
    CHECK(nodes.write_end(facts).fault.empty());
    CHECK(claim_node(path, place) == 3);
    CHECK_FALSE(claim_node(path, place));  // more hosts than anybody knew of
    CHECK_FALSE(claim_node(path + "/missing", place));
}

TEST_CASE("a host that has a number already takes it, another one only where it is taken") {
    const TemporaryDirectory directory;
    const std::string path = directory.path().string();
    JobPlace third = task_of(0, 4, 1);
    third.node = 3;
    CHECK(claim_node(path, third) == 3);
    CHECK(claim_node(path, third) == 1);
    JobPlace first = third;
    first.node = first.task = 1;
    RunFiles files(path);
    NodeFiles nodes(files, first, 1);
    RunFacts facts = facts_of(directory.path());
    CHECK(nodes.write_early(facts).empty());  // it has not ended: a .part and no .start any more
    first.node = 1;
    CHECK(claim_node(path, first) == 2);
    first.node = 9;  // beyond what anybody knew of
    CHECK_FALSE(claim_node(path, first));
}

TEST_CASE("the tasks of different commands do not meet") {
    const TemporaryDirectory first;
    const TemporaryDirectory second;
    const std::string letters = run_letters(task_of(0, 1, 2), 1);
    end_task(first.path(), task_of(0, 1, 2), 3);
    end_task(second.path(), task_of(1, 1, 2), 4);
    CHECK(fs::exists(first.path() / ("node-0-" + letters + ".part")));
    CHECK(fs::exists(second.path() / ("node-0-" + letters + ".part")));
    end_task(first.path(), task_of(1, 1, 2));
    end_task(second.path(), task_of(0, 1, 2));
    for (const auto& [directory, status] : {std::pair{&first, 3}, std::pair{&second, 4}}) {
        const json report = json::parse(read_file(directory->path() / "report.json"));
        CHECK(report["exit"]["status"] == status);
        CHECK(report["node_reports"][0]["tasks_ended"] == 2);
    }
}

TEST_CASE("a task that finds another one writing leaves its report to that one") {
    const TemporaryDirectory run;
    const std::string letters = run_letters(task_of(0, 2, 2), 1);
    const fs::path whole = run.path() / ("node-1-" + letters + ".json");
    const fs::path part = run.path() / ("node-1-" + letters + ".part");
    end_task(run.path(), task_of(2, 2, 2));
    const fs::path meeting = meeting_of(run.path(), task_of(2, 2, 2));
    const Descriptor writer(::open(meeting.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC));
    REQUIRE(::flock(writer.get(), LOCK_EX | LOCK_NB) == 0);
    end_task(run.path(), task_of(3, 2, 2), 6);
    CHECK(names_in(meeting) == std::vector<std::string>{"task-0", "task-1"});
    CHECK(fs::exists(part));
    CHECK_FALSE(fs::exists(whole));
    for (const std::string& name : names_in(run.path()))
        CHECK(name.find(letters + "-") == std::string::npos);  // nobody stands alone
    ::flock(writer.get(), LOCK_UN);
    end_task(run.path(), task_of(3, 2, 2), 6);  // as the writer does when it looks again
    CHECK(fs::exists(whole));
    CHECK_FALSE(fs::exists(part));
    CHECK_FALSE(fs::exists(meeting));
}

TEST_CASE("what the tasks left stays until the node's file is written") {
    const TemporaryDirectory run;
    const JobPlace last = task_of(1, 1, 2);
    end_task(run.path(), task_of(0, 1, 2), 3);
    const fs::path meeting = meeting_of(run.path(), last);
    RunFiles files(run.path().string());
    RunFacts facts = facts_of(run.path());
    // The task's report fits on the disk, the node's file does not.
    rlimit before{};
    REQUIRE(::getrlimit(RLIMIT_FSIZE, &before) == 0);
    const auto on_limit = ::signal(SIGXFSZ, SIG_IGN);
    const rlimit full{task_report(facts, last, true).size() + 8, before.rlim_max};
    REQUIRE(::setrlimit(RLIMIT_FSIZE, &full) == 0);
    const std::string fault = NodeFiles(files, last, 1).write_end(facts).fault;
    ::setrlimit(RLIMIT_FSIZE, &before);
    ::signal(SIGXFSZ, on_limit);
    CHECK(fault.find("node-0-") != std::string::npos);
    CHECK(names_in(meeting) == std::vector<std::string>{"task-0", "task-1"});
    end_task(run.path(), last);  // written later, as after an observer that was ended
    CHECK_FALSE(fs::exists(meeting));
    const json report = json::parse(read_file(run.path() / "report.json"));
    CHECK(report["exit"]["status"] == 3);
    CHECK(report["node_reports"][0]["tasks_ended"] == 2);
    end_task(run.path(), last, 9);  // a second one is too late
    CHECK_FALSE(fs::exists(meeting));
    CHECK(names_in(run.path()).size() == 3);
}

TEST_CASE("of the nodes that end together one reads all files") {
    const TemporaryDirectory run;
    const std::string letters = run_letters(task_of(0, 3, 1), 1);
    end_task(run.path(), task_of(0, 3, 1));
    end_task(run.path(), task_of(1, 3, 1), 5);
    const fs::path marker = run.write("report-" + letters + ".writing", "");
    end_task(run.path(), task_of(2, 3, 1), 7);
    CHECK(json::parse(read_file(run.path() / "report.json"))["exit"]["status"] != 7);
    fs::remove(marker);
    end_task(run.path(), task_of(2, 3, 1), 7);
    CHECK(json::parse(read_file(run.path() / "report.json"))["exit"]["status"] == 7);
    CHECK_FALSE(fs::exists(marker));
}

TEST_CASE("a node that is not the first does not replace a report") {
    const TemporaryDirectory run;
    RunFiles files(run.path().string());
    bool written = false;
    CHECK(files.write_new("report.json", "fuller", written).empty());
    CHECK(written);
    CHECK(files.write_new("report.json", "own", written).empty());
    CHECK_FALSE(written);
    CHECK(read_file(run.path() / "report.json") == "fuller");
    CHECK(names_in(run.path()) == std::vector<std::string>{"report.json"});
    end_task(run.path(), task_of(1, 2, 1), 6);
    CHECK(read_file(run.path() / "report.json") == "fuller");
}

TEST_CASE("a later command of the tasks writes files of its own") {
    const TemporaryDirectory run;
    const JobPlace place = task_of(0, 2, 1);
    end_task(run.path(), place);
    CHECK(run_letters(place, 1) != run_letters(place, 2));
    CHECK(run_letters(place, 1) == run_letters(task_of(1, 2, 1), 1));
    // In a directory that the user named both are there, and the newest is reported.
    end_task(run.path(), task_of(1, 2, 1));
    end_task(run.path(), place, 6, 2);
    end_task(run.path(), task_of(1, 2, 1), 7, 2);
    const json report = json::parse(read_file(run.path() / "report.json"));
    CHECK(report["exit"]["status"] == 7);
    CHECK(report["node_reports"].size() == 2);
}

// --- the comparison while the job runs
// ------------------------------------------------------------

std::string start_file(int node, const std::string& driver) {
    RunFacts facts;
    facts.machine.software.driver = driver;
    return node_facts_text(node_facts(facts, task_of(node, 1, 1)));
}

/// What is told at so many seconds after the start. A call does a part of the work.
std::vector<std::string> told(NodeCheck& check, NodeCheck::Clock::time_point start, int seconds) {
    std::vector<std::string> whats;
    for (int turn = 0; turn < 100; ++turn)
        for (const env::Finding& finding : check.poll(start + std::chrono::seconds(seconds)))
            whats.push_back(finding.what);
    return whats;
}

TEST_CASE("nodes are compared ten seconds after the start, and once each is seen no more") {
    for (const int nodes : {3, 300}) {  // whole files, and first lines first
        CAPTURE(nodes);
        const TemporaryDirectory run;
        RunFiles files(run.path().string());
        NodeFiles own(files, task_of(0, nodes, 1), 1);
        const std::string letters = run_letters(task_of(0, nodes, 1), 1);
        const auto put = [&](int node, const std::string& driver) {
            run.write(fmt::format("node-{}-{}.start", node, letters), start_file(node, driver));
        };
        for (int node = 0; node < nodes - 1; ++node) put(node, node == 1 ? "535.1" : "570.2");
        run.write("node-5-zzzz.start", start_file(5, "1.2"));  // of another run
        const auto start = NodeCheck::Clock::now();
        NodeCheck check(files, own, nodes, start);
        CHECK(told(check, start, 9).empty());
        const auto first = told(check, start, 10);
        REQUIRE(first.size() == 1);
        CHECK(first.front().find("535.1 on n1") != std::string::npos);
        put(nodes - 1, "535.1");
        CHECK(told(check, start, 40).empty());  // the same difference is told once
    }
}

TEST_CASE("files that cannot be read do not end the comparison") {
    const TemporaryDirectory run;
    RunFiles files(run.path().string());
    NodeFiles own(files, task_of(0, 3, 1), 1);
    const std::string letters = run_letters(task_of(0, 3, 1), 1);
    run.write(fmt::format("node-0-{}.start", letters), start_file(0, "570.2"));
    run.write(fmt::format("node-1-{}.start", letters), "toporun-node 1 half");
    fs::create_symlink("/etc/passwd", run.path() / fmt::format("node-2-{}.start", letters));
    const auto start = NodeCheck::Clock::now();
    NodeCheck check(files, own, 3, start);
    CHECK(told(check, start, 10).empty());
    run.write(fmt::format("node-1-{}.start", letters), start_file(1, "535.1"));
    CHECK(told(check, start, 29).empty());  // 20 s after the first
    CHECK(told(check, start, 30).size() == 1);
}

}  // namespace
}  // namespace toporun::launcher
