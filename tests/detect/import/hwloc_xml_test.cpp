#include <doctest/doctest.h>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

#include "base/error.hpp"
#include "detect/import/hwloc_document.hpp"
#include "detect/import/import.hpp"
#include "files.hpp"

using namespace toporun;
using namespace toporun::detect;

namespace {

std::string sample(const std::string& name) {
    return tests::read_file(std::filesystem::path(TOPORUN_TEST_DATA) / "detect/import/hwloc-xml" /
                            name);
}

Machine read(const std::string& text) {
    return import_captures(std::vector<Capture>{{"topo.xml", text}});
}

Error refused(const std::string& text) {
    try {
        read(text);
    } catch (const Error& error) {
        return error;
    }
    FAIL("understood");
    return Error("");
}

bool noted(const Machine& machine, const std::string& part) {
    return std::any_of(machine.notes.begin(), machine.notes.end(), [&](const std::string& note) {
        return note.find(part) != std::string::npos;
    });
}

std::string replaced(std::string text, const std::string& from, const std::string& to) {
    const std::size_t at = text.find(from);
    REQUIRE(at != std::string::npos);
    return text.replace(at, from.size(), to);
}

const Nic& nic_named(const Machine& machine, const std::string& name) {
    const auto found = std::find_if(machine.nics.begin(), machine.nics.end(),
                                    [&](const Nic& nic) { return nic.name == name; });
    REQUIRE(found != machine.nics.end());
    return *found;
}

}  // namespace

TEST_CASE("a topology of hwloc 2 gives processors, memory and host") {
    const Machine machine = read(sample("two-gpus.xml"));
    CHECK(machine.hostname == "node-b");
    CHECK(machine.vendor == "Example Inc.");
    CHECK(machine.product == "Two Sockets 1");
    CHECK(machine.software.kernel == "6.1.0-18-amd64");
    CHECK(machine.limits.memory_bytes == 3221225472u);
    const Cpu& cpu = machine.cpu;
    CHECK(cpu.vendor == "GenuineIntel");
    CHECK(cpu.model == "Intel(R) Xeon(R) Gold 6326 CPU @ 2.90GHz");
    CHECK(cpu.family == 6);
    CHECK(cpu.model_number == 106);
    CHECK(cpu.architecture == "x86_64");
    CHECK(cpu.packages == 2);
    REQUIRE(cpu.numa_nodes.size() == 2);
    CHECK(cpu.numa_nodes[1].cpus.text() == "2-3,6-7");
    CHECK(cpu.numa_nodes[1].memory_bytes == 2147483648u);
    // The rows of the file are those of node 1 and node 0.
    CHECK(cpu.numa_distances == std::vector<std::vector<int>>{{11, 20}, {21, 10}});
    REQUIRE(cpu.cores.size() == 4);
    CHECK(cpu.cores[1].pus.text() == "1,5");
    CHECK(cpu.cores[1].l3 == 0);
    CHECK(cpu.cores[3].package == 1);
    CHECK(cpu.cores[3].numa_node == 1);
    CHECK(cpu.cores[3].l3 == 1);
    CHECK(cpu.allowed.text() == "0-5");
}

TEST_CASE("a card with several OS devices is one GPU and a management controller is none") {
    const Machine machine = read(sample("two-gpus.xml"));
    CHECK(machine.gpus_known);
    REQUIRE(machine.gpus.size() == 2);
    const Gpu& gpu = machine.gpus[0];
    CHECK(gpu.name == "NVIDIA A100 80GB PCIe");
    CHECK(gpu.vendor == "nvidia");
    CHECK(gpu.pci->text() == "0000:18:00.0");
    CHECK(gpu.uuid == "GPU-11111111-2222-3333-4444-555555555555");
    CHECK(gpu.numa_node == 0);
    CHECK(gpu.cpus.text() == "0-1,4-5");
    CHECK(gpu.memory_bytes == 85899345920u);
    CHECK(machine.gpus[1].index == 1);
    CHECK(machine.gpus[1].numa_node == 1);
    CHECK(machine.gpu_links.empty());
    CHECK(noted(machine, "links between GPUs are not in the file"));
    CHECK(machine.gpu_paths == std::vector<std::vector<PathType>>{{PathType::LOC, PathType::SYS},
                                                                  {PathType::SYS, PathType::LOC}});
}

