#include "detect/nccl_log/collective.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"

using namespace toporun::detect::nccl_log;

namespace {

std::string call(const std::string& function, const std::string& rest) {
    return "n1:12:12 [0] NCCL INFO " + function +
           ": opCount 1f sendbuff 0x7f51a8dff000 recvbuff (nil) " + rest;
}

}  // namespace

TEST_CASE("a line of the subsystem COLL is a call") {
    const Line line = parse_line(call("AllReduce",
                                      "count 1048576 datatype 7 op 0 root 0 comm 0x55d658aa20b0 "
                                      "[nranks=16] stream 0x55d662c1f640"));
    const Collective* event = std::get_if<Collective>(&line.event);
    REQUIRE(event != nullptr);
    CHECK(function_name(event->function) == "AllReduce");
    CHECK(event->op_count == 31);
    CHECK(event->count == 1048576);
    CHECK(event->datatype == 7);
    CHECK(event->communicator == 0x55d658aa20b0);
    CHECK(event->ranks == 16);
    CHECK(event->stream == 0x55d662c1f640);
    CHECK(size_bytes(*event) == 4194304);
}

TEST_CASE("sizes are those of nccl-tests") {
    struct Row {
        const char* name;
        std::string function;
        std::string rest;
        std::optional<std::uint64_t> bytes;
    };
    const std::string tail = " op 0 root 3 comm 0xa [nranks=8] stream 0xb";
    const std::vector<Row> rows = {
        {"half", "AllReduce", "count 10 datatype 6" + tail, 20},
        {"broadcast", "Broadcast", "count 10 datatype 0" + tail, 10},
        {"reduce", "Reduce", "count 10 datatype 8" + tail, 80},
        {"all parts together", "AllGather", "count 10 datatype 7" + tail, 320},
        {"all parts together too", "ReduceScatter", "count 10 datatype 9" + tail, 160},
        {"2.28", "AlltoAll", "count 10 datatype 7" + tail, 320},
        {"RCCL's spelling and fields", "AllToAll",
         "acc (nil) count 10 datatype 7" + tail + " task 0 globalrank 5", 320},
        {"gather", "Gather", "count 10 datatype 7" + tail, 320},
        {"scatter", "Scatter", "count 10 datatype 7" + tail, 320},
        {"send", "Send", "count 10 datatype 4" + tail, 80},
        {"receive", "Recv", "count 10 datatype 5" + tail, 80},
        {"float8", "AllReduce", "count 10 datatype 11" + tail, 10},
        {"no ranks are told", "AllReduce", "count 10 datatype 7 op 0 root 0 comm 0xa stream 0xb",
         40},
        {"the number of parts is unknown", "AllGather",
         "count 10 datatype 7 op 0 root 0 comm 0xa stream 0xb", std::nullopt},
        {"masked pointers", "AllReduce",
         "count 2 datatype 7 op 0 root 0 comm 0x... [nranks=2] stream 0x...", 8},
        {"unknown type", "AllReduce", "count 10 datatype 12" + tail, std::nullopt},
        {"negative type", "AllReduce", "count 10 datatype -1" + tail, std::nullopt},
        {"no number of bytes", "AllGather", "count 18446744073709551615 datatype 7" + tail,
         std::nullopt},
        {"nothing", "AllReduce", "count 0 datatype 7" + tail, 0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Line line = parse_line(call(row.function, row.rest));
        const Collective* event = std::get_if<Collective>(&line.event);
        REQUIRE(event != nullptr);
        CHECK(size_bytes(*event) == row.bytes);
    }
}

TEST_CASE("what is no whole call stays unknown") {
    const std::vector<std::string> lines = {
        call("AllReduce", ""),
        call("AllReduce", "count 10 datatype 7 op 0 root 0"),
        call("AllReduce", "count 1x datatype 7 op 0 root 0 comm 0xa [nranks=8] stream 0xb"),
        call("AllReduce", "count 10 datatype 7 op 0 root 0 comm a [nranks=8] stream 0xb"),
        call("AllReduce", "count 10 datatype 7 op 0 root 0 comm 0xa [nranks=0] stream 0xb"),
        call("AllReduce", "count 10 datatype 7 op 0 root 0 comm 0xa [nranks=8 stream 0xb"),
        call("AllReduce", "count 10 datatype 7 op 0 root 0 comm 0xa [nranks=8] stream 0x5n1:3"),
        call("MyReduce", "count 10 datatype 7 op 0 root 0 comm 0xa [nranks=8] stream 0xb"),
        "n1:12:12 [0] NCCL INFO AllReduce: 4194304 Bytes -> Algo 1 proto 2 time 52.300000",
        "n1:12:12 [0] NCCL INFO AllReduce: opCount",
        "n1:12:12 NCCL CALL ncclAllReduce(0x7f, 0x7f, 10, 7, 0, 0xa, 0xb)",
    };
    for (const std::string& text : lines) {
        CAPTURE(text);
        CHECK_FALSE(std::holds_alternative<Collective>(parse_line(text).event));
    }
}

TEST_CASE("calls are the same whatever the one before ended with") {
    const std::string begin = "AllReduce: opCount 1f sendbuff 0x7f51a8dff000 recvbuff ";
    const std::string middle = " count 1024 datatype 7 op 0 root 3";
    std::vector<std::string> messages;
    for (const std::string buffer : {"0x7f51a8dff000", "(nil)", "0x1", "0x0123456789abcdef",
                                     "0x0123456789abcdef0", "0x", "0xg", "0x7F51", "0x..."})
        for (const std::string end :
             {" comm 0x55d658aa20b0 [nranks=16] stream 0x55d662c1f640",
              " comm 0x55d658aa20b1 [nranks=16] stream 0x55d662c1f640",
              " comm 0x55d658aa20b0 [nranks=0] stream 0x55d662c1f640", " comm 0x55d658aa20b0", "",
              " comm 0x55d658aa20b0 [nranks=16] stream 0x55d662c1f640 task 7",
              " comm 0x55d658aa20b0 [nranks=16] stream"})
            messages.push_back(begin + buffer + middle + end);
    messages.push_back("AllToAll" + messages.front().substr(9));
    messages.push_back("Other" + messages.front().substr(9));
    const std::string usual = messages.front();
    for (std::size_t i = 1; i < usual.size(); ++i) messages.push_back(usual.substr(0, i));
    int calls = 0;
    for (const std::string& before : {usual, std::string("AllReduce: opCount 1"), messages[1]}) {
        for (const std::string& message : messages) {
            CAPTURE(message);
            CallEnd end;
            Collective call;
            (void)parse_collective(before, end, call);
            const auto alone = parse_collective(message);
            const bool known = parse_collective(message, end, call);
            REQUIRE(known == alone.has_value());
            if (!known) continue;
            ++calls;
            CHECK(call.function == alone->function);
            CHECK(call.op_count == alone->op_count);
            CHECK(call.count == alone->count);
            CHECK(call.datatype == alone->datatype);
            CHECK(call.op == alone->op);
            CHECK(call.root == alone->root);
            CHECK(call.communicator == alone->communicator);
            CHECK(call.ranks == alone->ranks);
            CHECK(call.stream == alone->stream);
            CHECK(call.usual == alone->usual);
        }
    }
    CHECK(calls > 60);
}
