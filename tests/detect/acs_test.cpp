#include "detect/software/acs.hpp"

#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::AcsRedirect;
using detect::Machine;

constexpr AcsRedirect on = AcsRedirect::on, off = AcsRedirect::off, unknown = AcsRedirect::unknown;

std::string config(bool redirects) {
    std::string bytes(512, '\0');
    bytes[0x100] = 0x0d;
    bytes[0x106] = redirects ? 0x0c : 0;
    return bytes;
}

/// One GPU and one adapter below each of two switches. `at`: what the ports of the first hold.
struct Switches {
    Tree tree;
    std::string root_a = "pci0000:00/0000:00:01.0", up_a = root_a + "/0000:01:00.0";
    std::string gpu_port = up_a + "/0000:02:00.0", nic_port = up_a + "/0000:02:01.0";
    std::string root_b = "pci0000:80/0000:80:01.0", up_b = root_b + "/0000:81:00.0";

    Switches() {
        for (const std::string& bridge : {root_a, up_a, gpu_port, nic_port, root_b, up_b,
                                          up_b + "/0000:82:00.0", up_b + "/0000:82:01.0"}) {
            tree.bridge(bridge);
            set(bridge, false);
        }
        tree.gpu(gpu_port + "/0000:03:00.0", 0);
        tree.pci(nic_port + "/0000:04:00.0", "0x020700", "0x15b3", 0);
        tree.gpu(up_b + "/0000:82:00.0/0000:83:00.0", 1);
        tree.pci(up_b + "/0000:82:01.0/0000:84:00.0", "0x020000", "0x8086", 1);
        tree.link("/sys/class/infiniband/mlx5_0/device", "../../../bus/pci/devices/0000:04:00.0");
        tree.write("/sys/class/infiniband/mlx5_0/ports/1/link_layer", "InfiniBand\n");
        tree.interface("eth0", 2, 1);
        tree.link("/sys/class/net/eth0/device", "../../../bus/pci/devices/0000:84:00.0");
    }
    void set(const std::string& bridge, bool redirects) const {
        tree.write("/sys/devices/" + bridge + "/config", config(redirects));
    }
};

}  // namespace

TEST_CASE("ACS between a GPU and an RDMA port is that of the ports where their ways part") {
    struct Row {
        std::string name;
        std::string redirecting, unreadable;
        AcsRedirect expected;
    };
    const Switches names;
    const Row rows[] = {{"none", "", "", off},
                        {"port of the GPU", names.gpu_port, "", on},
                        {"port of the adapter", names.nic_port, "", on},
                        {"upstream port", names.up_a, "", off},
                        {"root port", names.root_a, "", off},
                        {"one not readable", "", names.nic_port, unknown},
                        {"one is enough", names.gpu_port, names.nic_port, on}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Switches machine;
        if (!row.redirecting.empty()) machine.set(row.redirecting, true);
        if (!row.unreadable.empty())
            machine.tree.write("/sys/devices/" + row.unreadable + "/config", std::string(64, 'x'));
        const Machine seen = detect_tree(machine.tree);
        REQUIRE(seen.nics.size() == 2);
        REQUIRE(seen.nics[0].name == "eth0");
        if (row.expected == unknown) {
            CHECK(seen.gpu_nic_acs_redirect.empty());
            continue;
        }
        REQUIRE(seen.gpu_nic_acs_redirect.size() == 2);
        CHECK(seen.gpu_nic_acs_redirect[0] == std::vector{unknown, row.expected});
        // The other GPU shares no switch with it, and plain Ethernet has no GPUDirect.
        CHECK(seen.gpu_nic_acs_redirect[1] == std::vector{unknown, unknown});
    }
}

TEST_CASE("a root port redirects where the IOMMU translates alone") {
    using Told = std::optional<bool>;
    struct Row {
        std::string name;
        Told root, port;  ///< bit of the root ports, of the switches' ports
        Told iommu;
        AcsRedirect across, below;  ///< the pair of two root ports, the pair of one switch
        Told above;
    };
    const Told yes = true, no = false, none;
    const Row rows[] = {
        {"nothing set", no, no, yes, off, off, no},
        {"all set, pass-through", yes, yes, no, off, on, yes},
        {"all set, translating", yes, yes, yes, on, on, yes},
        {"all set, IOMMU unknown", yes, yes, none, unknown, on, yes},
        {"root ports, pass-through", yes, no, no, off, off, no},
        {"root ports, translating", yes, no, yes, on, off, yes},
        {"root ports, IOMMU unknown", yes, no, none, unknown, off, none},
        {"switch only", no, yes, none, off, on, yes},
        {"root ports not readable, pass-through", none, no, no, off, off, no},
        {"root ports not readable, translating", none, no, yes, unknown, off, none},
        {"switch not readable, pass-through", yes, none, no, off, unknown, none},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto way = [&](unsigned root, unsigned device) {
            const auto at = [](unsigned bus, unsigned slot) {
                return detect::PciAddress{0, static_cast<std::uint8_t>(bus),
                                          static_cast<std::uint8_t>(slot), 0};
            };
            return std::optional<detect::AcsWay>(
                {{at(root + 2, device), false, row.port},  // the switch's port
                 {at(root + 1, 0), false, false},          // its upper port
                 {at(root, 1), true, row.root}});
        };
        const std::vector ways{way(0, 0), way(0, 1), way(0x80, 0)};
        const auto matrix = detect::acs_matrix(ways, row.iommu);
        CHECK(detect::acs_above(ways, row.iommu) == row.above);
        REQUIRE(matrix.size() == 3);
        CHECK(matrix[0] == std::vector{off, row.below, row.across});
        CHECK(matrix[2] == std::vector{row.across, row.across, off});
    }
}

TEST_CASE("a way that was not seen up to its root port is unknown") {
    const detect::AcsPort port{detect::PciAddress{0, 2, 0, 0}, false, false};
    const detect::AcsPort other{detect::PciAddress{0, 2, 1, 0}, false, false};
    const detect::AcsPort upper{detect::PciAddress{0, 1, 0, 0}, false, false};
    CHECK(detect::acs_between({port}, {other}, false) == unknown);
    CHECK(detect::acs_between({port, upper}, {other, upper}, false) == off);
    CHECK(detect::acs_matrix({detect::AcsWay{port}, detect::AcsWay{other}}, false).empty());
    CHECK(detect::acs_matrix({detect::AcsWay{port}, std::nullopt}, false).empty());
    CHECK_FALSE(detect::acs_above({std::nullopt, detect::AcsWay{}}, false));
}

TEST_CASE("a bridge with the space of plain PCI has no ACS") {
    const Switches machine;
    machine.tree.write("/sys/devices/" + machine.nic_port + "/config", std::string(256, '\0'));
    CHECK(detect_tree(machine.tree).gpu_nic_acs_redirect[0][1] == off);
    machine.tree.write("/sys/devices/" + machine.nic_port + "/config", std::string(255, '\0'));
    CHECK(detect_tree(machine.tree).gpu_nic_acs_redirect.empty());
}

TEST_CASE("without GPUs nothing is read of the bridges") {
    const Tree tree;
    tree.bridge("pci0000:00/0000:00:01.0");
    tree.write("/sys/devices/pci0000:00/0000:00:01.0/config", config(true));
    const Machine machine = detect_tree(tree);
    CHECK_FALSE(machine.software.acs_redirect);
    CHECK(machine.gpu_acs_redirect.empty());
    CHECK(machine.gpu_nic_acs_redirect.empty());
}

}  // namespace toporun::tests
