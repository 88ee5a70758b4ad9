#include "detect/network/network.hpp"

#include "detect/network/routes.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Files;
using detect::Nic;
using detect::NicKind;

constexpr const char* kIpv4Header =
    "Iface\tDestination\tGateway \tFlags\tRefCnt\tUse\tMetric\tMask\t\tMTU\tWindow\tIRTT\n";

std::vector<Nic> nics_of(const std::string& root) {
    std::vector<std::string> notes;
    detect::PciTree pci{Files(root)};
    return detect::detect_nics(pci, false, {}, notes);
}

/// An InfiniBand device on a PCI function, with one port.
void add_rdma(const Tree& tree, const std::string& device, const std::string& pci,
              const std::string& link_layer, const std::string& state, const std::string& rate,
              const std::string& interface) {
    const std::string at = "/sys/class/infiniband/" + device;
    tree.link(at + "/device", "../../../bus/pci/devices/" + pci);
    tree.write(at + "/ports/1/link_layer", link_layer + "\n");
    tree.write(at + "/ports/1/state", state + "\n");
    tree.write(at + "/ports/1/rate", rate + "\n");
    if (!interface.empty()) tree.write(at + "/ports/1/gid_attrs/ndevs/0", interface + "\n");
}

}  // namespace

TEST_CASE("the kind of an interface comes from what its driver leaves in sysfs") {
    struct Row {
        std::string name;
        int type;
        std::vector<std::pair<std::string, std::string>> files;
        NicKind kind;
    };
    const Row rows[] = {
        {"lo", 772, {}, NicKind::loopback},
        {"ib0", 32, {}, NicKind::ipoib},
        {"docker0", 1, {{"bridge/bridge_id", "x"}}, NicKind::bridge},
        {"bond0", 1, {{"bonding/mode", "x"}}, NicKind::bond},
        {"tun0", 65534, {{"tun_flags", "0x1001\n"}}, NicKind::tunnel},
        {"wg0", 65534, {{"uevent", "DEVTYPE=wireguard\nINTERFACE=wg0\n"}}, NicKind::tunnel},
        {"flannel.1", 1, {{"uevent", "DEVTYPE=vxlan\n"}}, NicKind::tunnel},
        {"gnv0", 1, {{"uevent", "DEVTYPE=geneve\n"}}, NicKind::tunnel},
        {"ppp0", 512, {}, NicKind::tunnel},
        {"tunl0", 768, {}, NicKind::tunnel},
        {"tailscale0", 65534, {{"tun_flags", "0x5001\n"}}, NicKind::tunnel},
        {"ipv0", 1, {{"uevent", "DEVTYPE=ipvlan\n"}, {"iflink", "2\n"}}, NicKind::ethernet},
        {"lxc1", 1, {{"uevent", "DEVTYPE=netkit\n"}, {"iflink", "9\n"}}, NicKind::veth},
        {"vrf0", 1, {{"uevent", "DEVTYPE=vrf\n"}}, NicKind::other},
        {"sit0", 776, {}, NicKind::tunnel},
        {"eth0.7", 1, {{"uevent", "DEVTYPE=vlan\n"}, {"iflink", "2\n"}}, NicKind::vlan},
        {"mac0", 1, {{"uevent", "DEVTYPE=macvlan\n"}, {"iflink", "2\n"}}, NicKind::ethernet},
        {"veth1", 1, {{"iflink", "99\n"}}, NicKind::veth},
        {"dummy0", 1, {}, NicKind::other},
        {"eth1", 1, {{"device/vendor", "0x15b3\n"}}, NicKind::ethernet},
        {"eth2", 1, {{"device/physfn/vendor", "0x15b3\n"}}, NicKind::vf},
        {"can0", 280, {{"device/vendor", "0x1\n"}}, NicKind::other},
        {"odd", 1, {{"type", "\xff\n"}, {"ifindex", "x\n"}}, NicKind::other},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.interface(row.name, 5, row.type, row.files);
        CHECK(detect::interface_kind(Files(tree.root()), row.name) == row.kind);
    }
    const Tree tree;
    tree.interface("eth0.8", 5, 1, {{"iflink", "2\n"}});
    tree.write("/proc/net/vlan/eth0.8", "eth0.8  VID: 8\n");
    CHECK(detect::interface_kind(Files(tree.root()), "eth0.8") == NicKind::vlan);
}

