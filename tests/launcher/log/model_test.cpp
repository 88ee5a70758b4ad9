#include "launcher/log/model.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

using namespace toporun::launcher;
using toporun::detect::nccl_log::parse_line;
using toporun::detect::nccl_log::Transport;

namespace {

LogSummary summary_of(const std::vector<std::string>& lines) {
    LogModel model;
    for (const std::string& line : lines) model.add(parse_line(line));
    return model.summary();
}

/// A line of the process that holds GPU `device` of `host`.
std::string of(const std::string& host, int device, const std::string& message) {
    const std::string pid = std::to_string(100 + device);
    return host + ":" + pid + ":" + pid + " [" + std::to_string(device) + "] NCCL INFO " + message;
}

std::string init(const std::string& host, int device, int rank, int ranks, const std::string& id,
                 const std::string& pointer = "0xa") {
    return of(host, device,
              "ncclCommInitRank comm " + pointer + " rank " + std::to_string(rank) + " nranks " +
                  std::to_string(ranks) + " cudaDev " + std::to_string(device) + " nvmlDev " +
                  std::to_string(device) + " busId 1" + std::to_string(device) + "000 commId " +
                  id + " - Init COMPLETE");
}

std::vector<std::string> two_nodes_of_two() {
    return {init("a", 0, 0, 4, "0x1"), init("a", 1, 1, 4, "0x1"), init("b", 0, 2, 4, "0x1"),
            init("b", 1, 3, 4, "0x1")};
}

std::string pairs(const LogSummary& summary) {
    std::string text;
    for (const LogTransport& row : summary.transports) {
        text += std::to_string(row.from) + ">" + std::to_string(row.to) + " " +
                std::string(transport_name(row.transport)) + (row.gpu_direct ? "+gdr " : " ");
    }
    return text;
}

}  // namespace

TEST_CASE("an empty log has not started") {
    const LogSummary summary = summary_of({"", "epoch 1", "Bootstrap : Using eth0:10.0.0.1<0>"});
    CHECK_FALSE(summary.started());
    CHECK(summary.transports.empty());
    CHECK_FALSE(summary.rank_count.has_value());
    CHECK_FALSE(summary.node_count.has_value());
}

TEST_CASE("facts of several processes are joined, each once") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (const char* host : {"a", "b"}) {
        lines.push_back(of(host, 0, "NCCL version 2.28.9+cuda13.0"));
        lines.push_back(of(host, 0, "Bootstrap: Using eth0:10.0.0.1<0>"));
        lines.push_back(of(host, 0, "NET/IB : Using [0]mlx5_0:1/IB [RO]; OOB eth0:10.0.0.1<0>"));
        lines.push_back(of(host, 0, "NET/Socket : Using [0]ens1:10.0.0.1<0>"));
        lines.push_back(of(host, 0, "Using network IB"));
        lines.push_back(of(host, 0, "NCCL_P2P_LEVEL set by environment to NVL"));
        lines.push_back(of(host, 0, "PROFILER/Plugin: Loaded toporun (v5)"));
        lines.push_back(of(host, 0, "something new"));
    }
    lines.push_back(of("b", 0, "NCCL_P2P_LEVEL set by environment to SYS"));
    lines.push_back(
        of("a", 0, "comm 0xa rank 0 nRanks 4 nNodes 2 localRanks 2 localRank 0 MNNVL 0"));
    const LogSummary summary = summary_of(lines);
    CHECK(summary.started());
    CHECK(summary.versions == std::vector<std::string>{"2.28.9"});
    CHECK(summary.nodes == std::vector<std::string>{"a", "b"});
    CHECK(summary.node_count == 2);
    CHECK(summary.rank_count == 4);
    CHECK(summary.networks == std::vector<std::string>{"IB"});
    CHECK(summary.bootstrap_interfaces == std::vector<std::string>{"eth0"});
    CHECK(summary.data_interfaces == std::vector<std::string>{"ens1"});
    CHECK(summary.rdma_devices == std::vector<std::string>{"mlx5_0:1/IB"});
    CHECK(summary.plugins.at("PROFILER") == "toporun");
    REQUIRE(summary.variables.size() == 1);
    CHECK(summary.variables[0].values == std::vector<std::string>{"NVL", "SYS"});
    REQUIRE(summary.ranks.size() == 4);
    CHECK(summary.ranks[3].host == "b");
    CHECK(summary.ranks[3].pid == 101);
    CHECK(summary.ranks[3].pci == "0000:11:00.0");
    CHECK(summary.ranks[3].gpu_index == 1);
    CHECK(summary.ranks[3].complete);
    CHECK(summary.unknown == 2);
}

