#include "detect/topology/compute_paths.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include <filesystem>
#include <string>

#include "detect/topology/fold_switches.hpp"
#include "detect/topology/link_bandwidth.hpp"
#include "detect/topology/nccl_xml.hpp"
#include "detect/topology/tree_links.hpp"
#include "files.hpp"

using namespace toporun;
using namespace toporun::detect;

namespace {

SystemTree tree_of(const std::string& name) {
    const std::filesystem::path file =
        std::filesystem::path(TOPORUN_TEST_DATA) / "detect/topology" / (name + ".xml");
    return read_topology_xml(tests::read_file(file),
                             [](std::size_t byte) { return std::to_string(byte); })
        .tree;
}

std::string text_of(const Path& path) {
    return fmt::format("{}/{:.1f}/{}", path.hops, path.gbytes_per_s, path_name(path.type));
}

/// A table like NCCL's path lines.
std::string text_of(const TreePaths& paths) {
    std::string text;
    for (std::size_t a = 0; a < paths.gpus.size(); ++a) {
        text += fmt::format("GPU {}:", a);
        for (const Path& path : paths.gpus[a]) text += " " + text_of(path);
        text += "  NET:";
        for (const Path& path : paths.nets[a]) text += " " + text_of(path);
        text += "\n";
    }
    return text;
}

/// Two GPUs on the CPUs `a` and `b`, generation 3.
SystemTree two_gpus(std::size_t a, std::size_t b) {
    SystemTree tree;
    for (int node : {0, 1}) tree.cpus.push_back({node, "x86_64", "GenuineIntel", 6, 0x55, ""});
    for (const std::size_t cpu : {a, b}) {
        TreeGpu gpu;
        gpu.address.bus = static_cast<std::uint8_t>(0x10 + tree.gpus.size());
        gpu.parent.cpu = cpu;
        gpu.gbytes_per_s = 12;
        gpu.index = static_cast<int>(tree.gpus.size());
        gpu.compute_capability = 90;
        tree.gpus.push_back(gpu);
    }
    return tree;
}

}  // namespace

TEST_CASE("own trees get the paths that were worked out by hand") {
    for (const std::string name : {"cascade-broadcom", "grace-hopper", "ring-of-four"}) {
        CAPTURE(name);
        std::string text;
        for (const int version : {21100, 22809, 23007})
            text += fmt::format("NCCL {}\n{}", version,
                                text_of(compute_paths(tree_of(name), {version, true, true})));
        tests::check_golden(text, "detect/topology/" + name + ".paths");
    }
}

TEST_CASE("paths through a neighbour and over its adapter can be switched off") {
    const SystemTree tree = tree_of("ring-of-four");
    CHECK(compute_paths(tree, {22809, true, true}).gpus[0][2].type == PathType::NVB);
    CHECK(compute_paths(tree, {22809, false, true}).gpus[0][2].type == PathType::SYS);
    CHECK(compute_paths(tree, {22809, true, true}).nets[1][0].type == PathType::PXN);
    CHECK(compute_paths(tree, {22809, true, false}).nets[1][0].type == PathType::PHB);
}

TEST_CASE("a link that one end does not know of carries nothing") {
    SystemTree tree = two_gpus(0, 0);
    tree.gpus[0].links.push_back({LinkTarget::gpu, tree.gpus[1].address, 4});
    CHECK(compute_paths(tree).gpus[0][1].type == PathType::PHB);
    CHECK(pair_links(tree)[0][1] == 0);
    tree.gpus[1].links.push_back({LinkTarget::gpu, tree.gpus[0].address, 2});
    CHECK(compute_paths(tree).gpus[0][1].type == PathType::NVL);
    CHECK(pair_links(tree)[0][1] == 2);
}

TEST_CASE("NVLinks to the CPU are a way to its other GPU") {
    SystemTree tree = two_gpus(0, 0);
    for (TreeGpu& gpu : tree.gpus) gpu.links.push_back({LinkTarget::cpu, {}, 3});
    const Path path = compute_paths(tree, {22809, true, true}).gpus[0][1];
    CHECK(path.type == PathType::NVL);
    CHECK(path.gbytes_per_s == doctest::Approx(61.8));
    CHECK(path.hops == 2);
}

TEST_CASE("CPUs of different hosts are not joined") {
    SystemTree tree = two_gpus(0, 1);
    CHECK(text_of(compute_paths(tree).gpus[0][1]) == "5/10.0/SYS");  // two hops for the GPUs: 2.30
    tree.cpus[1].host = "other";
    CHECK(compute_paths(tree).gpus[0][1].type == PathType::DIS);
}

TEST_CASE("no devices and no CPUs are no paths") {
    CHECK(compute_paths({}).gpus.empty());
    SystemTree tree = two_gpus(0, 1);
    tree.gpus.clear();
    CHECK(compute_paths(tree).nets.empty());
}

