#include "detect/pci/pci.hpp"

#include <sys/stat.h>

#include <algorithm>

#include "detect/gpu/gpu_links.hpp"
#include "detect/software/platform.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Machine;
using detect::PathType;

constexpr PathType L = PathType::LOC, X = PathType::PIX, B = PathType::PXB, H = PathType::PHB,
                   S = PathType::SYS;

/// A switch below a root port: root port, upstream port, downstream ports.
std::string add_switch(const Tree& tree, const std::string& host, const std::string& root_port,
                       const std::string& upstream) {
    tree.bridge(host + "/" + root_port);
    tree.bridge(host + "/" + root_port + "/" + upstream);
    return host + "/" + root_port + "/" + upstream;
}

std::string add_port(const Tree& tree, const std::string& above, const std::string& port) {
    tree.bridge(above + "/" + port);
    return above + "/" + port;
}

/// Four GPUs and an adapter below two switches of one package, two switches in cascade on the
/// other.
void four_pcie_gpus(const Tree& tree) {
    const auto a = add_switch(tree, "pci0000:00", "0000:00:01.0", "0000:01:00.0");
    tree.gpu(add_port(tree, a, "0000:02:00.0") + "/0000:03:00.0", 0);
    tree.gpu(add_port(tree, a, "0000:02:01.0") + "/0000:04:00.0", 0);
    tree.pci(add_port(tree, a, "0000:02:02.0") + "/0000:05:00.0", "0x020700", "0x15b3", 0);
    const auto b = add_switch(tree, "pci0000:80", "0000:80:01.0", "0000:81:00.0");
    tree.gpu(add_port(tree, b, "0000:82:00.0") + "/0000:83:00.0", 1);
    const auto c = add_port(tree, add_port(tree, b, "0000:82:01.0"), "0000:84:00.0");
    tree.gpu(add_port(tree, c, "0000:85:00.0") + "/0000:86:00.0", 1);
}

}  // namespace

TEST_CASE("four PCIe GPUs below switches get NCCL's paths") {
    const Tree tree;
    four_pcie_gpus(tree);
    tree.write("/proc/driver/nvidia/version",
               "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue Mar  5\n");
    tree.write("/proc/driver/nvidia/gpus/0000:03:00.0/information",
               "Model: \t\t NVIDIA L40S\nGPU UUID: \t GPU-1111\nBus Location: \t 0000:03:00.0\n");
    tree.write(
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
        "max_link_speed",
        "16.0 GT/s PCIe\n");
    tree.write(
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
        "max_link_width",
        "16\n");
    tree.write(
        "/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/0000:02:00.0/0000:03:00.0/"
        "local_cpulist",
        "0-3,8-11\n");
    tree.write("/sys/bus/pci/devices/0000:03:00.0/device", "0x26b9\n");
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 4);
    CHECK(machine.gpus[0].pci_id == "10de:26b9");
    CHECK(machine.gpus[1].pci_id.empty());
    CHECK(machine.gpu_paths == std::vector<std::vector<PathType>>{
                                   {L, X, S, S}, {X, L, S, S}, {S, S, L, B}, {S, S, B, L}});
    CHECK(machine.gpu_links.empty());
    CHECK(machine.software.driver == "550.54.15");
    CHECK(machine.gpus[0].name == "NVIDIA L40S");
    CHECK(machine.gpus[0].uuid == "GPU-1111");
    CHECK(machine.gpus[0].pcie_generation == 4);
    CHECK(machine.gpus[0].pcie_width == 16);
    CHECK(machine.gpus[0].cpus.text() == "0-3,8-11");
    CHECK(machine.gpus[1].name == "");
    CHECK(machine.gpus[3].numa_node == 1);
    CHECK(has_note(machine, "/dev/nvidiactl is missing"));
}

