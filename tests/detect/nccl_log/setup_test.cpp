#include "detect/nccl_log/setup.hpp"

#include <doctest/doctest.h>

#include <functional>
#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"

using namespace toporun::detect::nccl_log;

namespace {

/// The event of a message, which must be of the kind asked for.
template <typename Kind>
Kind read(const std::string& message) {
    static std::string line;  // what the event may be a part of
    line = "n1:12:12 [0] NCCL INFO " + message;
    const Line parsed = parse_line(line);
    CAPTURE(message);
    REQUIRE(std::holds_alternative<Kind>(parsed.event));
    return std::get<Kind>(parsed.event);
}

bool unknown(const std::string& message) {
    const std::string line = "n1:12:12 [0] NCCL INFO " + message;
    return std::holds_alternative<Unknown>(parse_line(line).event);
}

}  // namespace

TEST_CASE("channel counts of every version are read") {
    const auto old =
        read<ChannelCounts>("8 coll channels, 6 p2p channels, 2 p2p channels per peer");
    CHECK(old.coll == 8);
    CHECK_FALSE(old.collnet.has_value());
    CHECK_FALSE(old.nvls.has_value());
    CHECK(old.p2p == 6);
    CHECK(old.p2p_per_peer == 2);
    CHECK(read<ChannelCounts>(
              "8 coll channels, 16 nvls channels, 8 p2p channels, 2 p2p channels per peer")
              .nvls == 16);
    const auto late = read<ChannelCounts>(
        "24 coll channels, 23 collnet channels, 0 nvls channels, 32 p2p channels, 31 p2p channels "
        "per peer");
    CHECK(late.collnet == 23);
    CHECK(late.nvls == 0);
    CHECK(late.p2p_per_peer == 31);
    CHECK(unknown("8 coll channels, 6 p2p channels"));
}

TEST_CASE("rings and trees of every version are read") {
    const auto ring = read<RingOrder>("Channel 01/08 :    0   1   3   2");
    CHECK(ring.channel == 1);
    CHECK(ring.channels == 8);
    CHECK(ring.ranks == std::vector<int>{0, 1, 3, 2});
    CHECK_FALSE(ring.cut);
    CHECK(read<RingOrder>("Channel 00/24 : 0 1 2 ...").cut);
    const auto link = read<RingLink>("Ring 00 : 7 -> 0 -> 1");
    CHECK(link.previous == 7);
    CHECK(link.rank == 0);
    CHECK(link.next == 1);
    const auto trees = read<Trees>("Trees [0] 1/-1/-1->0->-1 [1] -1/2/3->0->4");
    REQUIRE(trees.links.size() == 2);
    CHECK(trees.links[0] == TreeLink{0, 0, -1, {1, -1, -1}});
    CHECK(trees.links[1] == TreeLink{1, 0, 4, {-1, 2, 3}});
    CHECK(read<Trees>("Trees [0] 1/-1/-1->0->-1 [1] -1/2/3-").links.size() == 1);
    CHECK(read<Trees>("Tree 12 : -1 -> 0 -> 1/-1/-1").links[0] == TreeLink{12, 0, -1, {1, -1, -1}});
    CHECK(unknown("Channel 08/08 : 0 1"));
    CHECK(unknown("Channel 00/08 : 0 x"));
    CHECK(unknown("Tree 0 : -1 -> 0 -> 1/-1"));
    CHECK(unknown("Ring 00 : 7 -> 0"));
}

TEST_CASE("results of the search are read") {
    const auto pattern = read<Pattern>(
        "Pattern 4, crossNic 2, nChannels 12, bw 20.000000/12.500000, type NVL/PIX, sameChannels "
        "1");
    CHECK(pattern.pattern == 4);
    CHECK(pattern.cross_nic == 2);
    CHECK(pattern.channels == 12);
    CHECK(pattern.intra_gbytes_per_s == 20);
    CHECK(pattern.inter_gbytes_per_s == 12.5);
    CHECK(pattern.intra_type == "NVL");
    CHECK(pattern.inter_type == "PIX");
    CHECK(read<Pattern>("Pattern 3, crossNic 0, nChannels 2, speed 9.0/9.0, type PHB/SYS, "
                        "sameChannels 0")
              .inter_type == "SYS");
    CHECK(unknown("Pattern 4, crossNic 2, nChannels 12, bw"));
}

TEST_CASE("affinity is a list of CPUs whatever its form") {
    CHECK(read<Affinity>("Setting affinity for GPU 3 to ffff,ffffffff").cpus == "0-47");
    CHECK(read<Affinity>("Setting affinity for GPU 0 to ff000000,00000000,00000000").cpus ==
          "88-95");
    CHECK(read<Affinity>("Setting affinity for GPU 0 to 0-31,64-95").cpus == "0-31,64-95");
    const auto late = read<Affinity>(
        "ncclTopoGetCpuAffinity: Affinity for GPU 2 is 0-1. (GPU affinity = 0-31 ; CPU affinity = "
        "0-1).");
    CHECK(late.device == 2);
    CHECK(late.cpus == "0-1");
    CHECK(unknown("Setting affinity for GPU 3 to fffx"));
    CHECK(unknown("Setting affinity for GPU 3 to"));
}

