#include "detect/software/config_files.hpp"

#include <unistd.h>

#include "detect/software/fabric_manager.hpp"
#include "detect/software/kernel_modules.hpp"
#include "detect/software/vendor_files.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Files;
using detect::Software;
using Names = std::vector<std::string>;

}  // namespace

TEST_CASE("modules are those of the list, from procfs or sysfs") {
    const auto modules = [](const Tree& tree) {
        return detect::loaded_modules(Files(tree.root()));
    };
    const Tree empty;
    CHECK_FALSE(modules(empty));
    const Tree tree;
    tree.write("/proc/modules",
               "nvidia_peermem 16384 0 - Live 0x0\nxgdrdrv 1 0 - Live 0x0\next4 1 0 - Live 0x0\n"
               "mlx5_core 2 1 mlx5_ib, Live 0x0\nefa\nrdma_ucm 1 0 - Live 0x0");
    CHECK(modules(tree) == Names{"mlx5_core", "nvidia_peermem", "rdma_ucm"});
    tree.directory("/sys/module/gdrdrv");
    tree.directory("/sys/module/ext4");
    CHECK(modules(tree) == Names{"gdrdrv", "mlx5_core", "nvidia_peermem", "rdma_ucm"});
    const Tree built_in;
    built_in.directory("/sys/module");
    CHECK(modules(built_in) == Names{});
    const Tree hostile;
    hostile.write("/proc/modules", std::string("\0nvidia \n\xff\x1b[31m\n\n", 17));
    CHECK(modules(hostile) == Names{});
}

TEST_CASE("the open driver says so, or has no proprietary taint") {
    struct Row {
        std::string name;
        const char* version;
        const char* taint;
        std::optional<bool> expected;
    };
    const char* const open =
        "NVRM version: NVIDIA UNIX Open Kernel Module for x86_64  550.54.15  Release Build\n";
    const char* const closed = "NVRM version: NVIDIA UNIX x86_64 Kernel Module  550.54.15  Tue\n";
    const Row rows[] = {{"open", open, nullptr, true},
                        {"closed", closed, nullptr, false},
                        {"the version decides", closed, "OE\n", false},
                        {"taint of an open module", nullptr, "OE\n", true},
                        {"taint of a closed module", nullptr, "POE\n", false},
                        {"no module", nullptr, nullptr, std::nullopt}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        if (row.version != nullptr) tree.write("/proc/driver/nvidia/version", row.version);
        if (row.taint != nullptr) tree.write("/sys/module/nvidia/taint", row.taint);
        CHECK(detect::is_open_driver(Files(tree.root())) == row.expected);
    }
}

TEST_CASE("peer memory, IMEX channels and verbs devices are counted where they can be seen") {
    const auto seen = [](const Tree& tree) {
        Software software;
        detect::detect_kernel_modules(Files(tree.root()), software);
        return software;
    };
    const Tree empty;
    CHECK_FALSE(seen(empty).peer_memory_clients);
    CHECK_FALSE(seen(empty).imex_channels);
    CHECK_FALSE(seen(empty).verbs_devices);
    const Tree plain;
    plain.directory("/sys/kernel/mm/transparent_hugepage");
    plain.write("/dev/nvidiactl", "");
    CHECK(seen(plain).peer_memory_clients == Names{});
    CHECK(seen(plain).imex_channels == 0);
    CHECK(seen(plain).verbs_devices == 0);
    const Tree full;
    full.write("/sys/kernel/mm/memory_peers/nv_mem/version", "1.0\n");
    full.directory("/sys/kernel/mm/memory_peers/half");
    full.write("/dev/nvidia-caps-imex-channels/channel0", "");
    full.write("/dev/nvidia-caps-imex-channels/channel1", "");
    full.write("/dev/infiniband/uverbs0", "");
    full.write("/dev/infiniband/uverbs1", "");
    full.write("/dev/infiniband/umad0", "");
    full.write("/dev/infiniband/rdma_cm", "");
    CHECK(seen(full).peer_memory_clients == Names{"nv_mem"});
    CHECK(seen(full).imex_channels == 2);
    CHECK(seen(full).verbs_devices == 2);
}