TEST_CASE("the interface and the RDMA device of a function are one NIC") {
    const Machine machine = read(sample("two-gpus.xml"));
    CHECK(machine.nics.size() == 3);
    const Nic& port = nic_named(machine, "ibs1");
    CHECK(port.kind == NicKind::ipoib);
    CHECK(port.rdma_device == "mlx5_0");
    CHECK(port.port == 1);
    CHECK(port.port_state == "active");
    CHECK(port.state == "unknown");
    CHECK(port.guid == "b8ce:f603:00d3:1ed8");
    CHECK(port.pci->text() == "0000:19:00.0");
    CHECK(port.numa_node == 0);
    REQUIRE(port.gids.size() == 1);
    CHECK(port.gids[0].address == "fe80::b8ce:f603:d3:1ed8");
    CHECK(nic_named(machine, "eno1").kind == NicKind::ethernet);
    CHECK(nic_named(machine, "docker0").kind == NicKind::bridge);
    CHECK(noted(machine, "speed, MTU, state and addresses"));
    const auto position = static_cast<std::size_t>(&port - machine.nics.data());
    REQUIRE(machine.gpu_nic_paths.size() == 2);
    CHECK(machine.gpu_nic_paths[0][position] == PathType::PIX);
    CHECK(machine.gpu_nic_paths[1][position] == PathType::SYS);
}

TEST_CASE("an interface on no PCI device is what its name tells") {
    struct Row {
        std::string name;
        NicKind kind;
        std::string parent = "";
    };
    for (const Row& row : std::vector<Row>{{"vxlan.calico", NicKind::tunnel},
                                           {"podman0", NicKind::bridge},
                                           {"br0", NicKind::bridge},
                                           {"cilium_host", NicKind::veth},
                                           {"bond0", NicKind::bond},
                                           {"bond0.100", NicKind::vlan, "bond0"},
                                           {"strange", NicKind::other}}) {
        CAPTURE(row.name);
        const Nic nic =
            nic_named(read(replaced(sample("two-gpus.xml"), "docker0", row.name)), row.name);
        CHECK(nic.kind == row.kind);
        CHECK(nic.parent == row.parent);
    }
}

TEST_CASE("a topology of hwloc 1 has NUMA nodes as levels and caches with a depth") {
    const Machine machine = read(sample("version-1.xml"));
    CHECK(machine.hostname == "old-node");
    CHECK(machine.cpu.packages == 2);
    REQUIRE(machine.cpu.numa_nodes.size() == 2);
    CHECK(machine.cpu.numa_nodes[0].cpus.text() == "0,2");
    CHECK(machine.cpu.numa_distances == std::vector<std::vector<int>>{{10, 21}, {20, 10}});
    REQUIRE(machine.cpu.cores.size() == 4);
    CHECK(machine.cpu.cores[2].l3 == 1);
    CHECK(machine.cpu.cores[2].numa_node == 1);
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].name == "Tesla K80");
    CHECK(machine.gpus[0].pci->text() == "0000:03:00.0");
    REQUIRE(machine.nics.size() == 2);
    CHECK(nic_named(machine, "eth2").port == 1);
    CHECK(nic_named(machine, "eth2").port_state == "active");
    CHECK(nic_named(machine, "eth3").port == 2);
    CHECK(nic_named(machine, "eth3").port_state == "down");
    CHECK(nic_named(machine, "eth3").kind == NicKind::roce);
}

TEST_CASE("a topology of hwloc 1 without a NUMA level has one node") {
    const Machine machine = read(
        "<topology>\n<object type=\"Machine\" cpuset=\"0x00000003\" local_memory=\"4096\">\n"
        "<object type=\"PU\" os_index=\"0\"/>\n<object type=\"PU\" os_index=\"1\"/>\n"
        "</object>\n</topology>\n");
    REQUIRE(machine.cpu.numa_nodes.size() == 1);
    CHECK(machine.cpu.numa_nodes[0].cpus.text() == "0-1");
    CHECK(machine.cpu.numa_nodes[0].memory_bytes == 4096u);
    CHECK(machine.cpu.cores.size() == 2);
    CHECK_FALSE(machine.gpus_known);
    CHECK_FALSE(machine.nics_known);
    CHECK(noted(machine, "holds no devices"));
}

TEST_CASE("bandwidths to switches in a topology of hwloc 3 are NVLinks of every pair") {
    const Machine machine = read(sample("version-3-switches.xml"));
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.hostname == "switch-node");
    CHECK(machine.cpu.architecture == "x86_64");
    // The driver's numbers order the GPUs, not the bus.
    CHECK(machine.gpus[0].pci->text() == "0000:02:00.0");
    CHECK(machine.nvswitch);
    CHECK(machine.gpu_links == std::vector<std::vector<int>>{{0, 6}, {6, 0}});
    REQUIRE_FALSE(machine.gpu_paths.empty());
    CHECK(machine.gpu_paths[0][1] == PathType::NVL);
    REQUIRE(machine.gpus[0].links.size() == 6);
    CHECK(machine.gpus[0].links[5].peer_kind == "switch");
    CHECK(machine.gpus[0].links[5].peer->text() == "0000:03:00.0");
    CHECK(machine.gpus[0].links[5].speed_gbytes_per_s == 25);
    const Nic& port = nic_named(machine, "enp4s0");
    CHECK(port.kind == NicKind::roce);
    CHECK(port.rdma_device == "mlx5_0");
    CHECK(port.port_state == "down");
}

