#include "detect/network/rdma.hpp"

#include <fmt/format.h>

#include "detect/import/import.hpp"
#include "detect/network/network.hpp"
#include "detect/network/port_counters.hpp"
#include "detect/network/port_tables.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Gid;
using detect::Nic;
using detect::NicKind;
using detect::PortCounter;

std::vector<Nic> nics_of(const Tree& tree) {
    std::vector<std::string> notes;
    detect::PciTree pci{detect::Files(tree.root())};
    return detect::detect_nics(pci, false, {}, notes);
}

std::string add_device(const Tree& tree, const std::string& device, const std::string& pci) {
    const std::string at = "/sys/class/infiniband/" + device;
    tree.link(at + "/device", "../../../bus/pci/devices/" + pci);
    return at;
}

void add_port(const Tree& tree, const std::string& device, int number, const std::string& layer,
              const std::string& state) {
    const std::string at = "/sys/class/infiniband/" + device + "/ports/" + std::to_string(number);
    tree.write(at + "/link_layer", layer + "\n");
    tree.write(at + "/state", state + "\n");
    tree.write(at + "/rate", "100 Gb/sec (4X EDR)\n");
}

void add_gid(const Tree& tree, const std::string& device, int index, const std::string& address,
             const std::string& type, const std::string& interface) {
    const std::string at = "/sys/class/infiniband/" + device + "/ports/1";
    const std::string number = std::to_string(index);
    tree.write(at + "/gids/" + number, address + "\n");
    if (!type.empty()) tree.write(at + "/gid_attrs/types/" + number, type + "\n");
    if (!interface.empty()) tree.write(at + "/gid_attrs/ndevs/" + number, interface + "\n");
}

const Nic& named(const std::vector<Nic>& nics, const std::string& name) {
    for (const Nic& nic : nics)
        if (nic.name == name) return nic;
    FAIL("no interface " << name);
    return nics.front();
}

}  // namespace

TEST_CASE("GID tables are read without their empty entries, each with type and interface") {
    const Tree tree;
    tree.pci("pci0000:00/0000:41:00.0", "0x020000", "0x15b3", 0);
    add_device(tree, "mlx5_0", "0000:41:00.0");
    add_port(tree, "mlx5_0", 1, "Ethernet", "4: ACTIVE");
    const std::string zero = "0000:0000:0000:0000:0000:0000:0000:0000";
    add_gid(tree, "mlx5_0", 0, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "IB/RoCE v1", "eth0");
    add_gid(tree, "mlx5_0", 1, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "RoCE v2", "eth0");
    add_gid(tree, "mlx5_0", 2, zero, "", "");
    add_gid(tree, "mlx5_0", 3, "0000:0000:0000:0000:0000:ffff:0a00:0001", "RoCE v2", "eth0.7");
    add_gid(tree, "mlx5_0", 4, "not an address\x1b[31m", "RoCE v2", "");
    add_gid(tree, "mlx5_0", 255, "2001:0db8:0000:0000:0000:0000:0000:0001", "odd", "");
    add_gid(tree, "mlx5_0", 256, "2001:0db8:0000:0000:0000:0000:0000:0002", "", "");
    const std::vector<Nic> nics = nics_of(tree);
    REQUIRE(nics.size() == 1);
    CHECK(nics[0].gids == std::vector<Gid>{{0, "fe80::a00:27ff:fe00:1", "RoCE v1", "eth0"},
                                           {1, "fe80::a00:27ff:fe00:1", "RoCE v2", "eth0"},
                                           {3, "::ffff:10.0.0.1", "RoCE v2", "eth0.7"},
                                           {255, "2001:db8::1", "", ""}});
}