TEST_CASE("a fabric manager is believed by its live process alone") {
    struct Row {
        std::string name;
        const char* pid;
        std::vector<std::pair<const char*, const char*>> processes;
        bool contained, scan;
        std::optional<bool> expected;
    };
    const std::pair<const char*, const char*> init{"1", "systemd\n"}, bash{"7", "bash\n"},
        alive{"812", "nv-fabricmanage\n"};
    const Row rows[] = {
        {"alive", "812\n", {init, alive}, false, false, true},
        {"alive, seen from a container", "812\n", {alive}, true, false, true},
        {"stale", "812\n", {init}, false, false, false},
        {"stale, other users' processes hidden", "812\n", {bash}, false, false, std::nullopt},
        {"number taken by another", "812\n", {init, {"812", "bash\n"}}, false, false, false},
        {"stale, in a container", "812\n", {init}, true, true, std::nullopt},
        {"no file, a launch", nullptr, {init, alive}, false, false, std::nullopt},
        {"no file, scan", nullptr, {alive}, false, true, true},
        {"no file, scan finds none", nullptr, {init, bash}, false, true, false},
        {"no file, scan of the user's own", nullptr, {bash}, false, true, std::nullopt},
        {"names hidden, directories shown", nullptr, {{"1", ""}, bash}, false, true, std::nullopt},
        {"no file, scan in a container", nullptr, {init, bash}, true, true, std::nullopt},
        {"garbage", "-1\x1b\n", {init, {"x", "nv-fabricmanage\n"}}, false, false, std::nullopt},
        {"no number of a process", "-1\n", {init}, false, false, std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        if (row.pid != nullptr)
            tree.write("/var/run/nvidia-fabricmanager/nv-fabricmanager.pid", row.pid);
        for (const auto& [pid, comm] : row.processes)
            tree.write("/proc/" + std::string(pid) + "/comm", comm);
        CHECK(detect::runs_fabric_manager(Files(tree.root()), row.contained, row.scan) ==
              row.expected);
    }
}

TEST_CASE("a fabric manager is looked for only where there are NVSwitches") {
    const Tree tree;
    tree.write("/proc/1/comm", "systemd\n");
    tree.write("/var/run/nvidia-fabricmanager/nv-fabricmanager.pid", "812\n");
    CHECK_FALSE(detect_tree(tree).software.fabric_manager);
    tree.write("/dev/nvidia-nvswitchctl", "");
    CHECK(detect_tree(tree).software.fabric_manager == false);
}

TEST_CASE("NUMA balancing is on in each of its modes") {
    const auto mode = [](const char* text) {
        const Tree tree;
        tree.write("/proc/sys/kernel/numa_balancing", text);
        return detect_tree(tree).software.numa_balancing;
    };
    CHECK(mode("0\n") == false);
    CHECK(mode("1\n") == true);
    CHECK(mode("2\n") == true);
    CHECK_FALSE(mode("\n"));
    CHECK_FALSE(detect_tree(Tree()).software.numa_balancing);
}

TEST_CASE("the IOMMU's mode comes from groups, command line and class") {
    struct Row {
        std::string name;
        const char* command_line;
        const char* group_type;  // of the GPU's group
        bool unit;               // in /sys/class/iommu
        std::string mode;
        std::optional<bool> translating;
    };
    const Row rows[] = {
        {"translating", "quiet", "DMA-FQ", true, "translating", true},
        {"group against the command line", "iommu=pt", "DMA", true, "translating", true},
        {"identity", "quiet", "identity", true, "pass-through", false},
        {"pass-through by wish", "quiet iommu=pt", nullptr, true, "pass-through", false},
        {"switched on and through", "iommu=pt intel_iommu=on", nullptr, true, "pass-through",
         false},
        {"switched off", "intel_iommu=off", nullptr, false, "off", false},
        {"wish without an IOMMU", "iommu=pt", nullptr, false, "off", false},
        {"off beats pass-through", "iommu=pt amd_iommu=off", nullptr, true, "off", false},
        {"no IOMMU", "quiet", nullptr, false, "off", false},
        {"there, mode unknown", "quiet", nullptr, true, "", std::nullopt},
        {"odd group", "quiet", "\x1b[31m", true, "", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.gpu("pci0000:00/0000:00:01.0", 0);
        tree.write("/proc/cmdline", std::string(row.command_line) + "\n");
        tree.directory("/sys/class/iommu");
        if (row.unit) tree.directory("/sys/class/iommu/dmar0");
        if (row.group_type != nullptr) {
            tree.write("/sys/kernel/iommu_groups/7/type", std::string(row.group_type) + "\n");
            tree.link("/sys/devices/pci0000:00/0000:00:01.0/iommu_group",
                      "../../../kernel/iommu_groups/7");
        }
        const Software software = detect_tree(tree).software;
        CHECK(software.iommu_mode == row.mode);
        CHECK(software.iommu_translating == row.translating);
    }
}

TEST_CASE("configuration files are listed in NCCL's order, those that are there") {
    const Tree tree;
    detect::Sources sources;
    const auto found = [&] { return detect::conf_files(sources, Files(tree.root())); };
    CHECK(found().empty());
    tree.write("/etc/nccl.conf", "");
    tree.write("/etc/passwd", "me:x:" + std::to_string(getuid()) + ":0::/home/me:/bin/sh\n");
    tree.write("/home/me/.nccl.conf", "");
    CHECK(found() == Names{"/home/me/.nccl.conf", "/etc/nccl.conf"});
    sources.conf_file = "/opt/x.conf";
    CHECK(found() == Names{"/etc/nccl.conf"});
    tree.write("/opt/x.conf", "");
    CHECK(found() == Names{"/opt/x.conf", "/etc/nccl.conf"});
}

TEST_CASE("topology files are NCCL's own or the named one, and those of images") {
    const Tree tree;
    detect::Sources sources;
    const auto found = [&] { return detect::topology_files(sources, Files(tree.root())); };
    CHECK(found().empty());
    tree.write("/var/run/nvidia-topologyd/virtualTopology.xml", "");
    tree.write("/opt/microsoft/ndv5/topo.xml", "");
    tree.write("/opt/microsoft/ndv5/graph.txt", "");
    tree.write("/opt/microsoft/other/topo.xml", "");
    tree.write("/opt/microsoft/ncv4/topo.xml", "");
    tree.write("/opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/p5-48xl-topo.xml", "");
    const Names shipped = {"/opt/microsoft/ndv5/topo.xml", "/opt/microsoft/ncv4/topo.xml",
                           "/opt/amazon/ofi-nccl/share/aws-ofi-nccl/xml/p5-48xl-topo.xml"};
    Names expected = {"/var/run/nvidia-topologyd/virtualTopology.xml"};
    expected.insert(expected.end(), shipped.begin(), shipped.end());
    CHECK(found() == expected);
    sources.topology_file = "/gone.xml";
    CHECK(found() == shipped);
}

TEST_CASE("software of cloud and fabric makers is found where it puts itself") {
    const Tree tree;
    const auto found = [&] { return detect::vendor_files(Files(tree.root())); };
    CHECK(found().empty());
    tree.write("/usr/local/gib/scripts/set_nccl_env.sh", "");
    tree.write("/etc/nvidia-imex/nodes_config.cfg", "");
    CHECK(found() == Names{"/usr/local/gib", "/etc/nvidia-imex/nodes_config.cfg"});
}

TEST_CASE("the size of an instance comes from what cloud-init keeps") {
    struct Row {
        std::string name, text, size;
    };
    const std::vector<Row> rows = {
        {"Azure",
         R"({"ds": {"meta_data": {"imds": {"compute": {"vmSize": "Standard_ND96isr_H100_v5"}}}}})",
         "Standard_ND96isr_H100_v5"},
        {"AWS", "{\n \"instance-type\" :\n  \"p5.48xlarge\"}", "p5.48xlarge"},
        {"a word in a list", R"({"keys": ["vmSize", "x"], "vmSize": "B2s"})", "B2s"},
        {"redacted", R"({"vmSize": "redacted for non-root user"})", ""},
        {"no text", R"({"vmSize": 7})", ""},
        {"cut", R"({"vmSize": "Standard)", ""},
        {"empty", "", ""},
        {"escape", "{\"vmSize\": \"a\x1b[31m\"}", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        CHECK(detect::cloud_instance_type(Files(tree.root())).empty());
        tree.write("/run/cloud-init/instance-data.json", row.text);
        CHECK(detect::cloud_instance_type(Files(tree.root())) == row.size);
    }
}

TEST_CASE("DMI names board and asset tag") {
    const Tree tree;
    tree.write("/sys/class/dmi/id/chassis_asset_tag", "OracleCloud.com\n");
    tree.write("/sys/class/dmi/id/board_vendor", "Supermicro\n");
    tree.write("/sys/class/dmi/id/board_name", "X13DEG\n");
    const auto machine = detect_tree(tree);
    CHECK(machine.asset_tag == "OracleCloud.com");
    CHECK(machine.board == "Supermicro X13DEG");
    CHECK(machine.instance_type.empty());
}

}  // namespace toporun::tests
