#include "detect/processor/cpu.hpp"

#include <unistd.h>

#include <cstdlib>
#include <thread>

#include "detect/detect.hpp"
#include "detect/machine_toml.hpp"
#include "detect/processor/hwloc_report.hpp"
#include "detect/processor/limits.hpp"
#include "detect/software/platform.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Cpu;
using detect::Files;
using detect::HwlocCpu;
using detect::Limits;
using detect::Machine;

Cpu cpu_of(const Tree& tree, std::vector<std::string>& notes) {
    return detect::detect_cpu(tree.root(), Files(tree.root()), notes);
}

}  // namespace

TEST_CASE("cores, siblings, packages, caches and NUMA nodes come from the tree") {
    const Tree tree;
    tree.processors(2, 4);
    tree.write("/proc/cpuinfo",
               "processor\t: 0\nvendor_id\t: GenuineIntel\ncpu family\t: 6\nmodel\t\t: 143\n"
               "model name\t: Intel(R) Xeon(R) Platinum 8480C\nflags\t\t: fpu vme\n");
    tree.write("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t0-3,8-11\n");
    std::vector<std::string> notes;
    const Cpu cpu = cpu_of(tree, notes);
    CHECK(notes.empty());
    CHECK(cpu.vendor == "GenuineIntel");
    CHECK(cpu.model == "Intel(R) Xeon(R) Platinum 8480C");
    CHECK(cpu.family == 6);
    CHECK(cpu.model_number == 143);
    CHECK(cpu.packages == 2);
    REQUIRE(cpu.numa_nodes.size() == 2);
    CHECK(cpu.numa_nodes[0].cpus.text() == "0-3,8-11");
    CHECK(cpu.numa_nodes[1].cpus.text() == "4-7,12-15");
    CHECK(cpu.numa_nodes[1].os_index == 1);
    CHECK(cpu.numa_nodes[1].memory_bytes == 1u << 30);
    REQUIRE(cpu.cores.size() == 8);
    CHECK(cpu.cores[0].pus.text() == "0,8");
    CHECK(cpu.cores[5].pus.text() == "5,13");
    CHECK(cpu.cores[5].package == 1);
    CHECK(cpu.cores[5].numa_node == 1);
    CHECK(cpu.cores[0].l3 == 0);
    CHECK(cpu.cores[5].l3 == 1);
    CHECK(cpu.allowed.text() == "0-3,8-11");
}

TEST_CASE("an empty tree has no processors and says so") {
    const Tree tree;
    std::vector<std::string> notes;
    const Cpu cpu = cpu_of(tree, notes);
    CHECK(cpu.cores.empty());
    CHECK(cpu.numa_nodes.empty());
    CHECK(cpu.allowed.empty());
    CHECK_FALSE(cpu.packages);
    CHECK(notes.size() == 1);
}

