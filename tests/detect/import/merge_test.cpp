#include "detect/import/merge.hpp"

#include <doctest/doctest.h>

#include <algorithm>

using namespace toporun::detect;

namespace {

Gpu gpu(int index, std::optional<int> bus = std::nullopt) {
    Gpu made;
    made.index = index;
    if (bus) made.pci = PciAddress{0, static_cast<std::uint8_t>(*bus), 0, 0};
    return made;
}

Nic nic(const std::string& name, const std::string& rdma = "") {
    Nic made;
    made.name = name;
    if (!rdma.empty()) made.rdma_device = rdma;
    return made;
}

Machine machine(std::vector<Gpu> gpus, std::vector<Nic> nics) {
    Machine made;
    made.gpus_known = !gpus.empty();
    made.nics_known = !nics.empty();
    made.gpus = std::move(gpus);
    made.nics = std::move(nics);
    return made;
}

bool has_note(const Machine& machine, const std::string& part) {
    return std::any_of(machine.notes.begin(), machine.notes.end(), [&](const std::string& note) {
        return note.find(part) != std::string::npos;
    });
}

}  // namespace

TEST_CASE("one text is left as it is, notes of several carry their name") {
    Machine a = machine({gpu(0)}, {});
    a.notes = {"row 3 is missing"};
    CHECK(merge_machines({{"a.txt", a}}).notes == a.notes);
    CHECK(merge_machines({{"a.txt", a}, {"b.txt", Machine{}}}).notes.front() ==
          "a.txt: row 3 is missing");
}

TEST_CASE("GPUs are joined by bus id whatever their order and the matrices follow") {
    Machine a = machine({gpu(0, 1), gpu(1, 2)}, {});
    a.gpu_paths = {{PathType::LOC, PathType::PIX}, {PathType::PIX, PathType::LOC}};
    Machine b = machine({gpu(0, 3), gpu(1, 2), gpu(2, 1)}, {});
    b.gpus[2].name = "NVIDIA L4";
    b.gpu_links = {{0, 4, 2}, {4, 0, 1}, {2, 1, 0}};
    const Machine merged = merge_machines({{"a", a}, {"b", b}});
    REQUIRE(merged.gpus.size() == 3);
    CHECK(merged.gpus[0].name == "NVIDIA L4");
    CHECK(merged.gpus[0].pci->bus == 1);
    CHECK(merged.gpus[2].pci->bus == 3);
    CHECK(merged.gpu_links == std::vector<std::vector<int>>{{0, 1, 2}, {1, 0, 4}, {2, 4, 0}});
    CHECK(merged.gpu_paths[0][1] == PathType::PIX);
    CHECK(merged.gpu_paths[0][2] == PathType::DIS);
    CHECK(has_note(merged, "a tells of 2 GPUs, b of 3"));
}

TEST_CASE("GPUs without a bus id are joined by index and sorted by it") {
    Machine links = machine({gpu(3)}, {});
    links.gpus[0].links = {{0, true, 4, std::nullopt, "", 25.0}};
    Machine table = machine({gpu(0), gpu(1), gpu(2), gpu(3)}, {});
    table.gpus[3].name = "Tesla V100-SXM2-32GB";
    const Machine merged = merge_machines({{"links", links}, {"table", table}});
    REQUIRE(merged.gpus.size() == 4);
    for (int i = 0; i < 4; ++i) CHECK(merged.gpus[static_cast<std::size_t>(i)].index == i);
    CHECK(merged.gpus[3].name == "Tesla V100-SXM2-32GB");
    CHECK(merged.gpus[3].links.size() == 1);
}

TEST_CASE("texts of different machines never make two GPUs of one bus id") {
    const Machine a = machine({gpu(0, 0x18), gpu(1, 0x46), gpu(2, 0x65), gpu(3, 0x05)}, {});
    const Machine b = machine({gpu(0, 0x05), gpu(1, 0x26), gpu(2, 0x46), gpu(3, 0x65)}, {});
    const Machine merged = merge_machines({{"a", a}, {"b", b}});
    std::vector<int> buses;
    for (const Gpu& one : merged.gpus) buses.push_back(one.pci->bus);
    CHECK(buses == std::vector<int>{0x18, 0x46, 0x65, 0x05, 0x26});
}