TEST_CASE("a short search of the GID table ends after eight empty entries") {
    const Tree tree;
    const std::string zero = "0000:0000:0000:0000:0000:0000:0000:0000";
    for (int index = 0; index < 20; ++index) add_gid(tree, "mlx5_0", index, zero, "", "");
    add_gid(tree, "mlx5_0", 1, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v2", "");
    add_gid(tree, "mlx5_0", 9, "fe80:0000:0000:0000:0000:0000:0000:0002", "RoCE v2", "");
    add_gid(tree, "mlx5_0", 18, "fe80:0000:0000:0000:0000:0000:0000:0003", "RoCE v2", "");
    const auto count = [&](bool whole) {
        return detect::read_gids(detect::Files(tree.root()), "/sys/class/infiniband/mlx5_0/ports/1",
                                 false, whole)
            .size();
    };
    CHECK(count(false) == 2);
    CHECK(count(true) == 3);
    const auto with = [&](int wanted) {
        std::vector<int> indices;
        for (const Gid& gid :
             detect::read_gids(detect::Files(tree.root()), "/sys/class/infiniband/mlx5_0/ports/1",
                               false, false, wanted))
            indices.push_back(gid.index);
        return indices;
    };
    CHECK(with(18) == std::vector<int>{1, 9, 18});
    CHECK(with(19) == std::vector<int>{1, 9});
    CHECK(with(9) == std::vector<int>{1, 9});
    CHECK(with(-1) == std::vector<int>{1, 9});
}

TEST_CASE("an InfiniBand GID is of type IB") {
    const Tree tree;
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    add_gid(tree, "mlx5_0", 0, "fe80:0000:0000:0000:b8ce:f603:00d3:1ed8", "IB/RoCE v1", "");
    CHECK(nics_of(tree)[0].gids == std::vector<Gid>{{0, "fe80::b8ce:f603:d3:1ed8", "IB", ""}});
}

TEST_CASE("error counters that are not zero are named as in sysfs") {
    const Tree tree;
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    const std::string at = "/sys/class/infiniband/mlx5_0/ports/1";
    tree.write(at + "/counters/symbol_error", "0\n");
    tree.write(at + "/counters/link_downed", "18446744073709551610\n");
    tree.write(at + "/counters/port_rcv_errors", "14\n");
    tree.write(at + "/counters/local_link_integrity_errors", "N/A (no PMA)\n");
    tree.write(at + "/counters/port_xmit_data", "123456\n");
    tree.write(at + "/hw_counters/local_ack_timeout_err", "3\n");
    tree.write(at + "/hw_counters/out_of_sequence", "-1\n");
    CHECK(nics_of(tree)[0].errors ==
          std::vector<PortCounter>{{"link_downed", 18446744073709551610u},
                                   {"port_rcv_errors", 14},
                                   {"local_ack_timeout_err", 3}});
}

TEST_CASE("sysfs and captures of it tell the same counters of errors") {
    const Tree tree;
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    const std::string port = "mlx5_0/ports/1/";
    std::string capture = port + "state: 4: ACTIVE\n";
    std::vector<PortCounter> errors;
    for (const detect::ErrorCounter& counter : detect::kErrorCounters) {
        const std::string file = fmt::format("{}{}/{}", port, counter.directory, counter.name);
        tree.write("/sys/class/infiniband/" + file, "70000\n");
        capture += file + ":70000\n";
        errors.push_back({std::string(counter.name), 70000});
    }
    capture += port + "counters/port_rcv_switch_relay_errors:70000\n";
    CHECK(nics_of(tree)[0].errors == errors);
    const std::vector<detect::Capture> captures = {{"x.txt", capture}};
    const detect::Machine captured = detect::import_captures(captures);
    REQUIRE(captured.nics.size() == 1);
    CHECK(captured.nics[0].errors == errors);
}

TEST_CASE("two RDMA devices of one bond are both kept and the bond is one interface") {
    const Tree tree;
    tree.write("/sys/class/net/bond0/ifindex", "7\n");
    tree.write("/sys/class/net/bond0/bonding/mode", "802.3ad 4\n");
    for (const std::string device : {"mlx5_3", "mlx5_9"}) {
        add_port(tree, device, 1, "Ethernet", "4: ACTIVE");
        add_gid(tree, device, 0, "fe80:0000:0000:0000:0a00:27ff:fe00:0001", "RoCE v2", "bond0");
    }
    const std::vector<Nic> nics = nics_of(tree);
    REQUIRE(nics.size() == 2);
    CHECK(named(nics, "bond0").rdma_device == "mlx5_3");
    CHECK(named(nics, "bond0").kind == NicKind::bond);
    CHECK(named(nics, "bond0").master.empty());
    CHECK(named(nics, "mlx5_9").kind == NicKind::roce);
    CHECK(named(nics, "mlx5_9").master == "bond0");
}

TEST_CASE("a port's state is kept apart from its interface's") {
    struct Row {
        const char* text;
        const char* port_state;
        const char* state;
    };
    const Row rows[] = {{"4: ACTIVE\n", "active", "up"},       {"1: DOWN\n", "down", "down"},
                        {"2: INIT\n", "init", "down"},         {"3: ARMED\n", "armed", "down"},
                        {"5: ACTIVE_DEFER\n", "down", "down"}, {"0: NOP\n", "", "unknown"},
                        {"9: \x1b[31m\n", "", "unknown"},      {"", "", "unknown"}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const Tree tree;
        tree.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
        tree.write("/sys/class/infiniband/mlx5_0/ports/1/state", row.text);
        CHECK(nics_of(tree)[0].port_state == row.port_state);
        CHECK(nics_of(tree)[0].state == row.state);
    }
    const Tree tree;  // IPoIB switched off, as on most clusters
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 0);
    add_device(tree, "mlx5_0", "0000:41:00.0");
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    tree.interface("ib0", 2, 32, {{"operstate", "down\n"}});
    tree.directory("/sys/devices/pci0000:00/0000:41:00.0/net/ib0");
    const Nic nic = named(nics_of(tree), "ib0");
    CHECK(nic.rdma_device == "mlx5_0");
    CHECK(nic.state == "down");
    CHECK(nic.port_state == "active");
}