TEST_CASE("timings are read with their parts") {
    const auto late = read<InitTimings>(
        "Init timings - ncclCommInitRank: rank 3 nranks 8 total 1.02 (kernels 0.21, alloc 0.10, "
        "rest 0.02)");
    CHECK(late.rank == 3);
    CHECK(late.ranks == 8);
    CHECK(late.total == doctest::Approx(1.02));
    REQUIRE(late.parts.size() == 3);
    CHECK(late.parts[1].first == "alloc");
    CHECK(late.parts[1].second == doctest::Approx(0.1));
    CHECK(read<InitTimings>("Init timings: rank 0 nranks 8 total 1.5 (kernels 0.21)").total == 1.5);
    CHECK(unknown("Init timings: rank 0 nranks 8 total 1.5 (kernels 0.2"));
}

TEST_CASE("chosen algorithms are read by name") {
    const auto late =
        read<Choice>("AllReduce: 4194304 Bytes -> Algo RING proto LL128 channel{Lo..Hi}={0..15}");
    CHECK(late.function == "AllReduce");
    CHECK(late.bytes == 4194304);
    CHECK(late.algorithm == "RING");
    CHECK(late.protocol == "LL128");
    CHECK(late.channels == 16);
    const auto numbers = read<Choice>("4194304 Bytes -> Algo 6 proto 2 time 52.300000");
    CHECK(numbers.function.empty());
    CHECK(numbers.algorithm == "PAT");
    CHECK(numbers.protocol == "SIMPLE");
    CHECK(read<Choice>("Broadcast: 8 Bytes -> Algo 0 proto 0 time 5.3").function == "Broadcast");
    CHECK(unknown("AllReduce: 4194304 Bytes -> Algo "));
}

TEST_CASE("the table of the tuning model is read row by row") {
    CHECK(read<TuningAlgorithms>("  Algorithm   |     Tree     |     Ring     |").names ==
          std::vector<std::string>{"Tree", "Ring"});
    const auto row = read<TuningRow>("    AllReduce |    15.2/  43.6 |    31.5/ 128.8 |");
    CHECK(row.function == "AllReduce");
    REQUIRE(row.cells.size() == 2);
    CHECK(row.cells[1].first == doctest::Approx(31.5));
    CHECK(row.cells[1].second == doctest::Approx(128.8));
    CHECK(unknown(" Max NThreads |            512 |            640 |"));
    CHECK(unknown("threadThresholds 8/8/64 | 128/8/64 | 512 | 512"));
}

TEST_CASE("GPUDirect, NVLS, ends and error trails are read") {
    const auto old =
        read<GpuDirect>("GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)");
    CHECK_FALSE(old.enabled);
    CHECK(old.gpu == "ca000");
    CHECK(old.distance == 7);
    CHECK(old.limit == 4);
    const auto late = read<GpuDirect>(
        "GPU Direct RDMA Enabled for GPU/0-106496 (rank 0) - NET/0-3 (distance 5 <= 5, read 1, "
        "mode "
        "Default)");
    CHECK(late.enabled);
    CHECK(late.gpu == "0-106496");
    CHECK(late.nic == "0-3");
    CHECK(read<NvlsSupport>("NVLS multicast support is available on dev 3 (NVLS_NCHANNELS 16)")
              .available);
    CHECK_FALSE(read<NvlsSupport>("NVLS multicast support is not available on dev 0").available);
    read<NvlsReady>("NVLS comm 0x7f headRank 0 nHeads 8 buffSize 1048576 memSize 2097152");
    CHECK(read<ErrorTrail>("init.cc:1358 -> 2 [Async thread]").code == 2);
    CHECK(read<ErrorTrail>("init.cc:123 (ncclInit) -> 5").code == 5);
    CHECK(
        read<CommunicatorEnd>("comm 0x7f rank 3 nranks 8 cudaDev 0 busId 1a000 - Destroy COMPLETE")
            .rank == 3);
    CHECK(read<CommunicatorEnd>("comm 0x7f rank 3 nranks 8 cudaDev 0 busId 1a000 - Abort COMPLETE")
              .abort);
    CHECK(read<Provider>("NET/OFI Selected Provider is efa").name == "efa");
}

TEST_CASE("before 2.4 a rank is told by its pointer alone") {
    const Line line = parse_line("n1:1:2 [0] INFO comm 0x7fa42c00a3b0 rank 1 nranks 2");
    REQUIRE(std::holds_alternative<Init>(line.event));
    CHECK(std::get<Init>(line.event).rank == 1);
    CHECK(unknown("comm 0x7fa42c00a3b0 rank 1 nranks 2"));  // torn, of a later version
    CHECK(std::holds_alternative<Bootstrap>(
        parse_line("n1:1:2 [0] INFO NET : Using interface eth0:10.0.0.1<0>").event));
}

TEST_CASE("ranks of nccl-tests are read") {
    const Line line =
        parse_line("#   Rank  9 Pid 433602 on node-a device  1 [0x0f] NVIDIA GeForce RTX 3090");
    REQUIRE(std::holds_alternative<TestRank>(line.event));
    const TestRank& rank = std::get<TestRank>(line.event);
    CHECK(rank.rank == 9);
    CHECK(rank.pid == 433602);
    CHECK(rank.host == "node-a");
    CHECK(rank.device == 1);
    CHECK(rank.gpu == "NVIDIA GeForce RTX 3090");
    CHECK_FALSE(line.from_nccl());
    CHECK(std::holds_alternative<TestRank>(
        parse_line("#  Rank  0 Group  0 Pid   1234 on     host device  0 [0000:07:00] H100")
            .event));
    CHECK(std::holds_alternative<Unknown>(parse_line("# Rank x Pid 1 on a device 0").event));
}
