#include "detect/processor/cpu.hpp"

#include <sched.h>
#include <sys/utsname.h>

#include <algorithm>
#include <cerrno>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/processor/cgroup.hpp"
#include "detect/processor/hwloc_cpu.hpp"

namespace toporun::detect {
namespace {

constexpr int kMostPus = 65536;  ///< Linux: CONFIG_NR_CPUS is at most 8192

/// The affinity mask of this process, whatever the number of PUs; empty when it cannot be read.
CpuSet affinity_mask() {
    for (int pus = 1024; pus <= kMostPus; pus *= 2) {
        cpu_set_t* const set = CPU_ALLOC(static_cast<std::size_t>(pus));
        if (set == nullptr) return {};
        const std::size_t size = CPU_ALLOC_SIZE(static_cast<std::size_t>(pus));
        std::vector<int> indices;
        const int result = sched_getaffinity(0, size, set);
        const int error = errno;
        for (int i = 0; result == 0 && i < pus; ++i)
            if (CPU_ISSET_S(static_cast<std::size_t>(i), size, set)) indices.push_back(i);
        CPU_FREE(set);
        if (result == 0) return CpuSet(std::move(indices));
        if (error != EINVAL) return {};  // EINVAL: the kernel's mask is larger
    }
    return {};
}

CpuSet mask_of_tree(const Files& files) {
    const auto status = files.read("/proc/self/status", 16384);
    const auto list = status ? value_of(*status, "Cpus_allowed_list") : std::nullopt;
    try {
        return CpuSet::parse(list.value_or(""));
    } catch (const Error&) {
        return {};
    }
}

std::optional<int> small_number(const std::optional<std::string>& text) {
    const auto number = text ? to_integer(*text) : std::nullopt;
    if (!number || *number < 0 || *number > 65535) return std::nullopt;
    return static_cast<int>(*number);
}

/// The first processor of /proc/cpuinfo; the others repeat it and make the file slow to read.
void read_cpuinfo(const Files& files, Cpu& cpu) {
    const std::string text = files.read("/proc/cpuinfo", 4096).value_or("");
    cpu.vendor = value_of(text, "vendor_id").value_or("");
    cpu.model = value_of(text, "model name").value_or("");
    cpu.family = small_number(value_of(text, "cpu family"));
    cpu.model_number = small_number(value_of(text, "model"));
    if (cpu.vendor.empty() && value_of(text, "CPU implementer")) cpu.vendor = "ARM";
    if (cpu.model.empty()) cpu.model = value_of(text, "cpu").value_or("");  // POWER
}

std::string architecture(const Files& files) {
    utsname name{};
    if (files.real() && uname(&name) == 0) return printable(name.machine);
    return files.line("/proc/sys/kernel/arch").value_or("");
}

/// What `kept` and `other` have in common; an empty set is unknown and bounds nothing, and sets
/// without a common PU leave `other`, the better source.
CpuSet bounded_by(const CpuSet& kept, const CpuSet& other) {
    if (other.empty()) return kept;
    const CpuSet both = kept & other;
    return both.empty() ? other : both;
}

constexpr int kMostNodes = 1024;  ///< Linux: CONFIG_NODES_SHIFT is at most 10

/// The NUMA nodes that a distance row speaks of, in its order.
std::vector<int> online_nodes(const Files& files) {
    const auto list = files.line("/sys/devices/system/node/online");
    if (!list) return {};
    try {
        return CpuSet::parse(*list).indices();
    } catch (const Error&) {
        return {};
    }
}

/// The row of one node, in the order of `nodes`; empty when a column is missing.
std::vector<int> distance_row(const Files& files, int node, const std::vector<int>& online,
                              const std::vector<NumaNode>& nodes) {
    const std::string path = "/sys/devices/system/node/node" + std::to_string(node) + "/distance";
    const std::string text = files.read(path, 16384).value_or("");
    const std::vector<std::string> words = split(trim(text), ' ');
    std::vector<int> row;
    for (const NumaNode& other : nodes) {
        const auto column = std::find(online.begin(), online.end(), other.os_index);
        const auto at = static_cast<std::size_t>(column - online.begin());
        const auto distance = at < words.size() ? to_integer(words[at]) : std::nullopt;
        if (!distance || *distance < 0 || *distance > 255) return {};  // a byte in ACPI's table
        row.push_back(static_cast<int>(*distance));
    }
    return row;
}

/// The firmware's distances of `nodes`, which may be fewer than the kernel has: hwloc leaves out
/// the memory of GPUs.
std::vector<std::vector<int>> numa_distances(const Files& files,
                                             const std::vector<NumaNode>& nodes) {
    const std::vector<int> online = online_nodes(files);
    if (nodes.empty() || nodes.size() > kMostNodes) return {};
    std::vector<std::vector<int>> matrix;
    for (const NumaNode& node : nodes) {
        matrix.push_back(distance_row(files, node.os_index, online, nodes));
        if (matrix.back().empty()) return {};
    }
    return matrix;
}

/// hwloc ends the process where the node directory exists and names no node
/// (hwloc/topology-linux.c, list_sysfsnode). Sandboxes show such ones.
bool sound_node_directory(const Files& files) {
    constexpr const char* kNodes = "/sys/devices/system/node";
    if (!files.exists(kNodes)) return true;
    const auto online = files.line(std::string(kNodes) + "/online");
    if (online && !online->empty()) {
        try {
            return !CpuSet::parse(*online).empty();
        } catch (const Error&) {
            return false;
        }
    }
    const std::vector<std::string> names = files.list(kNodes);
    return std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name.starts_with("node") && to_integer(name.substr(4)).has_value();
    });
}

HwlocCpu hwloc_cpu(const std::string& root, const Files& files, std::vector<std::string>& notes) {
    HwlocCpu topology;
    if (!sound_node_directory(files)) {
        notes.emplace_back("processors are unknown: /sys/devices/system/node names no NUMA node");
        return topology;
    }
    // hwloc would invent one PU for a tree without processors.
    if (files.exists("/sys/devices/system/cpu") || files.exists("/proc/cpuinfo"))
        topology = read_hwloc_cpu(root);
    if (!topology.failure.empty())
        notes.push_back("processors are unknown: hwloc on this /sys: " + topology.failure);
    else if (!topology.loaded)
        notes.emplace_back("processors are unknown: hwloc cannot read /sys");
    return topology;
}

}  // namespace

CpuSet allowed_cpus(const Files& files, const CpuSet& known) {
    const CpuSet allowed = bounded_by(known, read_cgroup_cpus(files));
    // The mask last: it is what the scheduler obeys.
    return bounded_by(allowed, files.real() ? affinity_mask() : mask_of_tree(files));
}

Cpu detect_cpu(const std::string& root, const Files& files, std::vector<std::string>& notes) {
    Cpu cpu;
    read_cpuinfo(files, cpu);
    cpu.architecture = architecture(files);
    HwlocCpu topology = hwloc_cpu(root, files, notes);
    if (topology.packages > 0) cpu.packages = topology.packages;
    cpu.numa_nodes = std::move(topology.numa_nodes);
    cpu.cores = std::move(topology.cores);
    cpu.numa_distances = numa_distances(files, cpu.numa_nodes);
    cpu.allowed = allowed_cpus(files, topology.allowed);
    return cpu;
}

}  // namespace toporun::detect