TEST_CASE("a NVLink is as wide as the version says") {
    struct Row {
        int capability;
        int version;
        double expected;
    };
    const Row rows[] = {{70, 20900, 21},  {80, 21000, 22},    {80, 21800, 20},    {90, 21700, 22},
                        {90, 21800, 20},  {90, 22005, 20.6},  {86, 22809, 12},    {89, 22809, 20},
                        {60, 22809, 18},  {61, 20800, 18},    {100, 22400, 20.6}, {100, 22501, 40},
                        {100, 22703, 40}, {100, 22705, 40.1}, {120, 23007, 40.1}, {52, 22809, 20},
                        {0, 22809, 20}};
    for (const Row& row : rows) {
        CAPTURE(row.capability);
        CAPTURE(row.version);
        CHECK(nvlink_gbytes_per_s(row.capability, row.version) == doctest::Approx(row.expected));
    }
    CHECK(nvlink_gbytes_per_s(std::nullopt, std::nullopt) == doctest::Approx(20));
}

TEST_CASE("CPUs are joined as their kind and the version say") {
    struct Row {
        TreeCpu cpu;
        int version;
        double expected;
    };
    const Row rows[] = {
        {{0, "x86_64", "GenuineIntel", 6, 79, ""}, 22809, 6},
        {{0, "x86_64", "GenuineIntel", 6, 85, ""}, 21700, 9},
        {{0, "x86_64", "GenuineIntel", 6, 85, ""}, 22809, 10},
        {{0, "x86_64", "GenuineIntel", 6, 143, ""}, 22500, 10},
        {{0, "x86_64", "GenuineIntel", 6, 143, ""}, 22600, 22},
        {{0, "x86_64", "GenuineIntel", 6, 207, ""}, 22809, 40},
        {{0, "x86_64", "AuthenticAMD", 25, 1, ""}, 21800, 5000},
        {{0, "x86_64", "AuthenticAMD", 25, 1, ""}, 22809, 16},
        {{0, "x86_64", "CentaurHauls", 7, 0x5b, ""}, 22809, 9},
        {{0, "aarch64", "ARM", 0, 0, ""}, 22809, 6},
        {{0, "ppc64le", "", 0, 0, ""}, 22809, 32},
        {{0, "", "", 0, 0, ""}, 22809, 5000},
    };
    for (const Row& row : rows) {
        CAPTURE(row.cpu.vendor);
        CAPTURE(row.cpu.model);
        CAPTURE(row.version);
        CHECK(cpu_link_gbytes_per_s(row.cpu, row.version) == doctest::Approx(row.expected));
    }
}

TEST_CASE("PCIe by generation and width, what is unknown as NCCL takes it") {
    CHECK(pcie_gbytes_per_s(4, 16) == doctest::Approx(24));
    CHECK(pcie_gbytes_per_s(5, 8) == doctest::Approx(24));
    CHECK(pcie_gbytes_per_s(6, 16) == doctest::Approx(96));
    CHECK(pcie_gbytes_per_s(std::nullopt, std::nullopt) == doctest::Approx(12));
    CHECK(pcie_gbytes_per_s(99, -3) == doctest::Approx(12));
}

TEST_CASE("two-level switches are folded once, by version and generation") {
    struct Row {
        unsigned device;
        unsigned upper;
        unsigned lower;
        int version;
        bool folded;
    };
    const Row rows[] = {
        {0xc030, 0x0072, 0x1003, 22809, true},  {0xc030, 0x100b, 0x100b, 22809, false},
        {0xc030, 0x0072, 0x1003, 21900, false}, {0xc010, 0xa064, 0xa064, 20908, true},
        {0xc010, 0xa064, 0xa064, 20906, false}, {0xc010, 0x0064, 0x0064, 22809, false}};
    for (const Row& row : rows) {
        CAPTURE(row.device);
        CAPTURE(row.version);
        SystemTree tree = two_gpus(0, 0);
        for (const unsigned subsystem : {row.upper, row.lower}) {
            TreeSwitch bridge;
            bridge.address.bus = static_cast<std::uint8_t>(tree.switches.size() + 1);
            if (!tree.switches.empty()) bridge.parent.pci_switch = tree.switches.size() - 1;
            bridge.gbytes_per_s = 24;
            bridge.ids = {0x1000, row.device, 0x1000, subsystem};
            tree.switches.push_back(bridge);
        }
        tree.gpus[0].parent.pci_switch = 0;
        tree.gpus[1].parent.pci_switch = 1;
        const Path path = compute_paths(tree, {row.version, true, true}).gpus[0][1];
        CHECK((path.type == PathType::PIX) == row.folded);
        fold_switches(tree, row.version);
        CHECK(tree.switches.size() == (row.folded ? 1 : 2));
    }
}