TEST_CASE("connections are distinct ordered pairs of global ranks") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (int channel = 0; channel < 8; ++channel) {
        const std::string name = "Channel 0" + std::to_string(channel) + "/0 : ";
        lines.push_back(of("a", 0, name + "0[0] -> 1[1] via P2P/CUMEM"));
        lines.push_back(of("a", 1, name + "1[1] -> 0[0] via SHM/direct/direct"));
        lines.push_back(of("a", 1, name + "1[1] -> 2[0] [send] via NET/IB/0"));
        lines.push_back(of("b", 0, name + "1[1] -> 2[0] [receive] via NET/IB/0/GDRDMA"));
        lines.push_back(of("b", 0, name + "2[0] -> 3[1] via P2P/indirect/1[1]"));
    }
    const LogSummary summary = summary_of(lines);
    CHECK(pairs(summary) == "0>1 P2P 1>0 SHM 1>2 NET+gdr 2>3 P2P-indirect ");
    CHECK(summary.other_connections == 0);
}

TEST_CASE("connections of a split are given the ranks of the world") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (int device : {0, 1}) {  // one communicator for each node, without a commId
        for (const char* host : {"a", "b"}) {
            const std::string color = host == std::string("a") ? "0" : "1";
            lines.push_back(of(host, device,
                               "ncclCommSplit comm 0xb rank " + std::to_string(device) +
                                   " nranks 2 cudaDev " + std::to_string(device) + " nvmlDev " +
                                   std::to_string(device) + " busId 1" + std::to_string(device) +
                                   "000 parent 0xa splitCount 1 color " + color +
                                   " key 0- Init START"));
        }
    }
    lines.push_back(of("b", 0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"));
    lines.push_back(of("a", 1, "Channel 00/0 : 1[1] -> 0[0] via P2P/CUMEM"));
    const LogSummary summary = summary_of(lines);
    CHECK(summary.rank_count == 4);
    CHECK(pairs(summary) == "1>0 P2P 2>3 P2P ");
    CHECK(summary.other_connections == 0);
}

TEST_CASE("parts of a communicator that was not seen are not the job") {
    std::vector<std::string> lines;
    for (int device = 0; device < 4; ++device) {
        const std::string number = std::to_string(device);
        lines.push_back(of("a", device,
                           "ncclCommSplit comm 0xb rank " + std::to_string(device / 2) +
                               " nranks 2 cudaDev " + number + " nvmlDev " + number + " busId " +
                               number + "b000 parent 0xa splitCount 2 color " +
                               std::to_string(device % 2) + " key 0 - Init COMPLETE"));
    }
    const LogSummary summary = summary_of(lines);
    CHECK_FALSE(summary.rank_count.has_value());
    CHECK(summary.rank_least == 4);
    CHECK(summary.ranks.empty());
}

TEST_CASE("a connection of an unknown communicator is counted and not guessed") {
    std::vector<std::string> lines = two_nodes_of_two();
    lines.push_back(of("b", 0, "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM"));
    lines.push_back(of("a", 0, "Channel 00/0 : 0[0] -> 9[1] via P2P/CUMEM"));
    const LogSummary summary = summary_of(lines);
    CHECK(summary.transports.empty());
    CHECK(summary.other_connections == 2);
}

TEST_CASE("without any init line the ranks are those of the connections") {
    const LogSummary summary =
        summary_of({of("a", 0, "Channel 00 : 0[1a000] -> 1[1c000] via direct shared memory")});
    CHECK(pairs(summary) == "0>1 SHM ");
    CHECK_FALSE(summary.rank_count.has_value());
}

TEST_CASE("logs before 2.16 have no communicator id") {
    const auto old_init = [](int rank) {
        return of("a", rank,
                  "comm 0x7 rank " + std::to_string(rank) + " nranks 2 cudaDev " +
                      std::to_string(rank) + " busId 1" + std::to_string(rank) +
                      "000 - Init COMPLETE");
    };
    const LogSummary summary = summary_of(
        {old_init(0), old_init(1), of("a", 0, "Channel 00 : 0[10000] -> 1[11000] via P2P/IPC")});
    CHECK(summary.rank_count == 2);
    CHECK(pairs(summary) == "0>1 P2P ");
}

TEST_CASE("a restarted worker takes the place of its rank") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (std::string line : two_nodes_of_two()) {
        line.replace(line.find(":10"), 3, ":90");
        line.replace(line.find("commId 0x1"), 10, "commId 0x2");
        lines.push_back(line);
    }
    lines.push_back("a:900:900 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM");
    const LogSummary summary = summary_of(lines);
    REQUIRE(summary.ranks.size() == 4);
    CHECK(summary.ranks[0].pid == 900);
    CHECK(pairs(summary) == "0>1 P2P ");
}

