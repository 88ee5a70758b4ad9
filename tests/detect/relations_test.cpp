#include "detect/network/relations.hpp"

#include "detect/network/network.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Nic;
using detect::NicKind;

Nic nic_of(const Tree& tree, const std::string& name) {
    std::vector<std::string> notes;
    detect::PciTree pci{detect::Files(tree.root())};
    for (const Nic& nic : detect::detect_nics(pci, false, {}, notes))
        if (nic.name == name) return nic;
    FAIL("no interface " << name);
    return {};
}

}  // namespace

TEST_CASE("members of bonds and bridges name their master") {
    const Tree tree;
    tree.interface("bond0", 4, 1, {{"bonding/mode", "x"}});
    tree.interface("eth0", 2, 1, {{"device/vendor", "0x15b3\n"}});
    tree.interface("eth1", 3, 1, {{"device/vendor", "0x15b3\n"}});
    tree.link("/sys/class/net/eth0/master", "../bond0");
    tree.link("/sys/class/net/eth1/master", "../../../../../outside");
    CHECK(nic_of(tree, "eth0").master == "bond0");
    CHECK(nic_of(tree, "eth1").master.empty());
    CHECK(nic_of(tree, "bond0").master.empty());
    CHECK(nic_of(tree, "bond0").parent.empty());
}

TEST_CASE("the interface below comes from the link, from procfs or from the number") {
    struct Row {
        std::string name;
        NicKind kind;
        int type;
        std::vector<std::pair<std::string, std::string>> files;
        const char* vlan;
        const char* parent;
    };
    const Row rows[] = {
        {"eth0.7",
         NicKind::vlan,
         1,
         {{"uevent", "DEVTYPE=vlan\n"}, {"lower_eth0/x", ""}},
         "",
         "eth0"},
        {"v8", NicKind::vlan, 1, {}, "v8  VID: 8\t REORDER_HDR: 1\nDevice: eth0\n", "eth0"},
        {"v9", NicKind::vlan, 1, {{"uevent", "DEVTYPE=vlan\n"}, {"iflink", "2\n"}}, "", "eth0"},
        {"odd", NicKind::vlan, 1, {}, "Device: ../../etc\n", ""},
        {"gone", NicKind::vlan, 1, {{"uevent", "DEVTYPE=vlan\n"}, {"iflink", "77\n"}}, "", ""},
        {"gre1", NicKind::tunnel, 778, {{"iflink", "2\n"}}, "", "eth0"},
        {"tun0", NicKind::tunnel, 65534, {{"tun_flags", "0x1\n"}}, "", ""},
        {"mac0",
         NicKind::ethernet,
         1,
         {{"uevent", "DEVTYPE=macvlan\n"}, {"iflink", "2\n"}},
         "",
         "eth0"},
        {"ib0.8001", NicKind::ipoib, 32, {{"parent", "ib0\n"}, {"iflink", "2\n"}}, "", "ib0"},
        {"veth1", NicKind::veth, 1, {{"iflink", "2\n"}}, "", ""},
        {"two",
         NicKind::tunnel,
         1,
         {{"uevent", "DEVTYPE=vxlan\n"}, {"lower_a/x", ""}, {"lower_b/x", ""}},
         "",
         ""},
        {"card", NicKind::ethernet, 1, {{"device/vendor", "0x1\n"}, {"lower_eth0/x", ""}}, "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.interface("eth0", 2, 1, {{"device/vendor", "0x15b3\n"}});
        tree.interface(row.name, 5, row.type, row.files);
        if (row.vlan[0] != '\0') tree.write("/proc/net/vlan/" + row.name, row.vlan);
        const Nic nic = nic_of(tree, row.name);
        CHECK(nic.kind == row.kind);
        CHECK(nic.parent == row.parent);
    }
}

TEST_CASE("a virtual function is known by its physical function, its driver or its id") {
    struct Row {
        std::string name;
        std::vector<std::pair<std::string, std::string>> files;
        bool is_virtual;
        NicKind kind;
    };
    const Row rows[] = {
        {"with its physical function", {{"physfn/vendor", "0x15b3\n"}}, true, NicKind::vf},
        {"Mellanox id in a guest",
         {{"vendor", "0x15b3\n"}, {"device", "0x1018\n"}},
         true,
         NicKind::ethernet},
        {"physical card",
         {{"vendor", "0x15b3\n"}, {"device", "0x1017\n"}},
         false,
         NicKind::ethernet},
        {"same id of another vendor",
         {{"vendor", "0x8086\n"}, {"device", "0x1018\n"}},
         false,
         NicKind::ethernet},
        {"driver of virtual functions",
         {{"uevent", "DRIVER=iavf\nPCI_CLASS=20000\n"}},
         true,
         NicKind::ethernet},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        std::vector<std::pair<std::string, std::string>> files;
        for (const auto& [name, text] : row.files) files.emplace_back("device/" + name, text);
        tree.interface("eth5", 5, 1, files);
        const Nic nic = nic_of(tree, "eth5");
        CHECK(nic.virtual_function == row.is_virtual);
        CHECK(nic.kind == row.kind);
    }
}

TEST_CASE("a driver's name comes from its link, else from uevent, safe to print") {
    const Tree tree;
    tree.directory("/sys/bus/pci/drivers/ena");
    tree.link("/sys/devices/a/driver", "../../bus/pci/drivers/ena");
    tree.write("/sys/devices/b/uevent", "MODALIAS=x\nDRIVER=gve\n");
    tree.write("/sys/devices/c/uevent", "DRIVER=\x1b[31m\xff\n");
    const detect::Files files(tree.root());
    CHECK(detect::driver_of(files, "/sys/devices/a") == "ena");
    CHECK(detect::driver_of(files, "/sys/devices/b") == "gve");
    CHECK(detect::driver_of(files, "/sys/devices/c") == "\\x1b[31m\\xff");
    CHECK(detect::driver_of(files, "/sys/devices/d").empty());
}

}  // namespace toporun::tests
