#include <string>
#include <vector>

#include "machines.hpp"

// The transports are those with which NCCL 2.28.9 connected machines of this shape on the rig, with
// the adapters of its plugin.
namespace {

using namespace toporun::tests;

/// Four switches, two on a CPU, each with two L20 of PCIe 4.0 and an adapter of `gbits` where
/// `adapters` names it.
Machine l20(double gbits, const std::vector<int>& adapters, double between_cpus) {
    Machine machine = host(2, 32);
    add_gpus(machine, 8, "NVIDIA L20", PathType::SYS);
    machine.gpu_path_gbytes_per_s.assign(8, std::vector<std::optional<double>>(8, between_cpus));
    for (int a = 0; a < 8; ++a)
        for (int b = 0; b < 8; ++b) {
            if (a / 4 != b / 4) continue;
            const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
            machine.gpu_path_gbytes_per_s[x][y] = 24;
            if (a != b) connect(machine, a, b, a / 2 == b / 2 ? PathType::PIX : PathType::PHB);
        }
    std::vector<toporun::detect::Nic> nics;
    for (const int at : adapters) {
        auto one = nic("mlx5_" + std::to_string(at), NicKind::infiniband, {});
        one.rdma_device = one.name;
        one.speed_gbits = gbits;
        one.pcie_generation = 4;
        one.pcie_width = 16;
        nics.push_back(one);
    }
    add_nics(machine, nics);
    for (int gpu = 0; gpu < 8; ++gpu) {
        machine.gpus[static_cast<std::size_t>(gpu)].pcie_generation = 4;
        machine.gpus[static_cast<std::size_t>(gpu)].pcie_width = 16;
        std::vector<std::optional<PathType>> paths = {std::nullopt};  // lo
        for (const int at : adapters)
            paths.emplace_back(at == gpu / 2       ? PathType::PIX
                               : at / 2 == gpu / 4 ? PathType::PHB
                                                   : PathType::SYS);
        machine.gpu_nic_paths.push_back(paths);
    }
    return machine;
}

TEST_CASE("pairs whose adapters are faster than their path go over the network") {
    struct Row {
        std::string name;
        Machine machine;
        int net, shm, p2p;     ///< by default
        int net_sys, p2p_sys;  ///< with NCCL_P2P_LEVEL=SYS
    };
    const std::vector<int> all = {0, 1, 2, 3};
    Machine old = l20(400, all, 10), slow_slot = l20(400, all, 10), down = l20(400, all, 10),
            no_rdma = l20(400, all, 10), unknown = l20(400, all, 10), amd = l20(200, all, 16);
    old.software.nccl_version = "2.12.12";
    for (auto& one : slow_slot.nics) one.pcie_width = 4;
    for (auto& one : down.nics) one.port_state = "down";
    for (auto& one : no_rdma.nics) one.rdma_device.reset();
    unknown.gpu_path_gbytes_per_s.clear();
    const std::vector<Row> rows = {
        {"400 Gb/s, Intel", l20(400, all, 10), 16, 8, 4, 16, 12},
        {"100 Gb/s, Intel", l20(100, all, 10), 16, 8, 4, 16, 12},
        {"200 Gb/s, AMD", amd, 16, 8, 4, 16, 12},
        {"100 Gb/s, AMD", l20(100, all, 16), 0, 24, 4, 0, 28},
        {"one adapter", l20(200, {0}, 10), 0, 24, 4, 0, 28},
        {"before 2.14", old, 0, 24, 4, 0, 28},
        {"x4 slots", slow_slot, 0, 24, 4, 0, 28},
        {"ports down", down, 0, 24, 4, 0, 28},
        {"no RDMA", no_rdma, 0, 24, 4, 0, 28},
        {"bandwidth not known", unknown, 0, 24, 4, 0, 28},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto made = plan(row.machine, job(8));
        CHECK(count_transport(made, "NET", true) == row.net);
        CHECK(count_transport(made, "SHM", true) == row.shm);
        CHECK(count_transport(made, "P2P", true) == row.p2p);
        const auto raised = plan(row.machine, job(8), user({{"NCCL_P2P_LEVEL", "SYS"}}));
        CHECK(count_transport(raised, "NET", false) == row.net_sys);
        CHECK(count_transport(raised, "P2P", false) == row.p2p_sys);
    }
}

TEST_CASE("the user keeps the network out of the node") {
    const Machine machine = l20(400, {0, 1, 2, 3}, 10);
    for (const auto& [name, value] : std::vector<std::pair<std::string, std::string>>{
             {"NCCL_NET_DISABLE_INTRA", "1"}, {"NCCL_IB_DISABLE", "1"}, {"NCCL_NET", "Socket"}}) {
        CAPTURE(name);
        const auto made = plan(machine, job(8), user({{name, value}}));
        CHECK(count_transport(made, "NET", false) == 0);
        CHECK(count_transport(made, "NET", true) == 16);
    }
}

TEST_CASE("pairs between the GPUs that have an adapter go over the network and no others") {
    const Machine machine = l20(400, {0, 2}, 10);  // 2, 3, 6 and 7 reach none
    for (const int nodes : {1, 2}) {
        const auto made = plan(machine, job(8, nodes));
        CHECK(count_transport(made, "NET", true) == 4);
        CHECK(count_transport(made, "SHM", true) == 20);
    }
}

}  // namespace