TEST_CASE("one process with several GPUs keeps its ranks apart") {
    const std::vector<std::string> lines = {
        "a:1:11 [0] NCCL INFO comm 0xa rank 0 nranks 2 cudaDev 0 busId 10000 commId 0x1 - Init "
        "COMPLETE",
        "a:1:12 [1] NCCL INFO comm 0xb rank 1 nranks 2 cudaDev 1 busId 11000 commId 0x1 - Init "
        "COMPLETE",
        "a:1:11 [0] NCCL INFO Channel 00/0 : 0[0] -> 1[1] via P2P/direct pointer",
        "a:1:12 [1] NCCL INFO Channel 00/0 : 1[1] -> 0[0] via P2P/direct pointer"};
    const LogSummary summary = summary_of(lines);
    CHECK(summary.ranks.size() == 2);
    CHECK(pairs(summary) == "0>1 P2P 1>0 P2P ");
}

TEST_CASE("warnings are counted by text and carry the rank") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (int i = 0; i < 3; ++i) {
        lines.push_back("b:101:101 [1] misc/socket.cc:9 NCCL WARN connection refused");
    }
    for (int i = 0; i < 100; ++i) {
        lines.push_back("a:100:100 [0] x.cc:9 NCCL WARN number " + std::to_string(i));
    }
    const LogSummary summary = summary_of(lines);
    CHECK(summary.warning_count == 103);
    REQUIRE(summary.warnings.size() == 16);
    CHECK(summary.warnings[0].text == "connection refused");
    CHECK(summary.warnings[0].count == 3);
    CHECK(summary.warnings[0].rank == 3);
    CHECK(summary.warnings[0].source == "misc/socket.cc:9");
}

TEST_CASE("endless distinct names do not fill the memory") {
    LogModel model;
    for (int i = 0; i < 10000; ++i) {
        const std::string n = std::to_string(i);
        model.add(parse_line(of("h" + n, 0, "Using network N" + n)));
        model.add(parse_line(of("h", 0, "NCCL_V" + n + " set by environment to x")));
        model.add(parse_line(of("h", 0, "NCCL_V set by environment to " + n)));
        model.add_note("note " + n);
    }
    const LogSummary summary = model.summary();
    CHECK(summary.lines == 30000);
    CHECK(summary.networks.size() == 64);
    CHECK(summary.nodes.size() == 4096);
    CHECK(summary.variables.size() == 256);
    CHECK(summary.notes.size() == 64);
}