TEST_CASE("bandwidths that are no whole number of links") {
    struct Row {
        std::string megabytes;
        int links;
        double gbytes_per_s;
    };
    const std::vector<Row> rows = {{"40000", 2, 20},   {"25000", 1, 25},    {"450000", 18, 25},
                                   {"900000", 18, 50}, {"1999999", 18, 50}, {"7", 1, 20}};
    for (const Row& row : rows) {
        CAPTURE(row.megabytes);
        std::string text = sample("version-3-switches.xml");
        for (int i = 0; i < 4; ++i) text = replaced(text, "150000", row.megabytes);
        const Machine machine = read(text);
        CHECK(machine.gpu_links[0][1] == row.links);
        REQUIRE_FALSE(machine.gpus[0].links.empty());
        CHECK(machine.gpus[0].links[0].speed_gbytes_per_s == row.gbytes_per_s);
    }
    const Machine none = read(replaced(sample("version-3-switches.xml"), "0 0 150000 0 0",
                                       "0 0 18446744073709551615 0 0"));
    CHECK(none.gpu_links[0][1] == 0);
}

TEST_CASE("xGMI links are the pairs of one hop, a graphics part without RSMI is left out") {
    const Machine machine = read(sample("xgmi.xml"));
    REQUIRE(machine.gpus.size() == 3);
    CHECK(machine.gpus[0].vendor == "amd");
    CHECK(machine.gpus[0].name == "Instinct MI300X");
    CHECK(machine.gpus[0].architecture == "gfx942");
    CHECK(machine.gpus[0].memory_bytes == 206141652992u);
    CHECK(machine.gpu_links == std::vector<std::vector<int>>{{0, 1, 0}, {1, 0, 1}, {0, 1, 0}});
    REQUIRE_FALSE(machine.gpu_paths.empty());
    CHECK(machine.gpu_paths[0][1] == PathType::NVL);
    CHECK(noted(machine, "0000:05:00.0 is no GPU of rsmi"));
    // PUs that stand in no Core are cores of their own.
    CHECK(machine.cpu.cores.size() == 2);
}

TEST_CASE("GPUs without a PCI device are counted once by number") {
    const Machine machine = read(sample("no-pci.xml"));
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].name == "Orin");
    CHECK(machine.gpus[0].memory_bytes == 1073741824u);
    CHECK(machine.gpus[1].index == 1);
    CHECK_FALSE(machine.gpus[0].pci);
    CHECK(nic_named(machine, "lo").kind == NicKind::loopback);
    CHECK(nic_named(machine, "eth0").kind == NicKind::ethernet);
}

TEST_CASE("a topology that is cut off gives what came before, and a note") {
    const std::string whole = sample("two-gpus.xml");
    for (std::size_t size = whole.find("<object type=\"Package\""); size < whole.size() - 12;
         size += 97) {
        CAPTURE(size);
        const Machine machine = read(whole.substr(0, size));
        CHECK(machine.hostname == "node-b");
        CHECK(noted(machine, "cut off"));
    }
}