TEST_CASE("a card with two ports on one function gives each its interface") {
    const Tree tree;
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 0);
    add_device(tree, "mlx4_0", "0000:41:00.0");
    add_port(tree, "mlx4_0", 1, "InfiniBand", "4: ACTIVE");
    add_port(tree, "mlx4_0", 2, "Ethernet", "1: DOWN");
    tree.interface("ib0", 2, 32);
    tree.interface("ib0.8001", 4, 32, {{"parent", "ib0\n"}});
    tree.interface("ens1d1", 3, 1, {{"device/vendor", "0x15b3\n"}});
    const std::string net = "/sys/devices/pci0000:00/0000:41:00.0/net";
    tree.write(net + "/ib0/dev_port", "0\n");
    tree.write(net + "/ib0.8001/dev_port", "0\n");
    tree.write(net + "/ib0.8001/parent", "ib0\n");
    tree.write(net + "/ens1d1/dev_port", "1\n");
    const std::vector<Nic> nics = nics_of(tree);
    REQUIRE(nics.size() == 3);
    CHECK(named(nics, "ib0").port == 1);
    CHECK(named(nics, "ens1d1").port == 2);
    CHECK(named(nics, "ens1d1").kind == NicKind::roce);
    CHECK(named(nics, "ens1d1").port_state == "down");
    CHECK_FALSE(named(nics, "ib0.8001").rdma_device);
    CHECK(named(nics, "ib0.8001").parent == "ib0");
    CHECK(named(nics, "ib0.8001").kind == NicKind::ipoib);
}

