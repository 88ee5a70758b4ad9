#include "detect/processor/cgroup.hpp"
#include "detect/processor/cpu.hpp"
#include "detect/processor/limits.hpp"
#include "tree.hpp"

namespace toporun::tests {
namespace {

using detect::Cpu;
using detect::Files;

constexpr const char* kUnified = "30 23 0:26 / /sys/fs/cgroup rw shared:4 - cgroup2 cgroup2 rw\n";
constexpr const char* kHybrid =
    "31 23 0:27 / /sys/fs/cgroup/cpuset rw - cgroup cgroup rw,cpuset\n"
    "32 23 0:28 / /sys/fs/cgroup/pids rw - cgroup cgroup rw,pids\n"
    "33 23 0:29 / /sys/fs/cgroup/unified rw - cgroup2 cgroup2 rw\n";
/// The host's hierarchy mounted before the container's own.
constexpr const char* kTwoMounts =
    "29 23 0:26 /../.. /host/cgroup ro - cgroup2 cgroup2 rw\n"
    "30 23 0:26 / /sys/fs/cgroup rw - cgroup2 cgroup2 rw\n";

Cpu cpu_of(const Tree& tree) {
    std::vector<std::string> notes;
    return detect::detect_cpu(tree.root(), Files(tree.root()), notes);
}

}  // namespace

TEST_CASE("NUMA distances follow the order of the nodes") {
    struct Row {
        std::string name;
        const char* online;
        const char* first;
        const char* second;
        std::vector<std::vector<int>> expected;
    };
    const Row rows[] = {
        {"two nodes", "0-1\n", "10 21\n", "21 10\n", {{10, 21}, {21, 10}}},
        {"not symmetric", "0-1\n", "10 30\n", "20 10\n", {{10, 30}, {20, 10}}},
        {"a row that is cut", "0-1\n", "10 21\n", "21\n", {}},
        {"a missing row", "0-1\n", "10 21\n", "", {}},
        {"garbage", "0-1\n", "10 x\x1b\n", "21 10\n", {}},
        {"larger than the firmware's byte", "0-1\n", "10 256\n", "21 10\n", {}},
        {"more nodes than processors have",
         "0-2\n",
         "10 21 80\n",
         "21 10 80\n",
         {{10, 21}, {21, 10}}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.processors(2, 2);
        tree.write("/sys/devices/system/node/online", row.online);
        if (row.first[0] != '\0') tree.write("/sys/devices/system/node/node0/distance", row.first);
        if (row.second[0] != '\0')
            tree.write("/sys/devices/system/node/node1/distance", row.second);
        const Cpu cpu = cpu_of(tree);
        REQUIRE(cpu.numa_nodes.size() == 2);
        CHECK(cpu.numa_distances == row.expected);
    }
}

TEST_CASE("the PUs of control groups are those that every group on the way up has") {
    struct Row {
        std::string name;
        const char* membership;
        const char* mounts;
        std::vector<std::pair<const char*, const char*>> files;
        const char* cpus;
    };
    const Row rows[] = {
        {"version 2",
         "0::/job\n",
         kUnified,
         {{"/sys/fs/cgroup/job/cpuset.cpus.effective", "0-3\n"},
          {"/sys/fs/cgroup/cpuset.cpus.effective", "0-63\n"}},
         "0-3"},
        {"version 2, limit on the parent",
         "0::/a/b\n",
         kUnified,
         {{"/sys/fs/cgroup/a/cpuset.cpus.effective", "8-9\n"}},
         "8-9"},
        {"namespace",
         "0::/\n",
         kUnified,
         {{"/sys/fs/cgroup/cpuset.cpus.effective", "4-5\n"}},
         "4-5"},
        {"outside of the namespace",
         "0::/../other\n",
         kUnified,
         {{"/sys/fs/cgroup/cpuset.cpus.effective", "4-5\n"}},
         "4-5"},
        {"hybrid",
         "3:cpuset:/docker/x\n0::/\n",
         kHybrid,
         {{"/sys/fs/cgroup/cpuset/docker/x/cpuset.effective_cpus", "2-3\n"},
          {"/sys/fs/cgroup/cpuset/cpuset.effective_cpus", "0-7\n"}},
         "2-3"},
        {"version 1 without effective sets",
         "3:cpuset:/x\n",
         kHybrid,
         {{"/sys/fs/cgroup/cpuset/x/cpuset.cpus", "1\n"}},
         "1"},
        {"the host's hierarchy is mounted too",
         "0::/\n",
         kTwoMounts,
         {{"/sys/fs/cgroup/cpuset.cpus.effective", "6\n"},
          {"/host/cgroup/cpuset.cpus.effective", "0\n"}},
         "6"},
        {"empty set", "0::/a\n", kUnified, {{"/sys/fs/cgroup/a/cpuset.cpus.effective", "\n"}}, ""},
        {"garbage",
         "0::/a\n",
         kUnified,
         {{"/sys/fs/cgroup/a/cpuset.cpus.effective", "0-\x1b[31m\n"}},
         ""},
        {"sets that exclude each other",
         "0::/a\n",
         kUnified,
         {{"/sys/fs/cgroup/a/cpuset.cpus.effective", "0-1\n"},
          {"/sys/fs/cgroup/cpuset.cpus.effective", "2-3\n"}},
         "0-1"},
        {"nothing mounted", "0::/a\n", "", {}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/proc/self/cgroup", row.membership);
        tree.write("/proc/self/mountinfo", row.mounts);
        for (const auto& [path, text] : row.files) tree.write(path, text);
        CHECK(detect::read_cgroup_cpus(Files(tree.root())).text() == row.cpus);
    }
}

TEST_CASE("allowed CPUs are bounded by the groups and by the mask") {
    const Tree tree;
    tree.processors(2, 4);
    tree.write("/proc/self/cgroup", "0::/job\n");
    tree.write("/proc/self/mountinfo", kUnified);
    tree.write("/sys/fs/cgroup/job/cpuset.cpus.effective", "0-5\n");
    CHECK(cpu_of(tree).allowed.text() == "0-5");
    tree.write("/proc/self/status", "Cpus_allowed_list:\t4-9\n");
    CHECK(cpu_of(tree).allowed.text() == "4-5");
    tree.write("/proc/self/status", "Cpus_allowed_list:\t12\n");  // the mask is obeyed
    CHECK(cpu_of(tree).allowed.text() == "12");
}

TEST_CASE("the number of processes is the smaller of the user's and the groups'") {
    struct Row {
        std::string name;
        const char* limits;
        const char* membership;
        std::vector<std::pair<const char*, const char*>> files;
        std::optional<std::uint64_t> expected;
    };
    const char* const user =
        "Max processes             4096                 8192                 processes\n";
    const char* const endless =
        "Max processes             unlimited            unlimited            processes\n";
    const Row rows[] = {
        {"user's only", user, "0::/\n", {}, 4096},
        {"no limit",
         endless,
         "0::/\n",
         {{"/sys/fs/cgroup/unified/pids.max", "max\n"}},
         detect::kUnlimited},
        {"group below",
         user,
         "4:pids:/a/b\n",
         {{"/sys/fs/cgroup/pids/a/b/pids.max", "max\n"},
          {"/sys/fs/cgroup/pids/a/pids.max", "100\n"}},
         100},
        {"version 2", endless, "0::/a\n", {{"/sys/fs/cgroup/unified/a/pids.max", "512\n"}}, 512},
        {"group above", user, "4:pids:/a\n", {{"/sys/fs/cgroup/pids/a/pids.max", "9000\n"}}, 4096},
        {"group alone", "", "4:pids:/a\n", {{"/sys/fs/cgroup/pids/a/pids.max", "77\n"}}, 77},
        {"garbage",
         "Max processes",
         "4:pids:/a\n",
         {{"/sys/fs/cgroup/pids/a/pids.max", "-1\n"}},
         std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/proc/self/limits", row.limits);
        tree.write("/proc/self/cgroup", row.membership);
        tree.write("/proc/self/mountinfo", kHybrid);
        for (const auto& [path, text] : row.files) tree.write(path, text);
        CHECK(detect::detect_limits(Files(tree.root())).nproc == row.expected);
    }
}

TEST_CASE("kills by the kernel are counted in the group and those above") {
    struct Row {
        std::string name;
        std::string membership;
        std::vector<std::pair<std::string, std::string>> files;
        std::optional<std::uint64_t> expected;
    };
    const std::string root = "/sys/fs/cgroup";
    const Row rows[] = {
        {"none", "0::/a/b\n", {}, std::nullopt},
        {"version 2",
         "0::/a/b\n",
         {{root + "/a/b/memory.events", "low 0\noom 2\noom_kill 2\n"}},
         2},
        {"the group above",
         "0::/a/b\n",
         {{root + "/a/b/memory.events", "oom_kill 0\n"},
          {root + "/a/memory.events", "oom_kill 5\n"}},
         5},
        {"garbage",
         "0::/a/b\n",
         {{root + "/a/b/memory.events", "oom_kill x\noom_kill -1\n"}},
         std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const Tree tree;
        tree.write("/proc/self/cgroup", row.membership);
        tree.write("/proc/self/mountinfo", kUnified);
        for (const auto& [path, text] : row.files) tree.write(path, text);
        CHECK(detect::read_oom_kills(Files(tree.root())) == row.expected);
    }
}

}  // namespace toporun::tests