TEST_CASE("interfaces of a tree come in kernel order with state, speed and route") {
    const Tree tree;
    tree.interface("zeta", 2, 1, {{"device/vendor", "0x8086\n"}, {"speed", "100000\n"}});
    tree.interface("alpha", 3, 1,
                   {{"device/vendor", "0x8086\n"}, {"speed", "25000\n"}, {"operstate", "down\n"}});
    tree.interface("lo", 1, 772, {{"operstate", "unknown\n"}, {"carrier", "1\n"}});
    tree.interface("nolink", 4, 1, {{"carrier", "0\n"}});
    tree.interface("veth9", 5, 1, {{"iflink", "77\n"}, {"speed", "10000\n"}});
    tree.interface("off", 6, 1, {{"flags", "0x1002\n"}});
    tree.write("/sys/class/net/bonding_masters", "bond0\n");
    tree.write("/proc/net/route",
               std::string(kIpv4Header) +
                   "alpha\t00000000\t0101A8C0\t0003\t0\t0\t600\t00000000\t0\t0\t0\n"
                   "zeta\t00000000\t0100000A\t0003\t0\t0\t100\t00000000\t0\t0\t0\n"
                   "zeta\t0000000A\t00000000\t0001\t0\t0\t0\t00FFFFFF\t0\t0\t0\n");
    const std::vector<Nic> nics = nics_of(tree.root());
    REQUIRE(nics.size() == 6);
    CHECK(nics[0].name == "lo");
    CHECK(nics[0].state == "up");
    CHECK(nics[1].name == "zeta");
    CHECK(nics[1].os_index == 2);
    CHECK(nics[1].speed_gbits == 100.0);
    CHECK(nics[1].mtu == 1500);
    CHECK(nics[1].default_route);
    CHECK_FALSE(nics[2].default_route);
    CHECK(nics[2].state == "down");
    CHECK_FALSE(nics[2].speed_gbits);
    CHECK(nics[3].state == "down");
    CHECK_FALSE(nics[3].speed_gbits);  // the rate of a link that is not there
    CHECK(nics[4].kind == NicKind::veth);
    CHECK_FALSE(nics[4].speed_gbits);
    CHECK(nics[5].state == "down");
    CHECK(nics[1].addresses.empty());
}