TEST_CASE("a node directory without a node costs the processors, not the program") {
    struct Row {
        std::string name;
        std::optional<std::string> online;
        std::string entry;  ///< a directory among the nodes
        bool read = false;
    };
    const std::vector<Row> rows = {
        {"empty", std::nullopt, "", false},
        {"other directories", std::nullopt, "power", false},
        {"a node without a number", std::nullopt, "nodex", false},
        {"an empty list", "\n", "", false},
        {"a damaged list", "0-\n", "node0", false},
        {"a list of a node that is not there", "0\n", "", true},
        {"a node", std::nullopt, "node0", true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.processors(1, 2);
        std::filesystem::remove_all(tree.root() + "/sys/devices/system/node");
        tree.directory("/sys/devices/system/node/" + row.entry);
        if (row.online) tree.write("/sys/devices/system/node/online", *row.online);
        std::vector<std::string> notes;
        const Cpu cpu = cpu_of(tree, notes);
        CHECK(cpu.cores.size() == (row.read ? 2 : 0));
        CHECK(notes.size() == (row.read ? 0 : 1));
    }
}

TEST_CASE("what hwloc says goes through its report unchanged") {
    HwlocCpu cpu;
    cpu.loaded = true;
    cpu.packages = 2;
    cpu.allowed = detect::CpuSet::parse("0-3,7");
    cpu.numa_nodes = {{0, detect::CpuSet::parse("0-3"), 1u << 30}, {5, {}, std::nullopt}};
    cpu.cores = {{detect::CpuSet::parse("0,2"), 0, 0, 1},
                 {detect::CpuSet::parse("7"), 1, std::nullopt, std::nullopt}};
    const std::string text = detect::hwloc_report(cpu);
    const auto read = detect::parse_hwloc_report(text);
    REQUIRE(read);
    CHECK(read->loaded);
    CHECK(read->packages == 2);
    CHECK(read->allowed == cpu.allowed);
    CHECK(read->numa_nodes == cpu.numa_nodes);
    CHECK(read->cores == cpu.cores);
    for (std::size_t cut = 0; cut < text.size(); ++cut) {
        CAPTURE(cut);
        CHECK_FALSE(detect::parse_hwloc_report(text.substr(0, cut)));
    }
    for (const char* damaged : {"node x 0 0\nend\n", "core 0 - -\nend\n", "core -1 - - 0\nend\n",
                                "packages 99999999\nend\n", "allowed 5-1\nend\n", "what\nend\n"})
        CHECK_FALSE(detect::parse_hwloc_report(damaged));
    CHECK_FALSE(detect::parse_hwloc_report(detect::hwloc_report(HwlocCpu{}))->loaded);
}

TEST_CASE("the environment is as before and no HWLOC variable of the user's is followed") {
    // With this variable hwloc would answer with 64 cores instead of the machine.
    std::string synthetic = "HWLOC_SYNTHETIC=pack:8 core:8 pu:2";
    char* variables[] = {synthetic.data(), nullptr};
    char** const real = environ;
    environ = variables;
    std::vector<std::string> notes;
    const Cpu cpu = detect::detect_cpu("", Files(""), notes);
    const bool unchanged = environ == variables && environ[0] == synthetic && environ[1] == nullptr;
    environ = real;
    CHECK(unchanged);
    CHECK(std::getenv("HWLOC_PLUGINS_PATH") == nullptr);
    CHECK(std::getenv("HWLOC_HIDE_ERRORS") == nullptr);
    CHECK(cpu.cores.size() <= static_cast<std::size_t>(std::thread::hardware_concurrency()));
    CHECK(static_cast<unsigned>(cpu.allowed.count()) == std::thread::hardware_concurrency());
    CHECK_FALSE(cpu.cores.empty());
    CHECK_FALSE(cpu.architecture.empty());
}

TEST_CASE("CPU quota and memory limit are the smallest of the way up") {
    struct Row {
        std::string name;
        const char* membership;
        const char* mounts;
        std::vector<std::pair<const char*, const char*>> files;
        std::optional<double> quota;
        std::optional<std::uint64_t> memory;
    };
    const char* const v2 = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
    const char* const v1 =
        "31 23 0:27 / /sys/fs/cgroup/cpu,cpuacct rw - cgroup cgroup rw,cpu,cpuacct\n"
        "32 23 0:28 / /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n"
        "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
    const Row rows[] = {
        {"version 2, limit on a parent",
         "0::/job/step\n",
         v2,
         {{"/sys/fs/cgroup/job/step/cpu.max", "max 100000\n"},
          {"/sys/fs/cgroup/job/cpu.max", "350000 100000\n"},
          {"/sys/fs/cgroup/job/step/memory.max", "4294967296\n"},
          {"/sys/fs/cgroup/job/memory.max", "8589934592\n"}},
         3.5,
         4294967296u},
        {"version 2, top of a container",
         "0::/\n",
         v2,
         {{"/sys/fs/cgroup/cpu.max", "150000 100000\n"}, {"/sys/fs/cgroup/memory.max", "max\n"}},
         1.5,
         std::nullopt},
        {"version 2, path outside of the namespace",
         "0::/../../job\n",
         v2,
         {{"/sys/fs/cgroup/cpu.max", "200000\n"}},
         2.0,
         std::nullopt},
        {"version 1 in a container, path of the host",
         "5:cpu,cpuacct:/docker/abc\n4:memory:/docker/abc\n",
         "31 23 0:27 /docker/abc /sys/fs/cgroup/cpu rw - cgroup cgroup rw,cpu,cpuacct\n"
         "32 23 0:28 /docker/abc /sys/fs/cgroup/memory rw - cgroup cgroup rw,memory\n",
         {{"/sys/fs/cgroup/cpu/cpu.cfs_quota_us", "400000\n"},
          {"/sys/fs/cgroup/cpu/cpu.cfs_period_us", "100000\n"},
          {"/sys/fs/cgroup/memory/memory.limit_in_bytes", "1073741824\n"}},
         4.0,
         1073741824u},
        {"version 1 and 2 mounted, none limits",
         "5:cpu,cpuacct:/\n4:memory:/x\n0::/\n",
         v1,
         {{"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us", "-1\n"},
          {"/sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us", "100000\n"},
          {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "9223372036854771712\n"}},
         std::nullopt,
         std::nullopt},
        {"version 1 and 2 mounted, a parent limits",
         "5:cpu,cpuacct:/\n4:memory:/x/y\n0::/\n",
         v1,
         {{"/sys/fs/cgroup/memory/x/y/memory.limit_in_bytes", "9223372036854771712\n"},
          {"/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "2147483648\n"}},
         std::nullopt,
         2147483648u},
        {"garbage",
         "0::/a\nnonsense\n::::\n",
         v2,
         {{"/sys/fs/cgroup/a/cpu.max", "-5 0\n"},
          {"/sys/fs/cgroup/cpu.max", "99999999999999999999 1\n"},
          {"/sys/fs/cgroup/memory.max", "-1\n"}},
         std::nullopt,
         std::nullopt},
        {"no mounts", "0::/a\n", "", {}, std::nullopt, std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/proc/self/cgroup", row.membership);
        tree.write("/proc/self/mountinfo", row.mounts);
        for (const auto& [path, text] : row.files) tree.write(path, text);
        const Limits limits = detect::detect_limits(Files(tree.root()));
        CHECK(limits.cpu_quota == row.quota);
        CHECK(limits.memory_limit_bytes == row.memory);
    }
}

TEST_CASE("limits of a tree come from its files") {
    const Tree tree;
    tree.write("/proc/self/mountinfo",
               "25 24 0:23 / /dev/shm rw,relatime - tmpfs shm rw,size=65536k\n");
    tree.write("/proc/self/limits",
               "Limit                     Soft Limit           Hard Limit           Units\n"
               "Max open files            1024                 1048576              files\n"
               "Max locked memory         unlimited            unlimited            bytes\n"
               "Max processes             63704                63704                processes\n");
    tree.write("/proc/meminfo", "MemTotal:       16384000 kB\nMemFree: 1 kB\n");
    const Limits limits = detect::detect_limits(Files(tree.root()));
    CHECK(limits.shm_bytes == 64u << 20);
    CHECK_FALSE(limits.shm_free_bytes);
    CHECK(limits.memlock_bytes == detect::kUnlimited);
    CHECK(limits.nofile == 1024);
    CHECK(limits.nproc == 63704);
    CHECK(limits.memory_bytes == 16384000ull << 10);
}

TEST_CASE("CAP_IPC_LOCK counts in the first user namespace alone") {
    struct Row {
        std::string name;
        const char *effective, *map;
        std::optional<bool> expected;
    };
    const char* const whole = "         0          0 4294967295\n";
    const Row rows[] = {
        {"root", "000001ffffffffff", whole, true},
        {"a pod with IPC_LOCK", "00000000a80465fb", whole, true},
        {"a plain container", "00000000a80425fb", whole, false},
        {"a user", "0000000000000000", whole, false},
        {"root of a rootless container", "000001ffffffffff", "0 1000 1\n1 100000 65536\n", false},
        {"a kernel without user namespaces", "000001ffffffffff", nullptr, true},
        {"garbage", "000001ffffffffzz", whole, std::nullopt},
        {"nothing", nullptr, whole, std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        if (row.effective != nullptr)
            tree.write("/proc/self/status", "Name:\tx\nCapPrm:\t000001ffffffffff\nCapEff:\t" +
                                                std::string(row.effective) + "\n");
        if (row.map != nullptr) tree.write("/proc/self/uid_map", row.map);
        CHECK(detect::detect_limits(Files(tree.root())).ipc_lock == row.expected);
    }
}

TEST_CASE("odd limit files tell nothing") {
    const Tree tree;
    tree.write("/proc/self/mountinfo",
               "\n- - -\n25 24 0:23 / /dev/shm rw - tmpfs shm rw,size=99999999999999999g\n\xff\n");
    tree.write("/proc/self/limits", "Max locked memory");
    tree.directory("/proc/meminfo");
    const Limits limits = detect::detect_limits(Files(tree.root()));
    CHECK(limits == Limits{});
}

TEST_CASE("container and virtual machine need evidence") {
    const auto at = [](const char* path, const char* text) {
        const Tree tree;
        tree.write(path, text);
        return detect_tree(tree);
    };
    CHECK_FALSE(detect_tree(Tree()).container);
    CHECK_FALSE(detect_tree(Tree()).virtual_machine);
    CHECK(at("/.dockerenv", "").container);
    CHECK(at("/proc/self/cgroup", "0::/kubepods.slice/x\n").container);
    CHECK(at("/proc/self/mountinfo",
             "1 0 0:9 / / rw - overlay overlay rw,lowerdir=/var/lib/containerd/x\n")
              .container);
    CHECK_FALSE(at("/proc/self/mountinfo", "1 0 0:9 / / rw - overlay overlay rw,lowerdir=/live\n")
                    .container);
    CHECK(at("/proc/cpuinfo", "flags\t\t: fpu hypervisor lahf_lm\n").virtual_machine);
    CHECK(at("/sys/class/dmi/id/product_name", "Google Compute Engine\n").virtual_machine);
    CHECK(at("/sys/class/dmi/id/product_name", "p5.48xlarge\n").product == "p5.48xlarge");
    CHECK(at("/sys/firmware/devicetree/base/model", "Grace\x1b").product == "Grace\\x1b");
    CHECK(at("/proc/sys/kernel/osrelease", "6.1.0\n").software.kernel == "6.1.0");
}

TEST_CASE("what another process of this machine has found is this one's with its own mask") {
    const Machine machine = detect::detect_machine({});
    Machine told = detect::machine_from_toml(detect::machine_to_toml(machine), "told");
    told.cpu.allowed = {};
    told.limits = {};
    detect::detect_own_part({}, told);
    CHECK(told.limits.shm_free_bytes);
    told.limits.shm_free_bytes = machine.limits.shm_free_bytes;
    CHECK(told == machine);
    CHECK(detect::sight_of_process() == detect::sight_of_process());
}

TEST_CASE("the PUs of a process are those of its mask, and all where that is unknown") {
    const Tree tree;
    tree.processors(2, 4);
    const detect::CpuSet all = detect::CpuSet::parse("0-15");
    CHECK(detect::allowed_cpus(Files(tree.root()), all) == all);
    tree.write("/proc/self/status", "Name:\tx\nCpus_allowed_list:\t2-3\n");
    CHECK(detect::allowed_cpus(Files(tree.root()), all).text() == "2-3");
}

TEST_CASE("this machine is detected without a complaint of the reader") {
    const Machine machine = detect::detect_machine({});
    CHECK_FALSE(machine.nics.empty());
    CHECK(machine.limits.memory_bytes);
    CHECK(machine.limits.shm_bytes);
    CHECK_FALSE(machine.hostname.empty());
    CHECK(machine.gpu_paths.size() == machine.gpus.size());
}

}  // namespace toporun::tests
