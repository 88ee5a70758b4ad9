#include "launcher/failures/prefix.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

using namespace toporun::launcher::failures;

TEST_CASE("prefixes are stripped and understood") {
    struct Row {
        std::string line, message;
        std::optional<int> rank, local_rank, task, group_rank;
    };
    const std::vector<Row> rows = {
        {"plain text", "plain text", {}, {}, {}, {}},
        {"RuntimeError: x", "RuntimeError: x", {}, {}, {}, {}},
        {"  3: text", "text", {}, {}, 3, {}},
        {"[1,3]<stdout>:text", "text", 3, {}, {}, {}},
        {"[prte-a-1@1,7]<stderr>: text", "text", 7, {}, {}, {}},
        {"[2] text", "text", 2, {}, {}, {}},
        {"[2]:", "[2]:", {}, {}, {}, {}},
        {"[default3]:Traceback", "Traceback", {}, 3, {}, {}},
        {"[default3]:  File", "  File", {}, 3, {}, {}},
        {"[rank11]:   File", "  File", 11, {}, {}, {}},
        {"[rank7]:[E816 01:45:40.183000000 ProcessGroupNCCL.cpp:607] [Rank 7] Watchdog",
         "Watchdog",
         7,
         {},
         {},
         7},
        {"[E ProcessGroupNCCL.cpp:474] [Rank 2] Watchdog", "Watchdog", {}, {}, {}, 2},
        {"[rank0]:[E810 03:04:11.5 x.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank 0] Received",
         "Received",
         0,
         {},
         {},
         0},
        {"E20261130 07:34:19.919821 30004 socket.cpp:462] [c10d] The",
         "[c10d] The",
         {},
         {},
         {},
         {}},
        {"E0816 01:45:40.183000 123 torch/distributed/x.py:12] failed", "failed", {}, {}, {}, {}},
        {"ERROR:torch.distributed.elastic.multiprocessing.api:failed", "failed", {}, {}, {}, {}},
        {"[2024-03-01 10:00:00,123] torch.distributed.x: [ERROR] failed", "failed", {}, {}, {}, {}},
        {"2024-03-01T10:00:00.123456789Z [default1]:text", "text", {}, 1, {}, {}},
        {"(train pid=77, ip=10.0.0.4) text", "text", {}, {}, {}, {}},
        {"0: [default3]:[rank11]: text", "text", 11, 3, 0, {}},
        {"[ 6219.974711] oom-kill", "[ 6219.974711] oom-kill", {}, {}, {}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        const PrefixedLine line = strip_prefixes(row.line, {});
        CHECK(line.message == row.message);
        CHECK(line.origin.rank == row.rank);
        CHECK(line.origin.local_rank == row.local_rank);
        CHECK(line.origin.task == row.task);
        CHECK(line.origin.group_rank == row.group_rank);
    }
}

TEST_CASE("process groups, actors and known hosts") {
    CHECK(strip_prefixes("[PG ID 1 PG GUID 5(mesh_tp) Rank 3] x", {}).origin.group ==
          "ID 1 PG GUID 5(mesh_tp)");
    const Origin actor = strip_prefixes("(Train.run pid=77, ip=10.0.0.4) x", {}).origin;
    CHECK(actor.pid == 77);
    CHECK(actor.host == "10.0.0.4");
    const PrefixedLine line = strip_prefixes("node-a: x", {"node-a"});
    CHECK(line.message == "x");
    CHECK(line.origin.host == "node-a");
    CHECK(strip_prefixes("node-b: x", {"node-a"}).message == "node-b: x");
}

TEST_CASE("escapes, NUL bytes and progress bars are taken out") {
    std::string store;
    CHECK(cleaned("plain", store) == "plain");
    CHECK(cleaned("plain\r", store) == "plain");
    CHECK(cleaned("\x1b[31mred\x1b[0m text", store) == "red text");
    CHECK(cleaned("10%|#\r20%|##\rRuntimeError: x", store) == "RuntimeError: x");
    CHECK(cleaned(std::string("a\0b", 3), store) == "ab");
    CHECK(cleaned("cut \x1b[", store) == "cut ");
    CHECK(cleaned("\x1b]0;title\atext", store) == "text");
    CHECK(cleaned("\x1b]0;title\x1b\\text", store) == "text");
    CHECK(cleaned("cut \x1b]0;title", store) == "cut ");
}