TEST_CASE("the adapter's paths follow the same rules") {
    const Tree tree;
    four_pcie_gpus(tree);
    tree.interface("ib0", 2, 32);
    tree.link("/sys/class/net/ib0/device", "../../../bus/pci/devices/0000:05:00.0");
    tree.interface("lo", 1, 772);
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.nics.size() == 2);
    CHECK(machine.nics[1].pci->text() == "0000:05:00.0");
    CHECK(machine.nics[1].numa_node == 0);
    REQUIRE(machine.gpu_nic_paths.size() == 4);
    CHECK(machine.gpu_nic_paths[0][1] == X);
    CHECK(machine.gpu_nic_paths[2][1] == S);
    CHECK_FALSE(machine.gpu_nic_paths[0][0]);
}

TEST_CASE("paths without a switch follow the NUMA node, and unknown nodes are one") {
    struct Row {
        std::string name;
        const char* a;
        int node_a;
        const char* b;
        int node_b;
        PathType path;
    };
    const Row rows[] = {
        {"one host bridge", "pci0000:00/0000:00:04.0", -1, "pci0000:00/0000:00:05.0", -1, H},
        {"two root ports", "pci0000:00/0000:00:01.0/0000:01:00.0", 0,
         "pci0000:00/0000:00:02.0/0000:02:00.0", 0, H},
        {"two bridges, one node", "pci0000:00/0000:00:04.0", 0, "pci0000:40/0000:40:04.0", 0, H},
        {"two nodes", "pci0000:00/0000:00:04.0", 0, "pci0000:40/0000:40:04.0", 1, S},
        {"one node unknown", "pci0000:00/0000:00:04.0", 0, "pci0000:40/0000:40:04.0", -1, S},
        {"both unknown", "pci0000:00/0000:00:04.0", -1, "pci0000:40/0000:40:04.0", -1, H},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.gpu(row.a, row.node_a);
        tree.gpu(row.b, row.node_b);
        const Machine machine = detect_tree(tree);
        REQUIRE(machine.gpu_paths.size() == 2);
        CHECK(machine.gpu_paths[0][1] == row.path);
        CHECK(machine.gpu_paths[1][0] == row.path);
    }
}

TEST_CASE("two levels of a Broadcom switch count as one") {
    struct Row {
        std::string upper;
        PathType expected;
    };
    for (const Row& row : {Row{"0x0072", X}, Row{"0x100b", B}}) {
        CAPTURE(row.upper);
        const Tree tree;
        const auto top = add_switch(tree, "pci0000:00", "0000:00:01.0", "0000:01:00.0");
        const auto ids = [&](const std::string& path, const std::string& subsystem) {
            tree.write("/sys/devices/" + path + "/vendor", "0x1000\n");
            tree.write("/sys/devices/" + path + "/device", "0xc030\n");
            tree.write("/sys/devices/" + path + "/subsystem_vendor", "0x1000\n");
            tree.write("/sys/devices/" + path + "/subsystem_device", subsystem + "\n");
        };
        ids(top, row.upper);
        for (const std::string n : {"1", "2"}) {
            const auto port = add_port(tree, top, "0000:02:0" + n + ".0");
            const auto low = add_port(tree, port, "0000:1" + n + ":00.0");
            ids(low, "0x1003");
            tree.gpu(add_port(tree, low, "0000:2" + n + ":00.0") + "/0000:3" + n + ":00.0", 0);
        }
        const Machine machine = detect_tree(tree);
        REQUIRE(machine.gpu_paths.size() == 2);
        CHECK(machine.gpu_paths[0][1] == row.expected);
    }
}

TEST_CASE("only GPUs are listed, AMD's where there is none of NVIDIA") {
    const Tree tree;
    tree.pci("pci0000:00/0000:00:02.0", "0x030000", "0x1a03");  // a BMC's display
    tree.pci("pci0000:00/0000:00:03.0", "0x020000", "0x10de");
    tree.pci("pci0000:00/0000:00:04.0", "0x120000", "0x1002");
    CHECK(detect_tree(tree).gpus.at(0).vendor == "amd");
    CHECK(detect_tree(tree).gpus.size() == 1);
    tree.pci("pci0000:00/0000:00:05.0", "0x030000", "0x10de");
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].vendor == "nvidia");
    CHECK(machine.gpus[0].index == 0);
}