TEST_CASE("a fault in the XML is named by line and column") {
    struct Row {
        std::string name, text, where;
    };
    const std::vector<Row> rows = {
        {"an end without a start", replaced(sample("xgmi.xml"), "<u64values length=\"18\">", ""),
         "topo.xml:35:"},
        {"an attribute without quotes",
         replaced(sample("two-gpus.xml"), "gp_index=\"7\"", "gp_index=7"), "topo.xml:19:"},
        {"a version of the future",
         replaced(sample("xgmi.xml"), "version=\"2.0\"", "version=\"9.1\""), "topo.xml:2:1"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Error error = refused(row.text);
        CAPTURE(error.where());
        CHECK(error.where().starts_with(row.where));
        CHECK_FALSE(error.hint().empty());
    }
}

TEST_CASE("hostile topologies are refused or read in bounds") {
    std::string deep = "<topology>\n<object type=\"Machine\">";
    for (int i = 0; i < 5000; ++i) deep += "<object type=\"Group\">";
    CHECK(std::string(refused(deep).what()).find("128 objects") != std::string::npos);

    // Numbers at and beyond every limit; a name that a terminal would act on.
    const Machine machine = read(
        "<topology version=\"2.0\">\n<object type=\"Machine\" os_index=\"99999999999\" "
        "cpuset=\"0xf...f\" nodeset=\",,,\">\n"
        "<object type=\"NUMANode\" os_index=\"4294967295\" cpuset=\"0xffffffff,zz\" "
        "local_memory=\"18446744073709551615\"/>\n"
        "<object type=\"PU\" os_index=\"-1\"/><object type=\"PU\" os_index=\"2147483647\"/>\n"
        "<object type=\"PCIDev\" pci_busid=\"zz:zz\" pci_type=\"0302 [10de:\">\n"
        "<object type=\"OSDev\" name=\"nvml99999999999\" osdev_type=\"1\"/>"
        "<object type=\"OSDev\" name=\"e\x1b]0;x\" osdev_type=\"2\"/></object>\n"
        "<distances2 name=\"NUMALatency\" indexing=\"os\"><u64values>18446744073709551615"
        "</u64values></distances2></object>\n</topology>\n");
    CHECK(machine.cpu.numa_nodes.size() == 1);
    for (const Nic& nic : machine.nics) CHECK(nic.name.find('\x1b') == std::string::npos);
}

TEST_CASE("bitmaps are read as hwloc writes them") {
    struct Row {
        std::string text;
        const char* list;  ///< nullptr: not a bitmap
    };
    const std::vector<Row> rows = {{"0x00000001", "0"},
                                   {"0x000000ff,0xffff0000,0x00ffffff", "0-23,48-71"},
                                   {"0x1,,0x0", "64"},
                                   {",,0x2", "1"},
                                   {"0x0", ""},
                                   {"", ""},
                                   {"0xf00000000f", "0-3,36-39"},
                                   {"0xf...f", nullptr},
                                   {"0xf...f,0x1", nullptr},
                                   {"0x123456789,0x1", nullptr},
                                   {"12", nullptr},
                                   {"0xg", nullptr},
                                   {std::string(3000, ','), nullptr},
                                   {"0x" + std::string(20000, '1'), nullptr}};
    for (const Row& row : rows) {
        CAPTURE(row.text);
        const auto set = read_bitmap(row.text);
        REQUIRE(set.has_value() == (row.list != nullptr));
        if (set) CHECK(set->text() == row.list);
    }
}

TEST_CASE("topologies among other text are found") {
    const Machine machine =
        read("$ lstopo --of xml\n" + sample("no-pci.xml") + "$ uptime\n up 3 days\n");
    CHECK(machine.gpus.size() == 2);
    CHECK(noted(machine, "not understood"));
    CHECK_THROWS_AS(read("<topology name=\"of another program\">\n<node/>\n</topology>\n"), Error);
}

TEST_CASE("saved topologies of other projects are read to the stated answers") {
    const std::filesystem::path folder = std::filesystem::path(TOPORUN_SHARED) / "data/hwloc-xml";
    if (!std::filesystem::is_directory(folder)) {
        MESSAGE("skipped: no " << folder.string());
        return;
    }
    struct Row {
        std::string file;
        std::size_t gpus;
        int packages;
        std::vector<int> numa_of_gpus;
        PathType first_pair;  ///< of GPU 0 and 1
    };
    const std::vector<Row> rows = {
        {"nvidia-dgx2-distances.xml", 16, 2, std::vector<int>(8, 0), PathType::NVL},
        {"power9-4v100.xml", 4, 2, {0, 0, 8, 8}, PathType::PIX},
        {"epyc-8mi50.xml", 4, 2, {1, 2, 5, 7}, PathType::SYS},
        {"aws-g4dn-metal-8t4.xml", 8, 2, {0, 0, 0, 0, 1, 1, 1, 1}, PathType::PHB},
        {"power9-sierra-4v100.xml", 4, 2, {0, 0, 8, 8}, PathType::PHB},
        {"prrte-test-topo2.xml", 1, 1, {3}, PathType::LOC},
        {"epyc-corona-p2.xml", 8, 2, {0, 0, 0, 0, 1, 1, 1, 1}, PathType::PHB},
    };
    for (const Row& row : rows) {
        CAPTURE(row.file);
        const Machine machine = read(tests::read_file(folder / row.file));
        REQUIRE(machine.gpus.size() == row.gpus);
        CHECK(machine.cpu.packages == row.packages);
        for (std::size_t i = 0; i < row.numa_of_gpus.size(); ++i) {
            CAPTURE(i);
            CHECK(machine.gpus[i].numa_node == row.numa_of_gpus[i]);
        }
        REQUIRE(machine.gpu_paths.size() == row.gpus);
        if (row.gpus > 1) CHECK(machine.gpu_paths[0][1] == row.first_pair);
    }
}