TEST_CASE("the second port does not take the only interface of the function") {
    const Tree tree;
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 0);
    add_device(tree, "mlx4_0", "0000:41:00.0");
    add_port(tree, "mlx4_0", 1, "InfiniBand", "1: DOWN");
    add_port(tree, "mlx4_0", 2, "Ethernet", "4: ACTIVE");
    tree.interface("ens1d1", 3, 1, {{"device/vendor", "0x15b3\n"}});
    tree.write("/sys/devices/pci0000:00/0000:41:00.0/net/ens1d1/dev_port", "1\n");
    const std::vector<Nic> nics = nics_of(tree);
    REQUIRE(nics.size() == 2);
    CHECK(nics[0].name == "ens1d1");
    CHECK(nics[0].port == 2);
    CHECK(nics[1].name == "mlx4_0");
    CHECK(nics[1].kind == NicKind::infiniband);
    CHECK(nics[1].port == 1);
}

TEST_CASE("driver, GUID, PCIe link and virtual function come with the device") {
    const Tree tree;
    const std::string pci = "/sys/devices/pci0000:00/0000:41:00.0";
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 1);
    tree.write(pci + "/device", "0x101e\n");
    tree.write(pci + "/max_link_speed", "32.0 GT/s PCIe\n");
    tree.write(pci + "/max_link_width", "16\n");
    tree.write(pci + "/current_link_speed", "8.0 GT/s PCIe\n");
    tree.write(pci + "/current_link_width", "4\n");
    tree.directory("/sys/bus/pci/drivers/mlx5_core");
    tree.link(pci + "/driver", "../../../bus/pci/drivers/mlx5_core");
    const std::string at = add_device(tree, "mlx5_0", "0000:41:00.0");
    tree.write(at + "/node_guid", "b8ce:f603:00d3:1ed8\n");
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    const Nic nic = nics_of(tree)[0];
    CHECK(nic.driver == "mlx5_core");
    CHECK(nic.guid == "b8ce:f603:00d3:1ed8");
    CHECK(nic.virtual_function);
    CHECK(nic.kind == NicKind::infiniband);
    CHECK(nic.pcie_generation == 5);
    CHECK(nic.pcie_width == 16);
    CHECK(nic.pcie_generation_now == 3);
    CHECK(nic.pcie_width_now == 4);
    CHECK(nic.numa_node == 1);
}

TEST_CASE("a device of node type RNIC speaks iWARP and is no RoCE") {
    const Tree tree;
    tree.pci("pci0000:00/0000:41:00.0", "0x020000", "0x8086", 1);
    const std::string at = add_device(tree, "iwp65s0", "0000:41:00.0");
    tree.write(at + "/node_type", "4: RNIC\n");
    add_port(tree, "iwp65s0", 1, "Ethernet", "4: ACTIVE");
    const Nic nic = nics_of(tree)[0];
    CHECK(nic.iwarp);
    CHECK(nic.kind == NicKind::other);
}

TEST_CASE("a GUID of zeros and a link that is gone tell nothing") {
    const Tree tree;
    const std::string pci = "/sys/devices/pci0000:00/0000:41:00.0";
    tree.pci("pci0000:00/0000:41:00.0", "0x020700", "0x15b3", 1);
    tree.write(pci + "/max_link_speed", "16.0 GT/s PCIe\n");
    tree.write(pci + "/max_link_width", "255\n");
    tree.write(pci + "/current_link_speed", "Unknown\n");
    tree.write(pci + "/current_link_width", "0\n");
    const std::string at = add_device(tree, "mlx5_0", "0000:41:00.0");
    tree.write(at + "/node_guid", "0000:0000:0000:0000\n");
    add_port(tree, "mlx5_0", 1, "InfiniBand", "4: ACTIVE");
    const Nic nic = nics_of(tree)[0];
    CHECK(nic.guid.empty());
    CHECK(nic.driver.empty());
    CHECK_FALSE(nic.virtual_function);
    CHECK(nic.pcie_generation == 4);
    CHECK_FALSE(nic.pcie_width);
    CHECK_FALSE(nic.pcie_generation_now);
    CHECK_FALSE(nic.pcie_width_now);
}

}  // namespace toporun::tests