TEST_CASE("a host with the rest of another line before it is no node") {
    std::vector<std::string> lines;
    for (int i = 0; i < 30; ++i) lines.push_back(of("node-a", 0, "x"));
    for (int i = 0; i < 30; ++i) lines.push_back(of("big-node-a", 0, "x"));
    lines.push_back(of("sumnode-a", 0, "x"));
    lines.push_back(of("node-b", 0, "x"));
    const LogSummary summary = summary_of(lines);
    CHECK(summary.nodes == std::vector<std::string>{"node-a", "big-node-a", "node-b"});
    CHECK(summary.torn == 1);
}

namespace {

std::string call(const std::string& host, int device, const std::string& function,
                 std::uint64_t count, const std::string& pointer, int ranks) {
    return of(host, device,
              function + ": opCount 0 sendbuff 0x1 recvbuff 0x2 count " + std::to_string(count) +
                  " datatype 7 op 0 root 0 comm " + pointer + " [nranks=" + std::to_string(ranks) +
                  "] stream 0x9");
}

}  // namespace

TEST_CASE("calls are added up by function, size class and communicator") {
    std::vector<std::string> lines = two_nodes_of_two();
    const std::vector<std::pair<std::string, int>> places = {
        {"a", 0}, {"a", 1}, {"b", 0}, {"b", 1}};
    for (const auto& [host, device] : places) {
        for (const std::uint64_t count : {256u, 256u, 1000u})
            lines.push_back(call(host, device, "AllReduce", count, "0xa", 4));
        lines.push_back(call(host, device, "AllGather", 256, "0xa", 4));
    }
    lines.push_back(call("a", 0, "Send", 100, "0xa", 4));
    const LogSummary summary = summary_of(lines);
    REQUIRE(summary.collectives.size() == 4);
    CHECK(summary.collectives[0].function == "AllReduce");
    CHECK(summary.collectives[0].size_class == 1024);
    CHECK(summary.collectives[0].count == 8);
    CHECK(summary.collectives[0].bytes == 8 * 1024);
    CHECK(summary.collectives[1].size_class == 4096);
    CHECK(summary.collectives[1].bytes == 16000);
    CHECK(summary.collectives[2].function == "AllGather");
    CHECK(summary.collectives[2].size_class == 4096);
    CHECK(summary.collectives[3].function == "Send");
    REQUIRE(summary.communicators.size() == 1);
    CHECK(summary.communicators[0].id == "0x1");
    CHECK(summary.communicators[0].members == 4);
    CHECK(summary.communicators[0].count == 17);
    CHECK(summary.communicators[0].calls == 4);
}

TEST_CASE("calls of a pointer that is used again belong to the new communicator") {
    std::vector<std::string> lines;
    for (int device : {0, 1}) {
        lines.push_back(init("a", device, device, 2, "0x1"));
        lines.push_back(call("a", device, "AllReduce", 1, "0xa", 2));
        lines.push_back(init("a", device, device, 2, "0x2"));
        lines.push_back(call("a", device, "AllReduce", 1, "0xa", 2));
        lines.push_back(call("a", device, "AllReduce", 1, "0xa", 2));
    }
    lines.push_back(call("a", 1, "AllReduce", 1, "0xa", 2));
    const LogSummary summary = summary_of(lines);
    REQUIRE(summary.communicators.size() == 2);
    CHECK(summary.communicators[0].calls == 1);
    CHECK(summary.communicators[1].count == 5);
    CHECK_FALSE(summary.communicators[1].calls.has_value());  // ranks 0 and 1 do not agree
}