TEST_CASE("the more specific fact wins and contradictions name both texts") {
    Machine a = machine({gpu(0, 1)}, {}), b = a;
    a.gpus[0].name = "NVIDIA H100 80G...";
    b.gpus[0].name = "NVIDIA H100 80GB HBM3";
    a.gpus[0].numa_node = 0;
    b.gpus[0].numa_node = 1;
    a.gpus[0].memory_bytes = 85'000'000'000;
    b.gpus[0].memory_bytes = 85'520'809'984;  // rounded by one of the tools: no contradiction
    const Machine merged = merge_machines({{"a.txt", a}, {"b.txt", b}});
    CHECK(merged.gpus[0].name == "NVIDIA H100 80GB HBM3");
    CHECK(merged.gpus[0].numa_node == 0);
    REQUIRE(merged.notes.size() == 1);
    CHECK(merged.notes[0] ==
          "GPU 0: the NUMA node is 0 in a.txt and 1 in b.txt: the first is kept");
}

TEST_CASE("an NVLink path wins over PCIe and NVB needs no note") {
    Machine a = machine({gpu(0), gpu(1)}, {}), b = a, c = a;
    const auto paths = [](PathType path) {
        return std::vector<std::vector<PathType>>{{PathType::LOC, path}, {path, PathType::LOC}};
    };
    a.gpu_paths = paths(PathType::SYS);
    b.gpu_paths = paths(PathType::NVB);
    c.gpu_paths = paths(PathType::NVL);
    const Machine nvb = merge_machines({{"a", a}, {"b", b}});
    CHECK(nvb.gpu_paths[0][1] == PathType::NVB);
    CHECK(nvb.notes.empty());
    const Machine nvl = merge_machines({{"a", a}, {"c", c}});
    CHECK(nvl.gpu_paths[1][0] == PathType::NVL);
    REQUIRE(nvl.notes.size() == 1);
    CHECK(nvl.notes[0] == "GPU 0 and GPU 1: the path is SYS in a and NVL in c: the second is kept");
}

TEST_CASE("the number of NVLinks is of the path that stays") {
    Machine sys = machine({gpu(0), gpu(1)}, {}), nvl = sys;
    sys.gpu_paths = {{PathType::LOC, PathType::SYS}, {PathType::SYS, PathType::LOC}};
    sys.gpu_links = {{0, 0}, {0, 0}};
    nvl.gpu_paths = {{PathType::LOC, PathType::NVL}, {PathType::NVL, PathType::LOC}};
    for (const int links : {-1, 4}) {  // counted by one of the texts or by none
        nvl.gpu_links = {{0, links}, {links, 0}};
        for (const auto& both :
             {merge_machines({{"a", sys}, {"b", nvl}}), merge_machines({{"b", nvl}, {"a", sys}})}) {
            CHECK(both.gpu_paths[0][1] == PathType::NVL);
            CHECK(both.gpu_links[0][1] == links);
            CHECK(both.gpu_links[0][0] == 0);
        }
    }
}

TEST_CASE("a port that speaks iWARP in one text and RoCE in the other keeps the first") {
    Machine iwarp = machine({}, {nic("eth0", "irdma0")}), roce = iwarp, silent = iwarp;
    iwarp.nics[0].kind = silent.nics[0].kind = NicKind::ethernet;
    roce.nics[0].kind = NicKind::roce;
    iwarp.nics[0].iwarp = true;
    roce.nics[0].gids = {{0, "fe80::1", "RoCE v2", ""}};
    CHECK(merge_machines({{"a", silent}, {"b", iwarp}}).nics[0].iwarp);
    CHECK(merge_machines({{"a", silent}, {"b", iwarp}}).notes.empty());
    const Machine first = merge_machines({{"a", iwarp}, {"b", roce}});
    CHECK(first.nics[0].iwarp);
    CHECK(has_note(first, "eth0: the transport is iWARP in a and RoCE in b: the first is kept"));
    const Machine second = merge_machines({{"b", roce}, {"a", iwarp}});
    CHECK_FALSE(second.nics[0].iwarp);
    CHECK(second.nics[0].kind == NicKind::roce);
    CHECK(first.nics[0].kind == NicKind::ethernet);
    CHECK(has_note(second, "eth0: the transport is RoCE in b and iWARP in a: the first is kept"));
}

