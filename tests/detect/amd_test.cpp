#include <fmt/format.h>

#include <string>
#include <vector>

#include "detect/gpu/kfd.hpp"
#include "detect/machine_toml.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::PathType;

const std::string kNodes = "/sys/devices/virtual/kfd/kfd/topology/nodes/";

void kfd_class(const Tree& tree) {
    tree.link("/sys/class/kfd/kfd", "../../devices/virtual/kfd/kfd");
}

void cpu_node(const Tree& tree, int number) {
    tree.write(kNodes + std::to_string(number) + "/properties",
               "cpu_cores_count 64\nsimd_count 0\nmem_banks_count 1\n");
}

std::string gpu_properties(int bus, int partition = 0) {
    return fmt::format(
        "cpu_cores_count 0\nsimd_count 1216\nmem_banks_count 1\ngfx_target_version 90402\n"
        "vendor_id 4098\ndevice_id 29857\nlocation_id {}\ndomain 0\ndrm_render_minor 128\n"
        "unique_id {}\n",
        (static_cast<std::uint64_t>(partition) << 28) + static_cast<std::uint64_t>(bus << 8),
        0xabc0 + bus);
}

void gpu_node(const Tree& tree, int number, int bus, int partition = 0) {
    const std::string node = kNodes + std::to_string(number);
    tree.write(node + "/properties", gpu_properties(bus, partition));
    tree.write(node + "/mem_banks/0/properties",
               "heap_type 1\nsize_in_bytes 206141652992\nflags 0\n");
}

void io_link(const Tree& tree, int from, int entry, int to, int type, int weight, int least = 0,
             int most = 0) {
    tree.write(kNodes + fmt::format("{}/io_links/{}/properties", from, entry),
               fmt::format("type {}\nversion_major 0\nnode_from {}\nnode_to {}\nweight {}\n"
                           "min_bandwidth {}\nmax_bandwidth {}\n",
                           type, from, to, weight, least, most));
}

std::string bus_path(int bus) {
    return fmt::format("pci0000:00/0000:00:{:02x}.0/0000:{:02x}:00.0", bus % 32, bus);
}

void bus_gpu(const Tree& tree, int bus, int numa_node) {
    const std::string path = bus_path(bus);
    tree.bridge(path.substr(0, path.rfind('/')));
    tree.pci(path, "0x120000", "0x1002", numa_node);
    const std::string at = "/sys/devices/" + path;
    tree.write(at + "/max_link_speed", "32.0 GT/s PCIe\n");
    tree.write(at + "/max_link_width", "16\n");
    tree.write(at + "/current_link_speed", "32.0 GT/s PCIe\n");
    tree.write(at + "/current_link_width", "16\n");
    tree.write(at + "/mem_info_vram_total", "206141652992\n");
    tree.write(at + "/mem_info_vram_used", "297795584\n");
    tree.write(at + "/local_cpulist", "0-3\n");
}

/// Two CPU nodes, then `count` GPUs with one xGMI link between each two of them.
void hive(const Tree& tree, int count) {
    kfd_class(tree);
    cpu_node(tree, 0);
    cpu_node(tree, 1);
    for (int i = 0; i < count; ++i) {
        bus_gpu(tree, 0x10 + i, i / 4);
        gpu_node(tree, 2 + i, 0x10 + i);
        io_link(tree, 2 + i, 0, i / 4, 2, 20, 312, 64000);
        for (int j = 0, entry = 1; j < count; ++j)
            if (i != j) io_link(tree, 2 + i, entry++, 2 + j, 11, 15, 50000, 50000);
    }
}

}  // namespace