TEST_CASE("what is said of the set-up is kept once") {
    std::vector<std::string> lines = two_nodes_of_two();
    for (int device : {0, 1}) {
        lines.push_back(of("a", device, "Channel 00/02 : 0 1 2 3"));
        lines.push_back(of("a", device, "Channel 00/02 : 0 1"));  // of a smaller communicator
        lines.push_back(of("a", device,
                           "Pattern 4, crossNic 0, nChannels 2, bw 12.000000/12.000000, type "
                           "NVL/PIX, sameChannels 1"));
        lines.push_back(of("a", device,
                           "AllReduce: 1000 Bytes -> Algo RING proto LL "
                           "channel{Lo..Hi}={0..1}"));
        lines.push_back(of("a", device, "  Algorithm   |  Ring  |"));
        lines.push_back(of("a", device, "    AllReduce | 1.0/ 2.5 | 3.0/ 0.0 | 4.0/ 5.0 |"));
        lines.push_back(of("a", device,
                           "GPU/1A000 :GPU/1A000 (0/5000.0/LOC) NET/0 (4/12.5/PXB) NET/1 "
                           "(4/12.5/PXB) NET/2 (6/12.5/PHB)"));
        lines.push_back(of("a", device, "Setting affinity for GPU 0 to ffffffff"));
    }
    const LogSetup setup = summary_of(lines).setup;
    REQUIRE(setup.rings.size() == 1);
    CHECK(setup.rings[0].ranks == std::vector<int>{0, 1, 2, 3});
    REQUIRE(setup.patterns.size() == 1);
    CHECK(setup.patterns[0].count == 2);
    REQUIRE(setup.choices.size() == 1);
    CHECK(setup.choices[0].size_class == 1024);
    CHECK(setup.choices[0].count == 2);
    REQUIRE(setup.tuning.size() == 2);
    CHECK(setup.tuning[1].protocol == "Simple");
    CHECK(setup.tuning[1].gbytes_per_s == 5);
    REQUIRE(setup.gpu_nics.size() == 2);
    CHECK(setup.gpu_nics[1].net == 1);
    CHECK(setup.gpu_nics[1].path == "PXB");
    REQUIRE(setup.affinity.size() == 1);
    CHECK(setup.affinity[0].cpus == "0-31");
}

TEST_CASE("driver, queue pairs, plugins and NVLink between nodes are collected") {
    const auto summary = summary_of(
        {of("a", 0, "cudaDriverVersion 12040"), of("b", 0, "cudaDriverVersion 12040"),
         of("b", 1, "cudaDriverVersion 13000"), of("a", 0, "Assigned NET plugin IB to comm"),
         of("a", 0, "NET/IB: NCCL Dev 2 IbDev 2 Port 1 qpn 71 mtu 5 GID 3 (0/A0A0000A0000)"),
         of("a", 1, "NET/IB: NCCL Dev 2 IbDev 2 Port 1 qpn 72 mtu 5 GID 3 (0/A0A0000A0000)"),
         of("a", 1, "NET/IB: NCCL Dev 3 IbDev 3 Port 1 qpn 73 mtu 3 GID 3 (0/A0A0000A0000)"),
         of("a", 1, "NET/IB: Dev 3 Port 1 qpn 73 mtu 9 LID 3"),
         of("a", 0, "MNNVL 1 cliqueId 0 cliqueSize 8 cliqueRank 0"),
         of("a", 0, "MNNVL 0 cliqueId 0 cliqueSize 16 cliqueRank 0"),
         of("a", 0, "CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA"),
         of("a", 0, "Could not find a path for pattern 4, falling back to simple order"),
         of("a", 0, "Failed to open libibverbs.so[.1]")});
    const LogFabric& fabric = summary.setup.fabric;
    CHECK(fabric.cuda_drivers == std::vector<int>{12040, 13000});
    REQUIRE(fabric.queue_pairs.size() == 2);
    CHECK(fabric.queue_pairs[0].device == 2);
    CHECK(fabric.queue_pairs[0].mtu_bytes == 4096);
    CHECK(fabric.queue_pairs[0].gid_index == 3);
    CHECK(fabric.queue_pairs[0].count == 2);
    CHECK(fabric.queue_pairs[1].mtu_bytes == 1024);
    CHECK(fabric.mnnvl_ranks == 8);
    CHECK(fabric.collnet == "SHARP");
    CHECK(fabric.patterns_without_graph == std::vector<int>{4});
    CHECK(fabric.no_verbs);
    CHECK(summary.unknown == 1);  // no MTU has code 9
}