TEST_CASE("odd files in place of facts are as good as missing") {
    const Tree tree;
    tree.gpu("pci0000:00/0000:00:04.0", 0);
    const std::string gpu = "/sys/devices/pci0000:00/0000:00:04.0";
    tree.write(gpu + "/numa_node", "99999999999999999999\n");
    tree.write(gpu + "/local_cpulist", "0-3,garbage\x1b[31m\n");
    tree.write(gpu + "/max_link_speed", "");
    tree.directory(gpu + "/max_link_width");
    tree.write("/proc/driver/nvidia/version", "\xff\xfe\n");
    tree.directory("/proc/driver/nvidia/gpus/0000:00:04.0/information");
    tree.directory("/sys/bus/pci/devices/0000:00:06.0/class");
    tree.write("/sys/bus/pci/devices/0000:00:07.0/class", "0xzz\n");
    tree.write("/sys/bus/pci/devices/not-an-address/class", "0x030200\n");
    tree.link("/sys/bus/pci/devices/0000:00:08.0", "0000:00:08.0");
    tree.link("/sys/bus/pci/devices/0000:00:09.0", "/proc/self");
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 1);
    CHECK_FALSE(machine.gpus[0].numa_node);
    CHECK(machine.gpus[0].cpus.empty());
    CHECK_FALSE(machine.gpus[0].pcie_generation);
    CHECK_FALSE(machine.gpus[0].pcie_width);
    CHECK_FALSE(machine.software.driver);
}

TEST_CASE("a tree never answers with files outside of it") {
    const Tree tree;
    const TemporaryDirectory outside;
    outside.write("secret", "secret\n");
    tree.link("/sys/inside", "target");
    tree.write("/sys/target", " value \n second\n");
    tree.link("/sys/outside", (outside.path() / "secret").string());
    const detect::Files files(tree.root());
    CHECK(files.line("/sys/inside") == "value");
    CHECK_FALSE(files.read("/sys/outside"));
    CHECK_FALSE(files.exists("/../../../../../../etc/passwd"));
    CHECK(files.real_path("/sys/inside") == "/sys/target");
    CHECK(files.list("/sys") == std::vector<std::string>{"inside", "outside", "target"});
    CHECK(files.list("/none").empty());
    CHECK(files.read("/sys/target", 3) == " va");
    CHECK_FALSE(files.read("relative"));
}

TEST_CASE("a FIFO in place of a file does not block") {
    const Tree tree;
    tree.directory("/proc");
    REQUIRE(mkfifo((tree.root() + "/proc/cpuinfo").c_str(), 0600) == 0);
    CHECK_FALSE(detect::Files(tree.root()).read("/proc/cpuinfo"));
}

