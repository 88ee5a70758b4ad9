#include "env/port_roles.hpp"

#include <map>

#include "env/hca.hpp"
#include "fabrics.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;
using toporun::detect::Nic;

std::vector<std::string> names(const Machine& machine, const std::vector<int>& ports) {
    std::vector<std::string> out;
    for (const int port : ports)
        out.push_back(*machine.nics[static_cast<std::size_t>(port)].rdma_device);
    return out;
}

Nic far(const std::string& device, NicKind kind, double gbits, std::string_view pci = "") {
    return rdma_port(device, kind, gbits, pci);
}

Machine ports_alone(std::vector<Nic> ports) {
    Machine machine = host(1, 16);
    add_nics(machine, std::move(ports));
    return machine;
}

Nic virtual_port(const std::string& device, std::string_view pci) {
    Nic made = rdma_port(device, NicKind::infiniband, 200, pci);
    made.virtual_function = true;
    return made;
}

Nic in_state(Nic made, const std::string& state) {
    made.port_state = state;
    return made;
}

Nic with_gid(Nic made, const std::string& address) {
    made.gids = {{0, "fe80::1", "RoCE v1", ""}, {1, address, "RoCE v2", ""}};
    return made;
}

TEST_CASE("storage, management and duplicate ports are told from the others") {
    struct Row {
        std::string name;
        Machine machine;
        std::vector<std::string> left_out;
        std::string why;
    };
    const auto ib = NicKind::infiniband, roce = NicKind::roce;
    const std::vector<Row> rows = {
        {"rails alone", railed(4, {}), {}, ""},
        {"two storage ports of the same speed",
         railed(4, {far("mlx5_8", ib, 400), far("mlx5_9", ib, 400)}),
         {"mlx5_8", "mlx5_9"},
         "farther"},
        {"one management port", railed(8, {far("mlx5_8", roce, 100)}), {"mlx5_8"}, "RoCE beside"},
        {"a down port is skipped by NCCL itself",
         railed(4, {in_state(far("mlx5_8", ib, 400), "down")}),
         {},
         ""},
        {"slow ones of unknown place",
         ports_alone({rdma_port("a0", ib, 400), rdma_port("a1", ib, 400), rdma_port("a2", ib, 400),
                      rdma_port("s0", ib, 100)}),
         {"s0"},
         "100 Gb/s"},
        {"one fast beside one slow tells nothing",
         ports_alone({rdma_port("a0", ib, 400), rdma_port("s0", ib, 100)}),
         {},
         ""},
        {"as many slow as fast tell nothing",
         ports_alone({rdma_port("a0", ib, 400), rdma_port("a1", ib, 400), rdma_port("s0", ib, 200),
                      rdma_port("s1", ib, 200)}),
         {},
         ""},
        {"three quarters of the speed is the same class",
         ports_alone(
             {rdma_port("a0", ib, 400), rdma_port("a1", ib, 400), rdma_port("s0", ib, 300)}),
         {},
         ""},
        {"an unknown speed",
         ports_alone({rdma_port("a0", ib, 400), rdma_port("a1", ib, 400), rdma_port("s0", ib, 0)}),
         {"s0"},
         "0 Gb/s"},
        {"InfiniBand and RoCE of one speed, no place known",
         ports_alone({rdma_port("a0", ib, 200), rdma_port("e0", roce, 200)}),
         {},
         ""},
        {"InfiniBand of twice the speed",
         ports_alone({rdma_port("a0", ib, 200), rdma_port("e0", roce, 100)}),
         {"e0"},
         "RoCE beside"},
        {"RoCE of twice the speed",
         ports_alone({rdma_port("a0", ib, 100), rdma_port("e0", roce, 200)}),
         {"a0"},
         "InfiniBand beside"},
        {"a bond's device and its members",
         ports_alone({rdma_port("mlx5_bond_0", roce, 200, "0000:18:00.0"),
                      rdma_port("mlx5_1", roce, 200, "0000:18:00.1"),
                      rdma_port("mlx5_2", roce, 200, "0000:3b:00.0")}),
         {"mlx5_1"},
         "a member"},
        {"virtual functions beside their card",
         ports_alone({rdma_port("mlx5_0", ib, 200, "0000:18:00.0"),
                      virtual_port("mlx5_4", "0000:18:00.2"),
                      virtual_port("mlx5_5", "0000:18:01.0")}),
         {"mlx5_4", "mlx5_5"},
         "virtual function"},
        {"virtual functions of a guest",
         ports_alone(
             {virtual_port("mlx5_4", "0000:18:00.0"), virtual_port("mlx5_5", "0000:19:00.0")}),
         {},
         ""},
        {"a port without an address",
         ports_alone({with_gid(rdma_port("e0", roce, 100), "::ffff:10.0.0.1"),
                      with_gid(rdma_port("e1", roce, 100), "fe80::2")}),
         {"e1"},
         "routable"},
        {"all without",
         ports_alone({with_gid(rdma_port("e0", roce, 100), "fe80::1"),
                      with_gid(rdma_port("e1", roce, 100), "fe80::2")}),
         {},
         ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const env::PortRoles roles = env::port_roles(row.machine);
        std::vector<std::string> left;
        for (const env::LeftPort& one : roles.left_out) {
            left.push_back(*row.machine.nics[static_cast<std::size_t>(one.port)].rdma_device);
            CAPTURE(one.why);
            CHECK(one.why.find(row.why) != std::string::npos);
        }
        CHECK(left == row.left_out);
        CHECK(roles.kept.size() + roles.left_out.size() == roles.taken.size());
        for (const std::string& name : names(row.machine, roles.kept))
            CHECK(std::find(left.begin(), left.end(), name) == left.end());
    }
}

TEST_CASE("no GPU loses its nearest port") {
    // Trained down to a quarter: the rail of GPU 3 stays, doctor tells of it.
    Machine slow = railed(4, {});
    slow.nics.back().speed_gbits = 100;
    CHECK(env::port_roles(slow).left_out.empty());
    // GPUs 2 and 3 have no port behind a switch: the far one is theirs.
    Machine shared = railed(4, {});
    for (std::size_t gpu : {2u, 3u})
        for (auto& path : shared.gpu_nic_paths[gpu]) path = PathType::SYS;
    CHECK(env::port_roles(shared).left_out.empty());
    // Every pair at PHB, as in a guest without PCIe switches.
    Machine flat = railed(4, {rdma_port("mlx5_8", NicKind::infiniband, 400)});
    for (auto& row : flat.gpu_nic_paths)
        for (auto& path : row) path = PathType::PHB;
    CHECK(env::port_roles(flat).left_out.empty());
}

TEST_CASE("each rank has its nearest adapters, its own rail first") {
    Machine machine = railed(4, {rdma_port("mlx5_8", NicKind::infiniband, 400)});
    const auto made = plan(machine, job(4, 2));
    REQUIRE(made.ranks.size() == 4);
    for (std::size_t i = 0; i < 4; ++i)
        CHECK(made.ranks[i].nics == std::vector<std::string>{"mlx5_" + std::to_string(i)});
    // Two GPUs and two ports behind each switch: one rail each.
    for (std::size_t gpu = 0; gpu < 4; ++gpu)
        for (std::size_t port = 0; port < 4; ++port)
            machine.gpu_nic_paths[gpu][port + 2] =
                gpu / 2 == port / 2 ? PathType::PXB : PathType::SYS;
    const auto shared = plan(machine, job(4, 2));
    CHECK(shared.ranks[0].nics == std::vector<std::string>{"mlx5_0", "mlx5_1"});
    CHECK(shared.ranks[1].nics == std::vector<std::string>{"mlx5_1", "mlx5_0"});
    CHECK(shared.ranks[2].nics == std::vector<std::string>{"mlx5_2", "mlx5_3"});
    CHECK(shared.ranks[3].nics == std::vector<std::string>{"mlx5_3", "mlx5_2"});
    // A list of the user's is what the job uses.
    const auto listed = plan(machine, job(4, 2), user({{"NCCL_IB_HCA", "=mlx5_1,mlx5_2"}}));
    CHECK(listed.ranks[0].nics == std::vector<std::string>{"mlx5_1"});
    CHECK(listed.ranks[3].nics == std::vector<std::string>{"mlx5_2"});
    // A port that is down is nobody's.
    machine.nics[2].port_state = "down";
    CHECK(plan(machine, job(4, 2)).ranks[0].nics == std::vector<std::string>{"mlx5_1"});
}

TEST_CASE("hundreds of GPUs and adapters are judged at once") {
    Machine machine = railed(256, {});
    CHECK(env::port_roles(machine).kept.size() == 256);
    CHECK(plan(machine, job(256, 2)).ranks[255].nics == std::vector<std::string>{"mlx5_255"});
}

}  // namespace
