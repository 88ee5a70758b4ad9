#include <doctest/doctest.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "detect/import/import.hpp"
#include "files.hpp"

// Machines out of captures of network tools: public ones, several tools together, and what the
// tools of this machine print.
namespace toporun::detect {
namespace {

const std::filesystem::path kNet = std::filesystem::path(TOPORUN_SHARED) / "data/net";

Machine import_text(const std::string& text) {
    const std::vector<Capture> captures = {{"capture", text}};
    return import_captures(captures);
}

const Nic* find(const Machine& machine, const std::string& name) {
    for (const Nic& nic : machine.nics)
        if (nic.name == name || nic.rdma_device == name) return &nic;
    return nullptr;
}

struct Expected {
    std::string name;  ///< of the interface or of the RDMA device
    std::string kind;  ///< "" = not told by the capture
    std::string state;
    std::optional<double> speed_gbits = {};
    std::optional<int> mtu = {};
    std::string address = {};
};

struct Row {
    std::string file;
    std::size_t count;
    std::vector<Expected> nics;
};

/// The answers of the collection's index.
const std::vector<Row> kRows = {
    {"eth_learn_good.ip-j-addr.json",
     3,
     {{"enp97s0f0", "ethernet", "up", {}, 9192},
      {"front0", "bond", "up", {}, 9192, "192.0.2.16/27"}}},
    {"eth_learn_down_intf.ip-j-addr.json",
     15,
     {{"lo", "loopback", "up"},
      {"enp226s0", "ethernet", "down"},
      {"enp97s0f0", "ethernet", "up"},
      {"enp97s0f1", "ethernet", "down"},
      {"enp225s0f0", "ethernet", "down"},
      {"enp225s0f1", "ethernet", "down"},
      {"ib7", "ipoib", "up", {}, 2044},
      {"front0", "bond", "up"}}},
    {"eth_learn_mtu_bad.ip-j-addr.json",
     3,
     {{"enp97s0f0", "ethernet", "up", {}, 1500},
      {"enp225s0f0", "ethernet", "up", {}, 1500},
      {"front0", "bond", "up", {}, 1500}}},
    {"ib-hdr.ibstat.txt",
     2,
     {{"mlx5_0", "infiniband", "up", 200}, {"mlx5_1", "infiniband", "down"}}},
    {"ib-hdr.ibv_devinfo.txt",
     2,
     {{"mlx5_0", "infiniband", "up", {}, 4096}, {"mlx5_1", "infiniband", "down"}}},
    {"threadripper-2nic.ibv_devinfo.txt",
     2,
     {{"mlx5_0", "roce", "down"}, {"mlx5_1", "roce", "down"}}},
    {"paddle-faq.ifconfig.txt",
     3,
     {{"docker0", "bridge", "up", {}, 1500, "10.0.3.1/24"},
      {"lo", "loopback", "up"},
      {"eth0", "ethernet", "up", {}, 1500, "10.10.10.1/26"}}},
    {"sys-class-infiniband.sys-class-infiniband-h100.0.txt",
     9,
     {{"mlx5_0", "infiniband", "up", 400}, {"mlx5_bond_0", "roce", "up", 200}}},
    {"h200-bond-and-31-nets.ip-br.txt",
     7,
     {{"enp155s0np0", "ethernet", "up", {}, {}, "10.99.95.59/31"},
      {"enp210s0f1np1", "ethernet", "down"},
      {"bond0", "bond", "up", {}, {}, "10.73.175.137/29"}}},
    {"h200-ibdev2netdev.txt",
     12,
     {{"mlx5_0", "roce", "up"},
      {"mlx5_3", "bond", "up"},
      {"mlx5_9", "roce", "up"},
      {"mlx5_4", "roce", "down"},
      {"mlx5_10", "roce", "down"}}},
};

void check(const Nic* nic, const Expected& expected) {
    CAPTURE(expected.name);
    REQUIRE(nic != nullptr);
    CHECK(nic_kind_name(nic->kind) == expected.kind);
    CHECK(nic->state == expected.state);
    if (expected.speed_gbits) CHECK(nic->speed_gbits == expected.speed_gbits);
    if (expected.mtu) CHECK(nic->mtu == expected.mtu);
    if (!expected.address.empty())
        CHECK(std::count(nic->addresses.begin(), nic->addresses.end(), expected.address) == 1);
}

TEST_CASE("public captures of network tools are read to their right answers") {
    if (!std::filesystem::exists(kNet)) {
        MESSAGE("skipped: there is no " << kNet.string());
        return;
    }
    for (const Row& row : kRows) {
        CAPTURE(row.file);
        const Machine machine = import_text(tests::read_file(kNet / row.file));
        CHECK_FALSE(machine.gpus_known);
        CHECK(machine.nics.size() == row.count);
        for (const Expected& expected : row.nics) check(find(machine, expected.name), expected);
    }
}

TEST_CASE("every public capture of network tools has its row") {
    if (!std::filesystem::exists(kNet)) {
        MESSAGE("skipped: there is no " << kNet.string());
        return;
    }
    for (const auto& entry : std::filesystem::directory_iterator(kNet)) {
        const std::string file = entry.path().filename().string();
        CAPTURE(file);
        CHECK(std::any_of(kRows.begin(), kRows.end(),
                          [&](const Row& row) { return row.file == file; }));
    }
}

TEST_CASE("a counter that is not zero and the bond of two devices are kept") {
    const Machine machine = import_text(
        "mlx5_0/ports/1/state: 4: ACTIVE\nmlx5_0/ports/1/link_layer: Ethernet\n"
        "mlx5_0/ports/1/counters/link_downed: 255\nmlx5_0/ports/1/counters/symbol_error: 0\n"
        "$ ibdev2netdev\nmlx5_0 port 1 ==> bond0 (Up)\nmlx5_1 port 1 ==> bond0 (Up)\n");
    REQUIRE(machine.nics.size() == 2);
    CHECK(machine.nics[0].name == "bond0");
    CHECK(machine.nics[0].kind == NicKind::bond);
    REQUIRE(machine.nics[0].errors.size() == 1);
    CHECK(machine.nics[0].errors[0] == PortCounter{"link_downed", 255});
    CHECK(machine.nics[1].rdma_device == "mlx5_1");
    CHECK(machine.nics[1].master == "bond0");
}

TEST_CASE("the tools of one machine are put together") {
    const std::vector<Capture> captures = {
        {"ip.txt",
         "2: eno1: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 1500 qdisc mq state UP group default\n"
         "    link/ether 02:00:00:00:00:02 brd ff:ff:ff:ff:ff:ff\n"
         "    inet 10.0.0.5/24 brd 10.0.0.255 scope global eno1\n"
         "5: ib0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 4092 qdisc mq state UP group default\n"
         "    link/infiniband 00:00:10:49:fe:80 brd 00:ff:ff:ff:ff:12\n"
         "    inet 10.1.0.5/16 brd 10.1.255.255 scope global ib0\n"
         "6: ens2np0: <BROADCAST,MULTICAST,UP,LOWER_UP> mtu 9000 qdisc mq state UP group default\n"
         "    link/ether 02:00:00:00:00:06 brd ff:ff:ff:ff:ff:ff\n"},
        {"rdma.txt",
         "mlx5_0 port 1 ==> ib0 (Up)\nmlx5_1 port 1 ==> ens2np0 (Up)\n"
         "CA 'mlx5_0'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 400\n\t\tLink layer: InfiniBand\n"
         "CA 'mlx5_1'\n\tPort 1:\n\t\tState: Active\n\t\tRate: 200\n\t\tLink layer: Ethernet\n"},
        {"route.txt", "default via 10.0.0.1 dev eno1 proto dhcp metric 100\n"},
        {"eth.txt", "Settings for eno1:\n\tSpeed: 25000Mb/s\n\tLink detected: yes\n"}};
    const Machine machine = import_captures(captures);
    REQUIRE(machine.nics.size() == 3);
    const Nic& eno1 = machine.nics[0];
    CHECK(eno1.name == "eno1");
    CHECK(eno1.kind == NicKind::ethernet);
    CHECK(eno1.default_route);
    CHECK(eno1.speed_gbits == 25);
    const Nic& ib0 = machine.nics[1];
    CHECK(ib0.name == "ib0");
    CHECK(ib0.kind == NicKind::ipoib);
    CHECK(ib0.rdma_device == "mlx5_0");
    CHECK(ib0.speed_gbits == 400);
    CHECK(ib0.mtu == 4092);
    const Nic& roce = machine.nics[2];
    CHECK(roce.name == "ens2np0");
    CHECK(roce.kind == NicKind::roce);
    CHECK(roce.rdma_device == "mlx5_1");
    CHECK(roce.speed_gbits == 200);
    CHECK(roce.port_state == "active");
}

// --- what the tools of this machine print, in a network namespace of the test's own

std::string run(const std::string& command) {
    const std::unique_ptr<FILE, int (*)(FILE*)> pipe(popen(command.c_str(), "r"), pclose);
    std::string out;
    std::array<char, 4096> buffer{};
    while (pipe && std::fgets(buffer.data(), buffer.size(), pipe.get()) != nullptr)
        out += buffer.data();
    return out;
}

/// Every device is tried; a kernel may lack some of the drivers.
constexpr const char* kSetUp =
    "ip link set lo up; ip link add br-test type bridge; ip link add veth0 type veth peer name "
    "veth1; ip link set veth0 master br-test; ip link add dummy0 type dummy; ip link add bond0 "
    "type bond; ip link add link bond0 name bond0.7 type vlan id 7; ip tuntap add tun0 mode tun; "
    "ip link add vxlan0 type vxlan id 9 dstport 4789; for i in br-test veth0 veth1 bond0 bond0.7 "
    "tun0 dummy0; do ip link set $i up; done; ip addr add 10.200.0.1/24 dev br-test; ip addr add "
    "10.201.0.1 peer 10.201.0.2 dev tun0";

struct Truth {
    std::string name;
    NicKind kind;
    std::string state;
};

/// The kernel tells the carrier of a pair, and what depends on it, a moment later: no state of
/// these.
const std::vector<Truth> kTruth = {
    {"lo", NicKind::loopback, "up"},     {"br-test", NicKind::bridge, ""},
    {"veth0", NicKind::veth, ""},        {"veth1", NicKind::veth, ""},
    {"tun0", NicKind::tunnel, "down"},   {"dummy0", NicKind::other, ""},
    {"bond0", NicKind::bond, ""},        {"bond0.7", NicKind::vlan, ""},
    {"vxlan0", NicKind::tunnel, "down"},
};

TEST_CASE("the tools of this machine are understood in all their forms") {
    const std::string in_namespace = "unshare -rn sh -c '{ " + std::string(kSetUp) + "; } ";
    if (run(in_namespace + ">/dev/null 2>&1; ip link show lo' 2>/dev/null").empty()) {
        MESSAGE("skipped: no ip, no unshare, or no network namespace of its own permitted");
        return;
    }
    for (const std::string tool :
         {"ip addr", "ip -d addr", "ip -j addr", "ip -j -d addr", "ip -j -p -d addr", "ip -br addr",
          "ip -br link", "ip -d link", "ip -o link", "ifconfig -a"}) {
        const std::string text = run(in_namespace + ">/dev/null 2>&1; " + tool + "' 2>/dev/null");
        if (text.empty()) {
            MESSAGE("skipped: '" << tool << "' prints nothing here");
            continue;
        }
        CAPTURE(tool);
        const Machine machine = import_text(text);
        for (const std::string& note : machine.notes)
            CHECK(note.find("not understood") == std::string::npos);
        std::size_t known = 0;
        for (const Truth& truth : kTruth) {
            const Nic* nic = find(machine, truth.name);
            if (nic == nullptr) continue;  // no driver for it
            CAPTURE(truth.name);
            CHECK(nic_kind_name(nic->kind) == nic_kind_name(truth.kind));
            if (!truth.state.empty()) CHECK(nic->state == truth.state);
            ++known;
        }
        CHECK(find(machine, "lo") != nullptr);
        CHECK(known > 0);
    }
}

}  // namespace
}  // namespace toporun::detect
