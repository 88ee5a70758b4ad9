#include <doctest/doctest.h>

#include <vector>

#include "detect/nccl_log/events.hpp"
#include "detect/nccl_log/line.hpp"

using namespace toporun::detect::nccl_log;

namespace {

Event event_of(const std::string& message) {
    return parse_line("gpu-07:4242:4250 [3] NCCL INFO " + message).event;
}

}  // namespace

TEST_CASE("a parser sees messages of its first characters") {
    const FirstChars all("");
    const FirstChars some(" Cz0");
    for (int c = 0; c < 256; ++c) {
        CAPTURE(c);
        CHECK(all.contain(static_cast<char>(c)));
        CHECK(some.contain(static_cast<char>(c)) == (c == ' ' || c == 'C' || c == 'z' || c == '0'));
    }
}

TEST_CASE("version lines of every version are read") {
    struct Row {
        const char* name;
        std::string line;
        std::string version;
        std::string suffix;
        std::string toolkit;
        bool rccl;
    };
    const std::vector<Row> rows = {
        {"2.8 to 2.21, standard output", "NCCL version 2.18.6+cuda12.1", "2.18.6", "", "cuda12.1",
         false},
        {"2.22 and later at INFO", "n1:1:1 [0] NCCL INFO NCCL version 2.28.9+cuda13.0", "2.28.9",
         "", "cuda13.0", false},
        {"pre-release", "NCCL version 2.19.1rc1+cuda12.2", "2.19.1", "rc1", "cuda12.2", false},
        {"behind a label of srun", "3: NCCL version 2.26.2+cuda12.2", "2.26.2", "", "cuda12.2",
         false},
        {"behind a label of mpirun", "[1,0]<stdout>:NCCL version 2.9.9+cuda11.3", "2.9.9", "",
         "cuda11.3", false},
        {"RCCL, long form", "RCCL version : 2.27.7-HEAD:0d2c4fd", "2.27.7", "-HEAD:0d2c4fd", "",
         true},
        {"RCCL, old form", "RCCL version 2.18.6+hip6.0 HEAD:1234567", "2.18.6", "", "hip6.0", true},
        {"RCCL with a record", "n1:1:1 [0] NCCL INFO RCCL version : 2.26.6-HEAD:aa", "2.26.6",
         "-HEAD:aa", "", true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Line line = parse_line(row.line);
        REQUIRE(std::holds_alternative<Version>(line.event));
        const Version& version = std::get<Version>(line.event);
        CHECK(version.version == row.version);
        CHECK(version.suffix == row.suffix);
        CHECK(version.toolkit == row.toolkit);
        CHECK(version.rccl == row.rccl);
    }
}

TEST_CASE("sentences about versions are no version lines") {
    for (const char* line :
         {"this needs NCCL version 2.10.3 or newer", "NCCL version 2.10.3 or newer is needed",
          "NCCL version", "NCCL version 2.x+cuda12", "NCCL git version master 0123abc",
          "NCCL version 99999999999.1.1+cuda1", "see 'NCCL version 2.18.6+cuda12.1'"}) {
        CAPTURE(line);
        CHECK(std::holds_alternative<Unknown>(parse_line(line).event));
    }
}

TEST_CASE("interfaces of the bootstrap are read in both spellings") {
    struct Row {
        std::string message;
        std::vector<Interface> interfaces;
    };
    const std::vector<Row> rows = {
        {"Bootstrap : Using eth0:10.0.0.1<0>", {{"eth0", "10.0.0.1"}}},
        {"Bootstrap: Using ens1f0np0:192.168.7.9<0>", {{"ens1f0np0", "192.168.7.9"}}},
        {"Bootstrap : Using [0]ib0:10.1.0.1<0> [1]ib1:10.2.0.1<0>",
         {{"ib0", "10.1.0.1"}, {"ib1", "10.2.0.1"}}},
        {"Bootstrap: Using eth0:fe80::1%eth0<0>", {{"eth0", "fe80::1%eth0"}}},
        {"Bootstrap: Using mlx5_0:1", {{"mlx5_0", ""}}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.message);
        const Event event = event_of(row.message);
        REQUIRE(std::holds_alternative<Bootstrap>(event));
        CHECK(std::get<Bootstrap>(event).interfaces == row.interfaces);
    }
    CHECK(std::holds_alternative<Unknown>(event_of("Bootstrap timings total 0.1 (create 0.1)")));
}

TEST_CASE("devices of a network are read") {
    struct Row {
        std::string message;
        std::string network;
        std::vector<Interface> interfaces;
        std::vector<std::string> devices;
        bool none;
    };
    const std::vector<Row> rows = {
        {"NET/Socket : Using [0]eth0:10.0.0.1<0> [1]ens1:10.1.0.1<0>",
         "Socket",
         {{"eth0", "10.0.0.1"}, {"ens1", "10.1.0.1"}},
         {},
         false},
        {"NET/IB : Using [0]mlx5_0:1/IB [1]mlx5_1:1/RoCE ; OOB eth0:10.0.0.1<0>",
         "IB",
         {{"eth0", "10.0.0.1"}},
         {"mlx5_0:1/IB", "mlx5_1:1/RoCE"},
         false},
        {"NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>",
         "IB",
         {{"eth0", "10.0.0.1"}},
         {"mlx5_0:1/IB"},
         false},
        {"NET/IB : Using [0]={[0] mlx5_0:1/IB, [1] mlx5_1:1/IB} [RO]; OOB eth0:10.0.0.1<0>",
         "IB",
         {{"eth0", "10.0.0.1"}},
         {"mlx5_0:1/IB", "mlx5_1:1/IB"},
         false},
        {"NET/IB : Using [RO]; OOB lo:127.0.0.1<0>", "IB", {{"lo", "127.0.0.1"}}, {}, false},
        {"NET/IB : No device found.", "IB", {}, {}, true},
        {"NET/FastSocket : Using [0]ens8:10.9.0.7<0>",
         "FastSocket",
         {{"ens8", "10.9.0.7"}},
         {},
         false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.message);
        const Event event = event_of(row.message);
        REQUIRE(std::holds_alternative<NetworkDevices>(event));
        const NetworkDevices& devices = std::get<NetworkDevices>(event);
        CHECK(devices.network == row.network);
        CHECK(devices.interfaces == row.interfaces);
        CHECK(devices.devices == row.devices);
        CHECK(devices.none == row.none);
    }
    for (const char* message :
         {"NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'", "NET/OFI Using aws-ofi-nccl 1.7",
          "NET/Socket : Using 4 threads", "NET/ : Using x"}) {
        CAPTURE(message);
        CHECK(std::holds_alternative<Unknown>(event_of(message)));
    }
}

TEST_CASE("the network in use is read with blanks in its name") {
    for (const char* name : {"IB", "Socket", "AWS Libfabric", "FastSocket"}) {
        const Event event = event_of(std::string("Using network ") + name);
        REQUIRE(std::holds_alternative<UsingNetwork>(event));
        CHECK(std::get<UsingNetwork>(event).name == name);
    }
    CHECK(std::holds_alternative<Unknown>(event_of("Using network ")));
    CHECK(std::holds_alternative<Unknown>(event_of("Using non-device net plugin version 0")));
}

TEST_CASE("plugins that were loaded or not found are told apart") {
    struct Row {
        std::string message;
        std::string kind;
        std::string name;
        bool loaded;
    };
    const std::vector<Row> rows = {
        {"NET/Plugin : No plugin found (libnccl-net.so), using internal implementation", "NET", "",
         false},
        {"NET/Plugin : Plugin load (libnccl-net.so) returned 2 : libnccl-net.so: cannot open",
         "NET", "", false},
        {"NET/Plugin: Could not find: libnccl-net.so. Using internal network plugin.", "NET",
         "libnccl-net.so", false},
        {"NET/Plugin: Could not find: libnccl-net.so", "NET", "libnccl-net.so", false},
        {"NET/Plugin: Loaded net plugin Libfabric (v8)", "NET", "Libfabric", true},
        {"NET/Plugin: Loaded net plugin AWS Libfabric (v8)", "NET", "AWS Libfabric", true},
        {"PROFILER/Plugin: Could not find: libnccl-profiler.so", "PROFILER", "libnccl-profiler.so",
         false},
        {"PROFILER/Plugin: Loaded toporun (v5)", "PROFILER", "toporun", true},
        {"PROFILER/Plugin: loaded profiler plugin toporun (v4)", "PROFILER", "toporun", true},
        {"Successfully loaded external profiler plugin /opt/libtoporun-nccl.so", "PROFILER",
         "/opt/libtoporun-nccl.so", true},
        {"Successfully loaded external network plugin libnccl-net.so", "NET", "libnccl-net.so",
         true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.message);
        const Event event = event_of(row.message);
        REQUIRE(std::holds_alternative<Plugin>(event));
        CHECK(std::get<Plugin>(event).kind == row.kind);
        CHECK(std::get<Plugin>(event).name == row.name);
        CHECK(std::get<Plugin>(event).loaded == row.loaded);
    }
}

TEST_CASE("init lines of every version give rank, size and bus id") {
    struct Row {
        const char* name;
        std::string message;
        bool complete;
        int rank;
        int ranks;
        std::string bus_id;
        std::string id;
        std::optional<int> nvml_device;
        std::string parent;
        std::optional<int> split;
        std::optional<int> color;
    };
    const std::optional<int> no;
    const std::vector<Row> rows = {
        {"2.8 to 2.15", "comm 0x7f01 rank 3 nranks 8 cudaDev 3 busId 3d000 - Init COMPLETE", true,
         3, 8, "3d000", "", no, "", no, no},
        {"2.16 to 2.18.1",
         "comm 0x7f01 rank 3 nranks 8 cudaDev 3 busId 3d000 commId 0xabc - Init COMPLETE", true, 3,
         8, "3d000", "0xabc", no, "", no, no},
        {"2.18.3 to 2.20",
         "comm 0x7f01 rank 0 nranks 4 cudaDev 0 nvmlDev 4 busId 1a000 commId 0x12 - Init START",
         false, 0, 4, "1a000", "0x12", 4, "", no, no},
        {"2.21 split",
         "ncclCommSplit comm 0x7f02 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1c000 parent 0x7f01 "
         "color 1 key 5 commId 0x99 - Init COMPLETE",
         true, 1, 2, "1c000", "0x99", 1, "0x7f01", no, 1},
        {"2.23 split without a blank before the dash",
         "ncclCommSplit comm 0x7f02 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1c000 parent 0x7f01 "
         "color 1 key 5- Init START",
         false, 1, 2, "1c000", "", 1, "0x7f01", no, 1},
        {"2.24 split",
         "ncclCommSplit comm 0x7f02 rank 1 nranks 2 cudaDev 1 nvmlDev 1 busId 1c000 parent 0x7f01 "
         "splitCount 3 color 0 key 5- Init START",
         false, 1, 2, "1c000", "", 1, "0x7f01", 3, 0},
        {"2.29 with the rank in front",
         "[Rank 6] ncclCommInitRankConfig comm 0x7f01 rank 6 nranks 8 cudaDev 6 nvmlDev 6 busId "
         "ab000 commId 0x1 - Init START",
         false, 6, 8, "ab000", "0x1", 6, "", no, no},
        {"2.29 split counts children",
         "ncclCommSplit comm 0x7f02 rank 0 nranks 2 cudaDev 0 nvmlDev 0 busId 1c000 parent 0x7f01 "
         "childCount 2 color 7 key 0 - Init COMPLETE",
         true, 0, 2, "1c000", "", 0, "0x7f01", 2, 7},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Event event = event_of(row.message);
        REQUIRE(std::holds_alternative<Init>(event));
        const Init& init = std::get<Init>(event);
        CHECK(init.complete == row.complete);
        CHECK(init.rank == row.rank);
        CHECK(init.ranks == row.ranks);
        CHECK(init.bus_id == row.bus_id);
        CHECK(init.id == row.id);
        CHECK(init.nvml_device == row.nvml_device);
        CHECK(init.parent == row.parent);
        CHECK(init.split == row.split);
        CHECK(init.color == row.color);
    }
}

TEST_CASE("damaged init lines are unknown") {
    for (const char* message :
         {"comm 0x7f01 rank 9 nranks 8 cudaDev 3 busId 3d000 - Init COMPLETE",
          "comm 0x7f01 rank -1 nranks 8 - Init COMPLETE", "comm 0x7f01 rank 1 - Init COMPLETE",
          "comm rank 1 nranks 8 - Init COMPLETE", "- Init COMPLETE",
          "comm 0x7f01 rank 1 nranks 99999999999 - Init START",
          "comm 0x7f01 rank 0 nranks 8 cudaDev 0 busId 1a000 - Destroy COMPLETE"}) {
        CAPTURE(message);
        CHECK_FALSE(std::holds_alternative<Init>(event_of(message)));
    }
}

TEST_CASE("the shape of a communicator is read") {
    const Event event =
        event_of("comm 0x7f01 rank 5 nRanks 16 nNodes 2 localRanks 8 localRank 5 MNNVL 0");
    REQUIRE(std::holds_alternative<CommunicatorShape>(event));
    const CommunicatorShape& shape = std::get<CommunicatorShape>(event);
    CHECK(shape.communicator == "0x7f01");
    CHECK(shape.rank == 5);
    CHECK(shape.ranks == 16);
    CHECK(shape.nodes == 2);
    CHECK(shape.local_ranks == 8);
}

TEST_CASE("variables are read with their origin and without the full stop of numbers") {
    struct Row {
        std::string message;
        std::string name;
        std::string value;
        std::string origin;
    };
    const std::vector<Row> rows = {
        {"NCCL_P2P_LEVEL set by environment to NVL", "NCCL_P2P_LEVEL", "NVL", "environment"},
        {"NCCL_PXN_DISABLE set by environment to 1.", "NCCL_PXN_DISABLE", "1", "environment"},
        {"NCCL_SOCKET_IFNAME set by environment to =eth0,ens1f0", "NCCL_SOCKET_IFNAME",
         "=eth0,ens1f0", "environment"},
        {"NCCL_TOPO_FILE set by environment to /etc/topo v1.", "NCCL_TOPO_FILE", "/etc/topo v1.",
         "environment"},
        {"NCCL_IB_HCA set to mlx5", "NCCL_IB_HCA", "mlx5", ""},
        {"NCCL_SOCKET_IFNAME set by environment to ", "NCCL_SOCKET_IFNAME", "", "environment"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.message);
        const Event event = event_of(row.message);
        REQUIRE(std::holds_alternative<Variable>(event));
        CHECK(std::get<Variable>(event).name == row.name);
        CHECK(std::get<Variable>(event).value == row.value);
        CHECK(std::get<Variable>(event).origin == row.origin);
    }
    CHECK(std::holds_alternative<Unknown>(event_of("P2P Chunksize set to 524288")));
}

TEST_CASE("warnings keep their place and text") {
    const Line line =
        parse_line("n1:1:2 [0] transport/net_ib.cc:94 NCCL WARN NCCL version 2.18.6+cuda12.1");
    REQUIRE(std::holds_alternative<Warning>(line.event));
    CHECK(std::get<Warning>(line.event).source == "transport/net_ib.cc:94");
    CHECK(std::get<Warning>(line.event).text == "NCCL version 2.18.6+cuda12.1");
}