TEST_CASE("eight AMD GPUs of one hive are linked each with each") {
    const Tree tree;
    hive(tree, 8);
    tree.write("/sys/devices/" + bus_path(0x10) + "/product_name", "AMD Instinct MI300X OAM\n");
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 8);
    const Gpu& gpu = machine.gpus[0];
    CHECK(gpu.index == 0);
    CHECK(gpu.vendor == "amd");
    CHECK(gpu.name == "AMD Instinct MI300X OAM");
    CHECK(machine.gpus[1].name == "AMD Instinct MI300X");  // by its device id
    CHECK(gpu.architecture == "gfx942");
    CHECK(gpu.pci->text() == "0000:10:00.0");
    CHECK(gpu.uuid == "GPU-000000000000abd0");
    CHECK(gpu.memory_bytes == 206141652992);
    CHECK(gpu.memory_used_bytes == 297795584);
    CHECK(gpu.numa_node == 0);
    CHECK(machine.gpus[7].numa_node == 1);
    CHECK(gpu.cpus.text() == "0-3");
    CHECK(gpu.pcie_generation == 5);
    CHECK(gpu.pcie_generation_now == 5);
    CHECK(gpu.pcie_width == 16);
    CHECK(gpu.pcie_width_now == 16);
    REQUIRE(gpu.links.size() == 7);
    CHECK(gpu.links[6].peer_kind == "gpu");
    CHECK(gpu.links[6].peer->text() == "0000:17:00.0");
    CHECK(gpu.links[6].speed_gbytes_per_s == 50.0);
    for (std::size_t a = 0; a < 8; ++a)
        for (std::size_t b = 0; b < 8; ++b) {
            CHECK(machine.gpu_links[a][b] == (a == b ? 0 : 1));
            CHECK(machine.gpu_paths[a][b] == (a == b ? PathType::LOC : PathType::NVL));
        }
    for (const char* word : {"GPU", "KFD", "PCIe"}) CHECK_FALSE(has_note(machine, word));
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("AMD GPUs come in KFD's order and not in that of the bus") {
    const Tree tree;
    kfd_class(tree);
    for (const int bus : {0x10, 0x11, 0x12}) bus_gpu(tree, bus, 0);
    gpu_node(tree, 2, 0x12);
    gpu_node(tree, 10, 0x11);  // after 9, whatever the letters say
    gpu_node(tree, 9, 0x10);
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 3);
    CHECK(machine.gpus[0].pci->text() == "0000:12:00.0");
    CHECK(machine.gpus[1].pci->text() == "0000:10:00.0");
    CHECK(machine.gpus[2].pci->text() == "0000:11:00.0");
    CHECK(machine.gpus[2].index == 2);
    CHECK(machine.gpu_links == std::vector(3, std::vector(3, 0)));
    CHECK(machine.gpu_paths.at(0).at(1) == PathType::PHB);
}

TEST_CASE("the number of xGMI links is that of the bandwidth and far GPUs have none") {
    struct Row {
        std::string name;
        detect::KfdLink link;
        int links;
    };
    const Row rows[] = {
        {"one", {11, 3, 15, 50000, 50000}, 1},
        {"four in a package", {11, 3, 15, 50000, 200000}, 4},
        {"old kernel", {11, 3, 15, 0, 0}, 1},
        {"no weight", {11, 3, 0, 0, 0}, 1},
        {"two hops", {11, 3, 30, 50000, 0}, 0},
        {"PCIe", {2, 3, 20, 312, 64000}, 0},
        {"odd", {11, 3, 15, 50000, 60000}, 1},
        {"huge", {11, 3, 15, 1, UINT64_MAX}, 16},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(detect::xgmi_links(row.link) == row.links);
    }
    const Tree tree;
    kfd_class(tree);
    gpu_node(tree, 1, 0x10);
    gpu_node(tree, 2, 0x11);
    io_link(tree, 1, 0, 2, 11, 15, 50000, 200000);
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpu_links[0][1] == 4);
    CHECK(machine.gpu_links[1][0] == 4);  // one end is enough
    CHECK(machine.gpus[0].links.size() == 4);
    CHECK(machine.gpus[0].links[0].speed_gbytes_per_s == 50.0);
}

TEST_CASE("a link to a CPU is one of the GPU and of no pair") {
    const Tree tree;
    kfd_class(tree);
    cpu_node(tree, 0);
    gpu_node(tree, 1, 0x10);
    io_link(tree, 1, 0, 0, 11, 15, 50000, 50000);
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 1);
    REQUIRE(machine.gpus[0].links.size() == 1);
    CHECK(machine.gpus[0].links[0].peer_kind == "cpu");
    CHECK_FALSE(machine.gpus[0].links[0].peer);
    CHECK(machine.gpu_links == std::vector(1, std::vector(1, 0)));
}

TEST_CASE("partitions of one GPU have addresses of their own") {
    const Tree tree;
    kfd_class(tree);
    bus_gpu(tree, 0x10, 1);
    for (int i = 0; i < 8; ++i) gpu_node(tree, 1 + i, 0x10, i);
    gpu_node(tree, 9, 0x10, 8);  // more than a device has functions
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 9);
    CHECK(machine.gpus[0].pci->text() == "0000:10:00.0");
    CHECK(machine.gpus[7].pci->text() == "0000:10:00.7");
    CHECK_FALSE(machine.gpus[8].pci);
    CHECK(machine.gpus[7].numa_node == 1);
    CHECK_FALSE(machine.gpus[7].memory_used_bytes);
    CHECK_FALSE(has_note(machine, "KFD does not show"));
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

