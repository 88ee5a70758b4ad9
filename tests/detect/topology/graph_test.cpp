#include "detect/nccl_log/graph.hpp"

#include <doctest/doctest.h>

#include <string>

using namespace toporun::detect::nccl_log;

namespace {

template <typename Event>
Event read(const std::string& message) {
    const GraphEvent event = parse_graph(message);
    CAPTURE(message);
    REQUIRE(std::holds_alternative<Event>(event));
    return std::get<Event>(event);
}

}  // namespace

TEST_CASE("the head of the tree in old and new words") {
    read<SystemHeader>("=== System : maxWidth 21.0 totalWidth 42.5 ===");
    read<SystemHeader>("=== System : maxBw 48.0 totalBw 370.8 ===");
    read<SystemEnd>("==========================================");
}

TEST_CASE("lines of the tree") {
    const auto cpu = read<TreeLine>("CPU/0-1 (1/2/-1)");
    CHECK(cpu.node == GraphNode{"CPU", 0, 1});
    CHECK(cpu.detail == "1/2/-1");
    CHECK(cpu.link.empty());
    const auto old_gpu = read<TreeLine>("              + PCI[24.0] - GPU/1A000 (0)");
    CHECK(old_gpu.indent == 14);
    CHECK(old_gpu.link == "PCI");
    CHECK(old_gpu.gbytes_per_s == doctest::Approx(24));
    CHECK(old_gpu.node == GraphNode{"GPU", std::nullopt, 0x1a000});
    const auto net = read<TreeLine>("   + NET[25.0] - NET/0-a (0/b6d3/1/25.000000)");
    CHECK(net.node == GraphNode{"NET", 0, 10});
    CHECK(net.detail == "0/b6d3/1/25.000000");
}

TEST_CASE("path lines of old and new versions, whole and cut") {
    const auto old_line = read<PathLine>(
        "GPU/1A000 :GPU/1A000 (0/5000.000000/LOC) NVS/0 (1/240.000000/NVL) NET/0 "
        "(4/24.000000/PIX) ");
    REQUIRE(old_line.to.size() == 3);
    CHECK(old_line.from.id == 0x1a000);
    CHECK_FALSE(old_line.cut);
    CHECK(old_line.to[2].to == GraphNode{"NET", std::nullopt, 0});
    CHECK(old_line.to[2].hops == 4);
    CHECK(old_line.to[2].type == "PIX");
    const auto cut = read<PathLine>("GPU/0-10000 :GPU/0-10000 (0/5000.0/LOC) GPU/0-13000 (2/370.");
    CHECK(cut.to.size() == 1);
    CHECK(cut.cut);
}

TEST_CASE("distances and names of adapters") {
    const auto far =
        read<GpuDirectDistance>("GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)");
    CHECK_FALSE(far.enabled);
    CHECK(far.gpu == "ca000");
    CHECK(far.hca == "0");
    CHECK(far.distance == 7);
    const auto near = read<GpuDirectDistance>(
        "GPU Direct RDMA Enabled for GPU 3 / HCA a (distance 4 <= 5), read 1 mode Default");
    CHECK(near.enabled);
    CHECK(near.hca == "a");
    const auto device =
        read<GpuDirectDevice>("NET/IB : GPU Direct RDMA Enabled for HCA 3 'mlx5_4'");
    CHECK(device.network == "NET/IB");
    CHECK(device.number == 3);
    CHECK(device.name == "mlx5_4");
}

TEST_CASE("other messages are none of these") {
    for (const std::string message :
         {"", "=", "===", " 0 : NET/0 GPU/0 GPU/1 NET/0", "Pattern 4, crossNic 0, nChannels 8",
          "Channel 00/0 : 0[0] -> 1[1] via P2P/CUMEM", "GPU/", "CPU/ (1/1/1)", "GPU/xyz :GPU/1 (",
          "+ PCI[24.0] - ", "+ PCI[nan] - GPU/1", "GPU/1 :", "XPU/1 :GPU/1 (0/1.0/LOC)",
          "GPU Direct RDMA Enabled for GPU / HCA", "CPU/0-ffffffffffffffffff (1/1/1)",
          "NET/IB : GPU Direct RDMA Enabled for HCA -1 'x'",
          "GPU/0 :GPU/0 (99999999999999999999/1.0/LOC)"}) {
        CAPTURE(message);
        CHECK(parse_graph(message).index() == 0);
    }
}
