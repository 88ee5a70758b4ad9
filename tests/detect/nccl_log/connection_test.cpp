#include <doctest/doctest.h>

#include <vector>

#include "detect/nccl_log/line.hpp"

using namespace toporun::detect::nccl_log;

namespace {

struct Row {
    const char* versions;
    std::string message;
    Transport transport;
    int from;
    int to;
    std::string from_device;
    std::string to_device;
    std::string direction;
    std::string network;
    bool gpu_direct;
};

const std::vector<Row> kConnections = {
    {"2.7", "Ring 00 : 0[1a000] -> 1[1c000] via P2P/IPC", Transport::p2p, 0, 1, "1a000", "1c000",
     "", "", false},
    {"2.8 - 2.12", "Channel 00 : 0[1a000] -> 1[1c000] via P2P/IPC", Transport::p2p, 0, 1, "1a000",
     "1c000", "", "", false},
    {"2.8 - 2.13 one process", "Channel 01 : 2[3d000] -> 3[3f000] via P2P/direct pointer",
     Transport::p2p, 2, 3, "3d000", "3f000", "", "", false},
    {"2.8 - 2.13 through a GPU", "Channel 00 : 0[6000] -> 5[85000] via P2P/indirect/1[7000]",
     Transport::p2p_indirect, 0, 5, "6000", "85000", "", "", false},
    {"2.13 copy engine", "Channel 00/0 : 0[1a000] -> 1[1c000] via P2P/IPC/CE", Transport::p2p, 0, 1,
     "1a000", "1c000", "", "", false},
    {"2.14 - 2.18.1", "Channel 00/0 : 0[1a000] -> 1[1c000] via P2P/IPC/read", Transport::p2p, 0, 1,
     "1a000", "1c000", "", "", false},
    {"2.18.3 and later", "Channel 15/1 : 0[0] -> 1[1] via P2P/CUMEM/read", Transport::p2p, 0, 1,
     "0", "1", "", "", false},
    {"2.20 and later", "Channel 00/0 : 0[0] -> 5[1] via P2P/MNNVL", Transport::p2p, 0, 5, "0", "1",
     "", "", false},
    {"2.18.3 indirect", "Channel 00/0 : 0[0] -> 5[5] via P2P/indirect/3[3]",
     Transport::p2p_indirect, 0, 5, "0", "5", "", "", false},
    {"2.8 - 2.12 host memory", "Channel 00 : 0[1a000] -> 1[3d000] via direct shared memory",
     Transport::shm, 0, 1, "1a000", "3d000", "", "", false},
    {"2.13 - 2.30.4", "Channel 00 : 0[0] -> 1[1] via SHM/direct/direct", Transport::shm, 0, 1, "0",
     "1", "", "", false},
    {"2.30.7", "Channel 00 : 0[0] -> 1[1] via SHM/direct", Transport::shm, 0, 1, "0", "1", "", "",
     false},
    {"2.8 - 2.11 network", "Channel 00 : 7[b7000] -> 8[1a000] [send] via NET/IB/0/GDRDMA",
     Transport::net, 7, 8, "b7000", "1a000", "send", "IB", true},
    {"2.12 - 2.18.1 PXN", "Channel 00/0 : 7[b7000] -> 8[1a000] [receive] via NET/IB/0(3)/GDRDMA",
     Transport::net, 7, 8, "b7000", "1a000", "receive", "IB", true},
    {"2.18.3 shared", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/Shared", Transport::net, 7,
     8, "7", "0", "send", "IB", false},
    {"2.26 C2C", "Channel 00/0 : 7[7] -> 8[0] [send] via NET/IB/0/GDRDMA(PCI)/Shared",
     Transport::net, 7, 8, "7", "0", "send", "IB", true},
    {"sockets", "Channel 02/0 : 1[1] -> 0[0] [receive] via NET/Socket/0", Transport::net, 1, 0, "1",
     "0", "receive", "Socket", false},
    {"a name with a blank", "Channel 00/0 : 1[1] -> 0[0] [send] via NET/AWS Libfabric/2/GDRDMA",
     Transport::net, 1, 0, "1", "0", "send", "AWS Libfabric", true},
    {"a transport to come", "Channel 00/0 : 1[1] -> 0[0] via WARP/9", Transport::other, 1, 0, "1",
     "0", "", "", false},
};

}  // namespace

TEST_CASE("connection lines of every version are classified") {
    for (const Row& row : kConnections) {
        CAPTURE(row.versions);
        const std::string text = "gpu-07:4242:4250 [3] NCCL INFO " + row.message;
        const Line line = parse_line(text);
        REQUIRE(std::holds_alternative<Connection>(line.event));
        const Connection& connection = std::get<Connection>(line.event);
        CHECK(connection.transport == row.transport);
        CHECK(connection.from == row.from);
        CHECK(connection.to == row.to);
        CHECK(connection.from_device == row.from_device);
        CHECK(connection.to_device == row.to_device);
        CHECK(connection.direction == row.direction);
        CHECK(connection.network == row.network);
        CHECK(connection.gpu_direct == row.gpu_direct);
    }
}

TEST_CASE("ring orders and damaged connection lines are no connections") {
    for (const char* message :
         {"Channel 00/08 :    0   1   2   3", "Ring 00 : 7 -> 0 -> 1", "Channel 00/0 : 0[0] -> 1[1",
          "Channel 00/0 : 0[0] -> 1[1] via", "Channel 00/0 : 0[zz] -> 1[1] via P2P/IPC",
          "Channel 00/0 : -1[0] -> 1[1] via P2P/IPC", "Channel  : 0[0] -> 1[1] via P2P/IPC",
          "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0"}) {
        CAPTURE(message);
        const std::string text = std::string("n1:1:1 [0] NCCL INFO ") + message;
        const Line line = parse_line(text);
        CHECK_FALSE(std::holds_alternative<Connection>(line.event));
        CHECK(line.record.message == message);
    }
}

TEST_CASE("transports have the names of the report") {
    CHECK(transport_name(Transport::p2p) == "P2P");
    CHECK(transport_name(Transport::p2p_indirect) == "P2P-indirect");
    CHECK(transport_name(Transport::shm) == "SHM");
    CHECK(transport_name(Transport::net) == "NET");
    CHECK(transport_name(Transport::other) == "other");
}
