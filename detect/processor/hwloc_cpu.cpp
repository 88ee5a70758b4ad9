#include "detect/processor/hwloc_cpu.hpp"

#include <hwloc.h>
#include <unistd.h>

#include <chrono>
#include <map>
#include <memory>
#include <type_traits>

#include "base/helper_process.hpp"
#include "detect/processor/hwloc_report.hpp"

namespace toporun::detect {
namespace {

/// Replaces the process environment as long as it lives.
class PrivateEnvironment {
  public:
    explicit PrivateEnvironment(std::vector<std::string> entries)
        : entries_(std::move(entries)), saved_(environ) {
        for (std::string& entry : entries_) pointers_.push_back(entry.data());
        pointers_.push_back(nullptr);
        environ = pointers_.data();
    }
    ~PrivateEnvironment() { environ = saved_; }
    PrivateEnvironment(const PrivateEnvironment&) = delete;
    PrivateEnvironment& operator=(const PrivateEnvironment&) = delete;

  private:
    std::vector<std::string> entries_;
    std::vector<char*> pointers_;
    char** saved_;
};

using Topology =
    std::unique_ptr<std::remove_pointer_t<hwloc_topology_t>, decltype(&hwloc_topology_destroy)>;

Topology load_topology() {
    hwloc_topology_t created = nullptr;
    if (hwloc_topology_init(&created) != 0) return {nullptr, &hwloc_topology_destroy};
    Topology topology(created, &hwloc_topology_destroy);
    // Asking the processor itself would mix this machine's caches into a tree, and costs more.
    hwloc_topology_set_components(created, HWLOC_TOPOLOGY_COMPONENTS_FLAG_BLACKLIST, "x86");
    hwloc_topology_set_io_types_filter(created, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_type_filter(created, HWLOC_OBJ_MISC, HWLOC_TYPE_FILTER_KEEP_NONE);
    hwloc_topology_set_flags(created, HWLOC_TOPOLOGY_FLAG_INCLUDE_DISALLOWED);
    if (hwloc_topology_load(created) != 0) return {nullptr, &hwloc_topology_destroy};
    return topology;
}

CpuSet to_cpu_set(hwloc_const_bitmap_t bitmap) {
    std::vector<int> indices;
    if (bitmap != nullptr && hwloc_bitmap_weight(bitmap) > 0)
        for (int i = hwloc_bitmap_first(bitmap); i >= 0; i = hwloc_bitmap_next(bitmap, i))
            indices.push_back(i);
    return CpuSet(std::move(indices));
}

/// Number of each last-level cache: an L3, or the L2 of machines without one.
std::optional<int> last_level_cache(hwloc_topology_t topology, hwloc_obj_t core) {
    for (const hwloc_obj_type_t type : {HWLOC_OBJ_L3CACHE, HWLOC_OBJ_L2CACHE})
        if (hwloc_get_nbobjs_by_type(topology, type) > 0) {
            const hwloc_obj_t cache = hwloc_get_ancestor_obj_by_type(topology, type, core);
            if (cache == nullptr) return std::nullopt;
            return static_cast<int>(cache->logical_index);
        }
    return std::nullopt;
}

Core read_core(hwloc_topology_t topology, hwloc_obj_t object) {
    Core core;
    core.pus = to_cpu_set(object->cpuset);
    const hwloc_obj_t package = hwloc_get_ancestor_obj_by_type(topology, HWLOC_OBJ_PACKAGE, object);
    core.package = package == nullptr ? 0 : static_cast<int>(package->logical_index);
    const int node = object->nodeset == nullptr ? -1 : hwloc_bitmap_first(object->nodeset);
    if (node >= 0) core.numa_node = node;
    core.l3 = last_level_cache(topology, object);
    return core;
}

std::vector<Core> read_cores(hwloc_topology_t topology) {
    // Some virtual machines show PUs without cores; each is a core of its own then.
    const bool has_cores = hwloc_get_nbobjs_by_type(topology, HWLOC_OBJ_CORE) > 0;
    const hwloc_obj_type_t type = has_cores ? HWLOC_OBJ_CORE : HWLOC_OBJ_PU;
    std::vector<Core> cores;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, type, object)) != nullptr;)
        cores.push_back(read_core(topology, object));
    return cores;
}

std::vector<NumaNode> read_numa_nodes(hwloc_topology_t topology) {
    std::map<int, NumaNode> nodes;
    for (hwloc_obj_t object = nullptr;
         (object = hwloc_get_next_obj_by_type(topology, HWLOC_OBJ_NUMANODE, object)) != nullptr;) {
        NumaNode node;
        node.os_index = static_cast<int>(object->os_index);
        node.cpus = to_cpu_set(object->cpuset);
        if (object->attr != nullptr && object->attr->numanode.local_memory > 0)
            node.memory_bytes = object->attr->numanode.local_memory;
        nodes[node.os_index] = node;
    }
    std::vector<NumaNode> ordered;
    for (auto& [index, node] : nodes) ordered.push_back(std::move(node));
    return ordered;
}

HwlocCpu read_here(const std::string& root) {
    // HIDE_ERRORS: odd firmware tables are not worth a screenful on the training's stderr.
    std::vector<std::string> variables = {"HWLOC_PLUGINS_PATH=/nonexistent", "HWLOC_HIDE_ERRORS=2"};
    if (!root.empty()) variables.push_back("HWLOC_FSROOT=" + root);
    const PrivateEnvironment environment(std::move(variables));
    HwlocCpu cpu;
    const Topology topology = load_topology();
    if (topology == nullptr) return cpu;
    cpu.loaded = true;
    cpu.packages = hwloc_get_nbobjs_by_type(topology.get(), HWLOC_OBJ_PACKAGE);
    cpu.numa_nodes = read_numa_nodes(topology.get());
    cpu.cores = read_cores(topology.get());
    cpu.allowed = to_cpu_set(hwloc_topology_get_allowed_cpuset(topology.get()));
    return cpu;
}

constexpr std::chrono::seconds kTreeTime{10};
constexpr std::size_t kMostReport = std::size_t{16} << 20;

/// In a process of its own: a tree from a stranger may end it in one of hwloc's assertions.
HwlocCpu read_apart(const std::string& root) {
    const HelperResult result =
        run_helper([&](const HelperOutput& output) { output(hwloc_report(read_here(root))); },
                   kTreeTime, kMostReport);
    HwlocCpu cpu;
    if (result.finished) cpu = parse_hwloc_report(result.bytes).value_or(HwlocCpu{});
    cpu.failure = result.failure;
    return cpu;
}

}  // namespace

HwlocCpu read_hwloc_cpu(const std::string& root) {
    return root.empty() ? read_here(root) : read_apart(root);
}

}  // namespace toporun::detect
