#include <optional>
#include <string>
#include <vector>

#include "machines.hpp"

// The rows are typed from the table "Default P2P decision and NCCL_P2P_LEVEL" of the rig
// (NCCL 2.28.9 over virtual GPUs, README.md and logs/rig/p2p-levels.md): how many pairs connected
// by P2P under the default and under each level.
namespace {

using namespace toporun::tests;

/// Groups of GPUs that share a place, by position: within one group `inside`, else `across`.
struct Topology {
    std::string name;
    int gpus;
    std::string cpu;
    PathType across;
    std::vector<std::vector<std::pair<std::vector<int>, PathType>>> layers;  ///< later ones win
    bool refused = false;
};

struct Row {
    Topology topology;
    int by_default, loc, nvl, pix, pxb, phb, sys;  ///< pairs on P2P
};

Topology uniform(const std::string& name, int gpus, const std::string& cpu, PathType path,
                 bool refused = false) {
    return {name, gpus, cpu, path, {}, refused};
}

Topology grouped(const std::string& name, int gpus, const std::string& cpu, PathType across,
                 std::vector<std::pair<std::vector<int>, PathType>> groups) {
    return {name, gpus, cpu, across, {std::move(groups)}, false};
}

Machine machine_of(const Topology& topology) {
    Machine machine = host(2, 16);
    machine.cpu.vendor = topology.cpu;
    add_gpus(machine, topology.gpus, "GPU", topology.across,
             topology.across == PathType::NVL ? 12 : 0);
    for (const auto& layer : topology.layers)
        for (const auto& [group, path] : layer)
            for (const int a : group)
                for (const int b : group)
                    if (a != b) connect(machine, a, b, path, path == PathType::NVL ? 2 : 0);
    if (topology.refused) set_peer_access(machine, PeerAccess::refused);
    return machine;
}

/// DGX-1: two quads, each all to all, and GPU i linked with i + 4; the rest through a neighbour.
Topology cube_mesh() {
    Topology topology = grouped("v100-cube-mesh-8", 8, "GenuineIntel", PathType::NVB,
                                {{{0, 1, 2, 3}, PathType::NVL}, {{4, 5, 6, 7}, PathType::NVL}});
    for (int i = 0; i < 4; ++i) topology.layers[0].push_back({{i, i + 4}, PathType::NVL});
    return topology;
}

std::vector<Row> rows() {
    const char* intel = "GenuineIntel";
    const char* amd = "AuthenticAMD";
    const auto nvl = PathType::NVL, pix = PathType::PIX, pxb = PathType::PXB, phb = PathType::PHB,
               sys = PathType::SYS;
    return {
        {uniform("a100-nvswitch-8", 8, amd, nvl), 28, 0, 28, 28, 28, 28, 28},
        {uniform("h100-nvswitch-8", 8, intel, nvl), 28, 0, 28, 28, 28, 28, 28},
        {cube_mesh(), 28, 0, 16, 28, 28, 28, 28},
        {{"a100-pcie-8-2s",
          8,
          intel,
          sys,
          {{{{0, 1, 2, 3}, phb}, {{4, 5, 6, 7}, phb}},
           {{{0, 1}, pix}, {{2, 3}, pix}, {{4, 5}, pix}, {{6, 7}, pix}}},
          false},
         4,
         0,
         0,
         4,
         4,
         12,
         28},
        {grouped("a6000-4-nvlink-pairs-2s", 4, intel, sys, {{{0, 1}, nvl}, {{2, 3}, nvl}}), 2, 0, 2,
         2, 2, 2, 6},
        {grouped("a6000-4-nvlink-pairs-amd", 4, amd, phb, {{{0, 1}, nvl}, {{2, 3}, nvl}}), 2, 0, 2,
         2, 2, 6, 6},
        {uniform("ada6000-2-1s-amd", 2, amd, phb), 1, 0, 0, 0, 0, 1, 1},
        {uniform("ada6000-2-1s-intel", 2, intel, phb), 0, 0, 0, 0, 0, 1, 1},
        {uniform("ada6000-2-2s-amd", 2, amd, sys), 1, 0, 0, 0, 0, 0, 1},
        {uniform("ada6000-4-1s-amd", 4, amd, phb), 0, 0, 0, 0, 0, 6, 6},
        {grouped("h100-pcie-4-nvl-pairs", 4, intel, sys, {{{0, 1}, nvl}, {{2, 3}, nvl}}), 2, 0, 2,
         2, 2, 2, 6},
        {uniform("l40s-4-nps4-amd", 4, amd, sys), 0, 0, 0, 0, 0, 0, 6},
        {uniform("l40s-4-plx", 4, intel, pix), 6, 0, 0, 6, 6, 6, 6},
        {grouped("l40s-8-2s-plx4", 8, intel, sys, {{{0, 1, 2, 3}, pix}, {{4, 5, 6, 7}, pix}}), 12,
         0, 0, 12, 12, 12, 28},
        {grouped("l40s-8-cascade", 8, intel, pxb, {{{0, 1, 2, 3}, pix}, {{4, 5, 6, 7}, pix}}), 28,
         0, 0, 12, 28, 28, 28},
        {uniform("p100-2-2s-intel", 2, intel, sys), 0, 0, 0, 0, 0, 0, 1},
        {uniform("rtx3090-2-nvlink", 2, amd, nvl), 1, 0, 1, 1, 1, 1, 1},
        {uniform("rtx4090-2-desktop", 2, intel, phb, true), 0, 0, 0, 0, 0, 0, 0},
        {uniform("rtx4090-4-1s-amd", 4, amd, phb, true), 0, 0, 0, 0, 0, 0, 0},
        {uniform("rtx4090-8-2s-amd", 8, amd, sys, true), 0, 0, 0, 0, 0, 0, 0},
        {uniform("rtx5090-4-1s-amd", 4, amd, phb, true), 0, 0, 0, 0, 0, 0, 0},
        {grouped("t4-4-2s-intel", 4, intel, sys, {{{0, 1}, phb}, {{2, 3}, phb}}), 0, 0, 0, 0, 0, 2,
         6},
    };
}

int on_p2p(const toporun::env::Plan& plan, bool by_default) {
    return count_transport(plan, "P2P", by_default) +
           count_transport(plan, "P2P-indirect", by_default);
}

TEST_CASE("the default transports are those that NCCL 2.28.9 connected with") {
    for (const Row& row : rows()) {
        CAPTURE(row.topology.name);
        const auto made = plan(machine_of(row.topology), job(row.topology.gpus));
        const int pairs = row.topology.gpus * (row.topology.gpus - 1) / 2;
        REQUIRE(static_cast<int>(made.pairs.size()) == pairs);
        CHECK(on_p2p(made, true) == row.by_default);
        CHECK(count_transport(made, "SHM", true) == pairs - row.by_default);
        // toporun's own choice changes no transport on a machine without a fault.
        CHECK(on_p2p(made, false) == row.by_default);
    }
}

TEST_CASE("the transports under each level are those that NCCL 2.28.9 connected with") {
    for (const Row& row : rows()) {
        const std::vector<std::pair<std::string, int>> levels = {
            {"LOC", row.loc}, {"NVL", row.nvl}, {"PIX", row.pix},
            {"PXB", row.pxb}, {"PHB", row.phb}, {"SYS", row.sys}};
        for (const auto& given : levels) {
            CAPTURE(row.topology.name);
            CAPTURE(given.first);
            const auto made = plan(machine_of(row.topology), job(row.topology.gpus),
                                   user({{"NCCL_P2P_LEVEL", given.first}}));
            CHECK(on_p2p(made, false) == given.second);
            CHECK(on_p2p(made, true) == row.by_default);
        }
    }
}

TEST_CASE("cube mesh pairs without a link of their own go through a neighbour") {
    const auto made = plan(machine_of(cube_mesh()), job(8));
    CHECK(count_transport(made, "P2P-indirect", true) == 12);
    CHECK(count_transport(made, "P2P", true) == 16);
}

TEST_CASE("with NCCL_SHM_DISABLE the pairs without P2P go over the network") {
    Machine machine = host(1, 16);
    machine.cpu.vendor = "AuthenticAMD";
    add_gpus(machine, 4, "NVIDIA RTX 6000 Ada Generation", PathType::PHB);
    const auto made = plan(machine, job(4), user({{"NCCL_SHM_DISABLE", "1"}}));
    CHECK(count_transport(made, "NET", false) == 6);
    CHECK(count_transport(made, "SHM", true) == 6);
}

}  // namespace