TEST_CASE("an entry that names both joins an interface and an RDMA device") {
    Machine topo = machine({gpu(0)}, {nic("mlx5_0", "mlx5_0"), nic("mlx5_1", "mlx5_1")});
    topo.gpu_nic_paths = {{PathType::PIX, PathType::SYS}};
    Machine addresses = machine({}, {nic("lo"), nic("eth0"), nic("ib0")});
    addresses.nics[0].kind = NicKind::loopback;
    addresses.nics[0].os_index = 1;
    addresses.nics[1].kind = NicKind::ethernet;
    addresses.nics[1].os_index = 2;
    addresses.nics[2].kind = NicKind::ipoib;
    addresses.nics[2].os_index = 5;
    addresses.nics[2].state = "down";
    addresses.nics[2].addresses = {"10.0.0.1/24"};
    Machine ports = machine({}, {nic("mlx5_1", "mlx5_1")});
    ports.nics[0].kind = NicKind::infiniband;
    ports.nics[0].state = "up";
    ports.nics[0].port_state = "active";
    ports.nics[0].port = 1;
    ports.nics[0].speed_gbits = 200;
    Machine names = machine({}, {nic("ib0", "mlx5_1")});
    names.nics[0].port = 1;
    const Machine merged = merge_machines(
        {{"topo", topo}, {"ip", addresses}, {"ibstat", ports}, {"ibdev2netdev", names}});
    REQUIRE(merged.nics.size() == 4);
    CHECK(merged.nics[0].name == "lo");
    CHECK(merged.nics[1].name == "eth0");
    const Nic& ib = merged.nics[2];
    CHECK(ib.name == "ib0");
    CHECK(ib.rdma_device == "mlx5_1");
    CHECK(ib.kind == NicKind::ipoib);
    CHECK(ib.state == "down");
    CHECK(ib.port_state == "active");
    CHECK(ib.speed_gbits == 200);
    CHECK(ib.addresses == std::vector<std::string>{"10.0.0.1/24"});
    CHECK(merged.nics[3].name == "mlx5_0");
    const std::vector<std::optional<PathType>> row = {std::nullopt, std::nullopt, PathType::SYS,
                                                      PathType::PIX};
    CHECK(merged.gpu_nic_paths.at(0) == row);
    CHECK(merged.notes.empty());
}

TEST_CASE("a plain Ethernet interface with an RDMA device is RoCE") {
    Machine a = machine({}, {nic("eth0")}), b = machine({}, {nic("eth0", "mlx5_0")});
    a.nics[0].kind = NicKind::ethernet;
    CHECK(merge_machines({{"a", a}, {"b", b}}).nics.at(0).kind == NicKind::roce);
}

TEST_CASE("a bus id joins an interface and an RDMA device unless several share it") {
    Machine a = machine({}, {nic("eth0"), nic("eth1")});
    Machine b = machine({}, {nic("mlx5_0", "mlx5_0")});
    a.nics[0].pci = b.nics[0].pci = PciAddress{0, 0x18, 0, 0};
    CHECK(merge_machines({{"a", a}, {"b", b}}).nics.size() == 2);
    a.nics[1].pci = a.nics[0].pci;
    CHECK(merge_machines({{"a", a}, {"b", b}}).nics.size() == 3);
}

TEST_CASE("two RDMA devices of a bond are one interface and a device") {
    const Machine a = machine({}, {nic("bond0")});
    const Machine b = machine({}, {nic("bond0", "mlx5_3"), nic("bond0", "mlx5_9")});
    const Machine merged = merge_machines({{"a", a}, {"b", b}});
    REQUIRE(merged.nics.size() == 2);
    CHECK(merged.nics[0].name == "bond0");
    CHECK(merged.nics[0].rdma_device == "mlx5_3");
    CHECK(merged.nics[1].name == "mlx5_9");
}

TEST_CASE("ports of one RDMA device share its paths") {
    Machine topo = machine({gpu(0)}, {nic("mlx5_0", "mlx5_0")});
    topo.gpu_nic_paths = {{PathType::PXB}};
    Machine ports = machine({}, {nic("ib0", "mlx5_0"), nic("ib1", "mlx5_0")});
    ports.nics[0].port = 1;
    ports.nics[1].port = 2;
    const Machine merged = merge_machines({{"topo", topo}, {"ports", ports}});
    REQUIRE(merged.nics.size() == 2);
    CHECK(merged.gpu_nic_paths.at(0).at(0) == PathType::PXB);
    CHECK(merged.gpu_nic_paths.at(0).at(1) == PathType::PXB);
}

TEST_CASE("peer access refused in one direction of the question is refused") {
    Machine a = machine({gpu(0), gpu(1)}, {}), b = a;
    a.peer_access.assign(2, std::vector(2, PeerAccess::ok));
    b.peer_access.assign(2, std::vector(2, PeerAccess::refused));
    const Machine merged = merge_machines({{"read", a}, {"write", b}});
    CHECK(merged.peer_access[0][1] == PeerAccess::refused);
    CHECK(merged.peer_access[0][0] == PeerAccess::ok);
}

TEST_CASE("what a text says nothing of stays unknown") {
    const Machine merged =
        merge_machines({{"a", machine({}, {nic("eth0")})}, {"b", machine({}, {nic("eth1")})}});
    CHECK_FALSE(merged.gpus_known);
    CHECK(merged.nics_known);
    CHECK(merged.nics.size() == 2);
}
