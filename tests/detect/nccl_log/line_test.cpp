#include "detect/nccl_log/line.hpp"

#include <doctest/doctest.h>

#include <vector>

using namespace toporun::detect::nccl_log;

namespace {

struct Row {
    const char* name;
    std::string line;
    Level level;
    std::string host;
    std::int64_t pid;
    std::int64_t tid;
    std::optional<int> device;
    std::string source;
    std::string message;
};

const std::vector<Row> kRecords = {
    {"plain INFO", "gpu-07:4242:4250 [3] NCCL INFO Channel search", Level::info, "gpu-07", 4242,
     4250, 3, "", "Channel search"},
    {"helper thread without a device", "n1:1:2 [-1] NCCL INFO x", Level::info, "n1", 1, 2, -1, "",
     "x"},
    {"empty message", "n1:1:2 [0] NCCL INFO ", Level::info, "n1", 1, 2, 0, "", ""},
    {"time stamp of 2.26", "[2026-02-03 04:05:06.123456] n1:1:2 [0] NCCL INFO x", Level::info, "n1",
     1, 2, 0, "", "x"},
    {"WARN with its place", "n1:1:2 [0] misc/socket.cc:77 NCCL WARN no route", Level::warn, "n1", 1,
     2, 0, "misc/socket.cc:77", "no route"},
    {"WARN with function as in 2.30.7",
     "[2026-02-03 04:05:06] n1:1:2 [0] init.cc:904 (checkPeers) NCCL WARN twice", Level::warn, "n1",
     1, 2, 0, "init.cc:904", "twice"},
    {"TRACE", "n1:1:2 [0] 12.345678 setup:30 NCCL TRACE deep", Level::trace, "n1", 1, 2, 0,
     "setup:30", "deep"},
    {"CALL has no device", "n1:1:2 NCCL CALL ncclAllReduce(7)", Level::trace, "n1", 1, 2,
     std::nullopt, "", "ncclAllReduce(7)"},
    {"torchrun prefix", "[default0]:n1:1:2 [0] NCCL INFO x", Level::info, "n1", 1, 2, 0, "", "x"},
    {"mpirun prefix", "[1,3]<stdout>:n1:1:2 [0] NCCL INFO x", Level::info, "n1", 1, 2, 0, "", "x"},
    {"srun -l prefix", "12: n1:1:2 [0] NCCL INFO x", Level::info, "n1", 1, 2, 0, "", "x"},
    {"terminal colours", "\x1b[32mn1:1:2 [0] NCCL INFO x\x1b[0m", Level::info, "n1", 1, 2, 0, "",
     "x"},
    {"carriage return", "n1:1:2 [0] NCCL INFO x\r\n", Level::info, "n1", 1, 2, 0, "", "x"},
    {"text before the record", "step 7 loss 0.1 n1:1:2 [0] NCCL INFO x", Level::info, "n1", 1, 2, 0,
     "", "x"},
    {"before 2.4 there was no NCCL", "n1:1:2 [0] INFO NET : Using interface eth0", Level::info,
     "n1", 1, 2, 0, "", "NET : Using interface eth0"},
    {"RCCL error", "n1:1:2 [0] [FATAL ERROR]: gone", Level::warn, "n1", 1, 2, 0, "", "gone"},
    {"no record", "epoch 1: 10:20:30 [0] done", Level::bare, "", 0, 0, std::nullopt, "",
     "epoch 1: 10:20:30 [0] done"},
    {"a logger's time of day", "2026-03-01 12:00:07 INFO Using network IB", Level::bare, "", 0, 0,
     std::nullopt, "", "2026-03-01 12:00:07 INFO Using network IB"},
    {"a pid that does not fit", "n1:99999999999999999999:2 [0] NCCL INFO x", Level::bare, "", 0, 0,
     std::nullopt, "", "n1:99999999999999999999:2 [0] NCCL INFO x"},
    {"no host", ":1:2 [0] NCCL INFO x", Level::bare, "", 0, 0, std::nullopt, "",
     ":1:2 [0] NCCL INFO x"},
};

}  // namespace

TEST_CASE("the record prefix is found wherever it stands") {
    for (const Row& row : kRecords) {
        CAPTURE(row.name);
        std::string buffer;
        const Line line = parse_line(plain_line(row.line, buffer));
        CHECK(line.record.level == row.level);
        CHECK(line.record.host == row.host);
        CHECK(line.record.pid == row.pid);
        CHECK(line.record.tid == row.tid);
        CHECK(line.record.device == row.device);
        CHECK(line.record.source == row.source);
        CHECK(line.record.message == row.message);
        CHECK_FALSE(line.torn);
    }
}

TEST_CASE("two records in one line are torn and the last one is read") {
    const Line line = parse_line(
        "n1:1:2 [0] NCCL INFO Connected all rin1:9:9 [1] NCCL INFO Using network Socket");
    CHECK(line.torn);
    CHECK(line.record.pid == 9);
    REQUIRE(std::holds_alternative<UsingNetwork>(line.event));
    CHECK(std::get<UsingNetwork>(line.event).name == "Socket");
}

TEST_CASE("only lines with a record or a version are from NCCL") {
    CHECK(parse_line("n1:1:2 [0] NCCL INFO anything").from_nccl());
    CHECK(parse_line("NCCL version 2.18.6+cuda12.1").from_nccl());
    CHECK_FALSE(parse_line("Bootstrap : Using eth0:10.0.0.1<0>").from_nccl());
    CHECK_FALSE(parse_line("").from_nccl());
}

TEST_CASE("bus ids are read as one hexadecimal number") {
    CHECK(bus_id_text("1a000") == "0000:1a:00.0");
    CHECK(bus_id_text("10000") == "0000:10:00.0");
    CHECK(bus_id_text("1000b5010") == "1000:b5:01.0");
    CHECK(bus_id_text("ffffffffff") == "fffff:ff:ff.f");
    CHECK(bus_id_text("10000a5000") == "10000:a5:00.0");
    CHECK_FALSE(bus_id_text("").has_value());
    CHECK_FALSE(bus_id_text("0x1a000").has_value());
    CHECK_FALSE(bus_id_text("1a00g").has_value());
    CHECK_FALSE(bus_id_text("ffffffffffffffff").has_value());
}