TEST_CASE("ACS redirect is read from the bridges above a GPU where root can") {
    const auto config = [](unsigned char control) {
        std::string bytes(512, '\0');
        bytes[0x100] = 0x01;  // another capability first, the next one at 0x148
        bytes[0x102] = '\x81';
        bytes[0x103] = 0x14;
        bytes[0x148] = 0x0d;
        bytes[0x14a] = 0x01;
        bytes[0x14e] = static_cast<char>(control);
        return bytes;
    };
    struct Row {
        std::string name;
        std::string config;
        std::optional<bool> expected;
    };
    const Row rows[] = {
        {"redirect", config(0x1d), true},
        {"no redirect", config(0x10), false},
        {"no ACS", std::string(512, '\0'), false},
        {"first 64 bytes only", std::string(64, '\x11'), std::nullopt},
        {"device gone", std::string(4096, '\xff'), std::nullopt},
        {"cut short", std::string("\x02\x00\x01\x10", 4), std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.bridge("pci0000:00/0000:00:01.0");
        tree.write("/sys/devices/pci0000:00/0000:00:01.0/config", row.config);
        tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", 0);
        tree.write("/sys/devices/pci0000:00/0000:00:01.0/0000:01:00.0/iommu_group/type", "DMA\n");
        CHECK(detect_tree(tree).software.acs_redirect == row.expected);
    }
}

TEST_CASE("ACS redirect of a pair is that of the two ports where the ways part") {
    const auto config = [](bool redirects) {
        std::string bytes(512, '\0');
        bytes[0x100] = 0x0d;
        bytes[0x106] = redirects ? 0x0c : 0;
        return bytes;
    };
    // GPUs 0 and 1 below one switch, 2 below a switch of its own, 3 and 4 in cascade.
    const std::string root_a = "pci0000:00/0000:00:01.0", up_a = root_a + "/0000:01:00.0";
    const std::string root_b = "pci0000:80/0000:80:01.0", up_b = root_b + "/0000:81:00.0";
    const std::string port_a = up_a + "/0000:02:00.0", port_b = up_b + "/0000:82:01.0";
    const std::string inner_up = port_b + "/0000:84:00.0";
    const std::string inner_port = inner_up + "/0000:85:00.0";
    constexpr auto on = detect::AcsRedirect::on, off = detect::AcsRedirect::off,
                   unknown = detect::AcsRedirect::unknown;
    struct Row {
        std::string name;
        std::vector<std::string> redirecting;
        std::vector<std::string> unreadable;
        detect::AcsRedirect siblings, cascade, across;  ///< 0 and 1, 2 and 3, 0 and 2
    };
    const Row rows[] = {
        {"none", {}, {}, off, off, off},
        {"root ports, the IOMMU unknown", {root_a, root_b}, {}, off, off, unknown},
        {"port of one GPU", {port_a}, {}, on, off, off},
        {"port above the inner switch", {port_b}, {}, off, on, off},
        {"upstream ports", {up_a, up_b, inner_up}, {}, off, off, off},
        {"port below the inner switch", {inner_port}, {}, off, off, off},
        {"one port not readable", {}, {port_a}, unknown, off, off},
        {"one of two ports is enough", {up_a + "/0000:02:01.0"}, {port_a}, on, off, off},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.bridge(root_a), tree.bridge(up_a), tree.bridge(root_b), tree.bridge(up_b);
        tree.gpu(add_port(tree, up_a, "0000:02:00.0") + "/0000:03:00.0", 0);
        tree.gpu(add_port(tree, up_a, "0000:02:01.0") + "/0000:04:00.0", 0);
        tree.gpu(add_port(tree, up_b, "0000:82:00.0") + "/0000:83:00.0", 1);
        tree.bridge(port_b), tree.bridge(inner_up);
        tree.gpu(add_port(tree, inner_up, "0000:85:00.0") + "/0000:86:00.0", 1);
        const auto is_in = [](const std::vector<std::string>& list, const std::string& bridge) {
            return std::find(list.begin(), list.end(), bridge) != list.end();
        };
        for (const std::string& bridge :
             {root_a, up_a, port_a, up_a + "/0000:02:01.0", root_b, up_b, port_b,
              up_b + "/0000:82:00.0", inner_up, inner_port})
            if (!is_in(row.unreadable, bridge))
                tree.write("/sys/devices/" + bridge + "/config",
                           config(is_in(row.redirecting, bridge)));
        const auto matrix = detect_tree(tree).gpu_acs_redirect;
        REQUIRE(matrix.size() == 4);
        CHECK(matrix[0][0] == off);
        CHECK(matrix[0][1] == row.siblings);
        CHECK(matrix[1][0] == row.siblings);
        CHECK(matrix[2][3] == row.cascade);
        CHECK(matrix[0][2] == row.across);
    }
}

TEST_CASE("where no port can be read there is no matrix of ACS redirect") {
    const Tree tree;
    four_pcie_gpus(tree);
    CHECK(detect_tree(tree).gpu_acs_redirect.empty());
}

TEST_CASE("an extended capability list that loops ends") {
    const Tree tree;
    tree.bridge("pci0000:00/0000:00:01.0");
    std::string bytes(512, '\0');
    bytes[0x100] = 0x02;
    bytes[0x102] = 0x01;
    bytes[0x103] = 0x10;  // next is 0x100 again
    tree.write("/sys/devices/pci0000:00/0000:00:01.0/config", bytes);
    tree.gpu("pci0000:00/0000:00:01.0/0000:01:00.0", 0);
    CHECK(detect_tree(tree).software.acs_redirect == false);
}

}  // namespace toporun::tests