TEST_CASE("GPUs that KFD hides are noted and not invented") {
    const Tree tree;
    kfd_class(tree);
    cpu_node(tree, 0);
    bus_gpu(tree, 0x10, 0);
    bus_gpu(tree, 0x11, 0);
    gpu_node(tree, 1, 0x10);
    tree.directory(kNodes + "2");  // properties cannot be read
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 1);
    CHECK(has_note(machine, "KFD keeps 1 of its nodes from this process"));
    CHECK(machine.software.gpus_withheld == 1);
    CHECK(has_note(machine, "GPU 0000:11:00.0 is on the PCI bus but KFD does not show it"));
    CHECK_FALSE(has_note(machine, "NVML"));
}

TEST_CASE("AMD GPUs without KFD are those of the bus") {
    const Tree tree;
    bus_gpu(tree, 0x11, 0);
    bus_gpu(tree, 0x10, 0);
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].pci->text() == "0000:10:00.0");
    CHECK(machine.gpus[0].vendor == "amd");
    CHECK(machine.gpus[0].pcie_width_now == 16);
    CHECK(has_note(machine, "AMD GPUs without KFD"));
    CHECK_FALSE(has_note(machine, "/dev/kfd"));  // a capture of /sys says nothing of /dev
}

TEST_CASE("a missing device of KFD is noted where there is a dev directory") {
    const Tree tree;
    hive(tree, 2);
    tree.directory("/dev");
    CHECK(has_note(detect_tree(tree), "/dev/kfd is missing"));
    tree.write("/dev/kfd", "");
    CHECK_FALSE(has_note(detect_tree(tree), "/dev/kfd"));
}

TEST_CASE("KFD is found by the directory of its device alone and a machine of CPUs has no GPU") {
    const Tree tree;
    cpu_node(tree, 0);
    CHECK(detect_tree(tree).gpus.empty());
    CHECK_FALSE(has_note(detect_tree(tree), "KFD"));
    gpu_node(tree, 1, 0x10);
    CHECK(detect_tree(tree).gpus.size() == 1);
}

TEST_CASE("a lone GPU of KFD has memory and name from its render node") {
    const Tree tree;
    kfd_class(tree);
    tree.write(kNodes + "1/properties", gpu_properties(0x10));
    const std::string device = "/sys/class/drm/renderD128/device";
    tree.write(device + "/mem_info_vram_total", "1000\n");
    tree.write(device + "/mem_info_vram_used", "2000\n");
    tree.write(device + "/product_name", "\x1b[31mCard\n");
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 1);
    CHECK(machine.gpus[0].memory_bytes == 1000);
    CHECK_FALSE(machine.gpus[0].memory_used_bytes);  // more than there is
    CHECK(machine.gpus[0].name == "\\x1b[31mCard");
}

TEST_CASE("odd trees of KFD are read as far as they make sense") {
    const Tree tree;
    kfd_class(tree);
    tree.write(kNodes + "-1/properties", gpu_properties(0x20));
    tree.write(kNodes + "x/properties", gpu_properties(0x20));
    tree.write(kNodes + "99999999999/properties", gpu_properties(0x20));
    tree.write(kNodes + "1/properties",
               "simd_count 4\nsimd_count\nlocation_id -7\n gfx_target_version 1\ndomain "
               "99999999999999999999\nunique_id 12x\n\xff\xfe\n");
    tree.write(kNodes + "1/mem_banks/0/properties",
               "heap_type 1\nsize_in_bytes 18446744073709551615\n");
    tree.write(kNodes + "1/io_links/0/properties", "type 11\nnode_to 1\nmax_bandwidth 1\n");
    tree.write(kNodes + "1/io_links/1/properties", "type 11\nnode_to 18446744073709551615\n");
    tree.write(kNodes + "2/properties", "simd_count 4\n");  // the same address as node 1
    const Machine machine = detect_tree(tree);
    REQUIRE(machine.gpus.size() == 2);
    CHECK(machine.gpus[0].pci->text() == "0000:00:00.0");
    CHECK_FALSE(machine.gpus[1].pci);
    CHECK(machine.gpus[0].architecture == "");
    CHECK_FALSE(machine.gpus[0].memory_bytes);
    CHECK_FALSE(machine.gpus[0].uuid);
    CHECK(machine.gpu_links == std::vector(2, std::vector(2, 0)));
    CHECK(detect::machine_from_toml(detect::machine_to_toml(machine), "m") == machine);
}

}  // namespace toporun::tests