TEST_CASE("the default route is the IPv4 one, else the IPv6 one") {
    const std::string zero(32, '0');
    const std::string v6 = zero + " 00 " + zero + " 00 fe800000000000000000000000000001 ";
    struct Row {
        std::string name;
        std::string ipv4;
        std::string ipv6;
        const char* expected;
    };
    const Row rows[] = {
        {"none", "", "", ""},
        {"IPv6 only", kIpv4Header, v6 + "00000400 00000001 00000000 00000003     eth6\n", "eth6"},
        {"reject route", "", v6 + "ffffffff 00000001 00000000 00200200       lo\n", ""},
        {"route that is down",
         std::string(kIpv4Header) + "eth0\t00000000\t0101A8C0\t0002\t0\t0\t0\t00000000\t0\t0\t0\n",
         "", ""},
        {"garbage", "\n\n\xff\xfe eth0\neth0 00000000 x zz 0 0 q 00000000\n", "short line\n", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/proc/net/route", row.ipv4);
        tree.write("/proc/net/ipv6_route", row.ipv6);
        CHECK(detect::default_route_interface(Files(tree.root())) == row.expected);
    }
}

TEST_CASE("an RDMA port can be used by its own state, else by its interface's") {
    struct Row {
        NicKind kind;
        bool rdma;
        std::string port_state, state;
        bool usable;
    };
    const Row rows[] = {
        {NicKind::ipoib, true, "active", "down", true},
        {NicKind::ipoib, true, "init", "up", false},
        {NicKind::ipoib, true, "armed", "up", false},
        {NicKind::ipoib, true, "down", "down", false},
        {NicKind::ipoib, true, "", "down", true},
        {NicKind::roce, true, "", "down", false},
        {NicKind::roce, true, "", "up", true},
        {NicKind::infiniband, true, "", "unknown", true},
        {NicKind::efa, true, "active", "unknown", true},
        {NicKind::ethernet, false, "", "up", false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.port_state);
        CAPTURE(row.state);
        Nic nic;
        nic.kind = row.kind;
        if (row.rdma) nic.rdma_device = "mlx5_0";
        nic.port_state = row.port_state;
        nic.state = row.state;
        CHECK(detect::rdma_usable(nic) == row.usable);
    }
}

TEST_CASE("RDMA ports are merged into the interface of the same port") {
    const Tree tree;
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 1);
    tree.pci("pci0000:00/0000:42:00.0", "0x020000", "0x15b3", 0);
    tree.pci("pci0000:00/0000:43:00.0", "0x020000", "0x1d0f", 0);
    tree.pci("pci0000:00/0000:44:00.0", "0x020700", "0x15b3", 0);
    tree.pci("pci0000:00/0000:45:00.0", "0x020000", "0x15b3", 0);
    tree.interface("ib0", 2, 32);
    tree.interface("eth0", 3, 1);
    tree.link("/sys/class/net/eth0/device", "../../../bus/pci/devices/0000:42:00.0");
    tree.interface("bond0", 4, 1, {{"bonding/mode", "x"}, {"speed", "50000\n"}});
    add_rdma(tree, "mlx5_0", "0000:41:00.0", "InfiniBand", "4: ACTIVE", "400 Gb/sec (4X NDR)", "");
    tree.write("/sys/devices/pci0000:00/0000:41:00.0/net/ib0/dev_port", "0\n");
    add_rdma(tree, "mlx5_1", "0000:42:00.0", "Ethernet", "4: ACTIVE", "100 Gb/sec (4X EDR)",
             "eth0");
    add_rdma(tree, "rdmap0", "0000:43:00.0", "Unspecified", "4: ACTIVE", "200 Gb/sec (4X HDR)", "");
    add_rdma(tree, "mlx5_3", "0000:44:00.0", "InfiniBand", "1: DOWN", "10 Gb/sec (4X SDR)", "");
    add_rdma(tree, "mlx5_bond_0", "0000:45:00.0", "Ethernet", "4: ACTIVE", "nonsense", "bond0");
    const std::vector<Nic> nics = nics_of(tree.root());
    REQUIRE(nics.size() == 5);
    CHECK(nics[0].name == "ib0");
    CHECK(nics[0].kind == NicKind::ipoib);
    CHECK(nics[0].rdma_device == "mlx5_0");
    CHECK(nics[0].port == 1);
    CHECK(nics[0].speed_gbits == 400.0);
    CHECK(nics[0].numa_node == 1);
    CHECK(nics[1].kind == NicKind::roce);
    CHECK(nics[1].rdma_device == "mlx5_1");
    CHECK(nics[2].kind == NicKind::bond);
    CHECK(nics[2].rdma_device == "mlx5_bond_0");
    CHECK(nics[2].speed_gbits == 50.0);
    CHECK(nics[3].name == "mlx5_3");
    CHECK(nics[3].kind == NicKind::infiniband);
    CHECK(nics[3].state == "down");
    CHECK(nics[4].kind == NicKind::efa);
    CHECK(nics[4].name == "rdmap0");
    CHECK(nics[4].state == "up");
    CHECK(nics[4].pci->text() == "0000:43:00.0");
}

TEST_CASE("RDMA devices are in the order of their numbers") {
    const Tree tree;
    for (const char* device : {"mlx5_10", "mlx5_2", "mlx5_0", "mlx5_1", "bnxt_re0", "mlx5_bond_0"})
        tree.write(std::string("/sys/class/infiniband/") + device + "/ports/1/state",
                   "4: ACTIVE\n");
    std::vector<std::string> names;
    for (const Nic& nic : nics_of(tree.root())) names.push_back(nic.name);
    CHECK(names == std::vector<std::string>{"bnxt_re0", "mlx5_0", "mlx5_1", "mlx5_2", "mlx5_10",
                                            "mlx5_bond_0"});
}

TEST_CASE("odd RDMA files end in a port without facts") {
    const Tree tree;
    tree.write("/sys/class/infiniband/bad/ports/1/rate", "");
    tree.write("/sys/class/infiniband/bad/ports/x/rate", "1 Gb/sec");
    tree.directory("/sys/class/infiniband/bad/ports/99999999999");
    tree.write("/sys/class/infiniband/bad/ports/1/gid_attrs/ndevs/0", "../../../etc\n");
    tree.write("/sys/class/infiniband/file", "");
    const std::vector<Nic> nics = nics_of(tree.root());
    REQUIRE(nics.size() == 1);
    CHECK(nics[0].kind == NicKind::other);
    CHECK(nics[0].state == "unknown");
    CHECK_FALSE(nics[0].speed_gbits);
}

TEST_CASE("this machine's loopback has its address") {
    const std::vector<Nic> nics = nics_of("");
    bool found = false;
    for (const Nic& nic : nics)
        for (const std::string& address : nic.addresses)
            found = found || (nic.kind == NicKind::loopback && address == "127.0.0.1/8");
    CHECK(found);
}

}  // namespace toporun::tests
