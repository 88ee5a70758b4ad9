#include "detect/import/hwloc_processors.hpp"

#include <algorithm>
#include <map>
#include <unordered_map>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostHwlocNodes = 1024;  ///< of Linux: CONFIG_NODES_SHIFT is at most 10

bool is_hwloc_package(const HwlocObject& object) {
    return object.type == "Package" || object.type == "Socket";  // 1.x up to 1.10
}

bool is_hwloc_cache(const HwlocObject& object, int level) {
    return object.type == (level == 3 ? "L3Cache" : "L2Cache") ||
           (object.type == "Cache" && object.cache_depth == level && !object.instruction_cache);
}

CpuSet bitmap_or_empty(const std::string& text) {
    return read_bitmap(text).value_or(CpuSet());
}

/// Position of each object of a kind among those of its kind.
template <class Predicate>
std::map<std::size_t, int> numbered(const HwlocDocument& document, Predicate predicate) {
    std::map<std::size_t, int> numbers;
    for (std::size_t i = 0; i < document.objects.size(); ++i)
        if (predicate(document.objects[i])) numbers.emplace(i, static_cast<int>(numbers.size()));
    return numbers;
}

/// The number of the nearest object at or above `at` that has one.
std::optional<int> number_above(const HwlocDocument& document,
                                const std::map<std::size_t, int>& numbers, std::size_t at) {
    for (; at != kNoParent; at = document.objects[at].parent)
        if (const auto found = numbers.find(at); found != numbers.end()) return found->second;
    return std::nullopt;
}

std::vector<NumaNode> read_hwloc_nodes(const HwlocDocument& document) {
    std::vector<NumaNode> nodes;
    for (const HwlocObject& object : document.objects) {
        if (object.type != "NUMANode") continue;
        NumaNode node;
        node.os_index = object.os_index.value_or(static_cast<int>(nodes.size()));
        node.cpus = bitmap_or_empty(object.cpuset);
        node.memory_bytes = object.local_memory;
        const bool seen = std::any_of(nodes.begin(), nodes.end(), [&](const NumaNode& other) {
            return other.os_index == node.os_index;
        });
        if (!seen && nodes.size() < kMostHwlocNodes) nodes.push_back(std::move(node));
    }
    return nodes;
}

/// For each PU the nearest NUMA node: the one with the fewest PUs, the first of equals (memory of
/// several kinds stands beside the same PUs, the ordinary one first).
class NodesByPu {
  public:
    explicit NodesByPu(const std::vector<NumaNode>& nodes) {
        std::vector<const NumaNode*> order;
        for (const NumaNode& node : nodes) order.push_back(&node);
        std::stable_sort(order.begin(), order.end(), [](const NumaNode* a, const NumaNode* b) {
            return a->cpus.count() < b->cpus.count();
        });
        for (const NumaNode* node : order)
            for (const int pu : node->cpus.indices()) by_pu_.emplace(pu, node);
    }

    /// The node around all of `pus`, nothing when they have none in common.
    std::optional<int> of(const CpuSet& pus) const {
        if (pus.empty()) return std::nullopt;
        const auto found = by_pu_.find(pus.indices().front());
        if (found == by_pu_.end() || !found->second->cpus.contains(pus)) return std::nullopt;
        return found->second->os_index;
    }

  private:
    std::unordered_map<int, const NumaNode*> by_pu_;
};

/// A core for each Core object, and for each PU that has none above it.
std::vector<Core> read_hwloc_cores(const HwlocDocument& document) {
    const auto packages = numbered(document, is_hwloc_package);
    auto caches =
        numbered(document, [](const HwlocObject& object) { return is_hwloc_cache(object, 3); });
    if (caches.empty())  // the last level of small machines
        caches =
            numbered(document, [](const HwlocObject& object) { return is_hwloc_cache(object, 2); });
    std::map<std::size_t, std::vector<int>> pus;  // by the core's position
    for (std::size_t i = 0; i < document.objects.size(); ++i) {
        const HwlocObject& object = document.objects[i];
        if (object.type != "PU" || !object.os_index) continue;
        const std::size_t core = hwloc_ancestor(document, i, "Core");
        pus[core == kNoParent ? i : core].push_back(*object.os_index);
    }
    std::vector<Core> cores;
    for (auto& [position, indices] : pus) {
        Core core;
        core.pus = CpuSet(std::move(indices));
        core.package = number_above(document, packages, position).value_or(0);
        core.l3 = number_above(document, caches, position);
        cores.push_back(std::move(core));
    }
    return cores;
}

/// In the order of `nodes`; empty unless every pair of them is told.
std::vector<std::vector<int>> read_hwloc_distances(const HwlocDocument& document,
                                                   const std::vector<NumaNode>& nodes) {
    for (const HwlocDistances& distances : document.distances) {
        const std::size_t size = nodes.size();
        if (distances.name != "NUMALatency" || distances.values.size() != size * size) continue;
        std::vector<std::size_t> row_of(size);
        bool complete = distances.objects.empty() || distances.objects.size() == size;
        for (std::size_t node = 0; node < size && complete; ++node) {
            row_of[node] = node;
            if (distances.objects.empty()) continue;
            const auto found = std::find_if(
                distances.objects.begin(), distances.objects.end(), [&](const auto& object) {
                    return object.second == static_cast<std::uint64_t>(nodes[node].os_index);
                });
            complete = distances.by_os_index && found != distances.objects.end();
            row_of[node] = static_cast<std::size_t>(found - distances.objects.begin());
        }
        if (!complete) continue;
        std::vector<std::vector<int>> matrix(size, std::vector<int>(size));
        for (std::size_t a = 0; a < size; ++a)
            for (std::size_t b = 0; b < size; ++b)
                matrix[a][b] = static_cast<int>(std::min<std::uint64_t>(
                    distances.values[row_of[a] * size + row_of[b]], INT32_MAX));
        return matrix;
    }
    return {};
}

std::optional<int> small_number(const std::string& text) {
    const auto value = to_integer(text);
    if (!value || *value < 0 || *value > 100000) return std::nullopt;
    return static_cast<int>(*value);
}

/// 1.x and 2.x write it to each package, a virtual machine sometimes to the machine.
void read_hwloc_model(const HwlocDocument& document, Cpu& cpu) {
    for (const HwlocObject& object : document.objects) {
        if (cpu.vendor.empty()) cpu.vendor = object.info("CPUVendor");
        if (cpu.model.empty()) cpu.model = object.info("CPUModel");
        if (!cpu.family) cpu.family = small_number(object.info("CPUFamilyNumber"));
        if (!cpu.model_number) cpu.model_number = small_number(object.info("CPUModelNumber"));
        if (cpu.architecture.empty()) cpu.architecture = object.info("Architecture");
    }
    const auto found = document.infos.find("Architecture");
    if (cpu.architecture.empty() && found != document.infos.end()) cpu.architecture = found->second;
}

}  // namespace

std::size_t hwloc_ancestor(const HwlocDocument& document, std::size_t object,
                           std::string_view type) {
    while (object != kNoParent && document.objects[object].type != type)
        object = document.objects[object].parent;
    return object;
}

Cpu read_hwloc_processors(const HwlocDocument& document) {
    Cpu cpu;
    read_hwloc_model(document, cpu);
    const auto packages =
        std::count_if(document.objects.begin(), document.objects.end(), is_hwloc_package);
    if (packages > 0) cpu.packages = static_cast<int>(packages);
    cpu.numa_nodes = read_hwloc_nodes(document);
    cpu.cores = read_hwloc_cores(document);
    std::vector<int> every_pu;
    for (const Core& core : cpu.cores)
        every_pu.insert(every_pu.end(), core.pus.indices().begin(), core.pus.indices().end());
    const CpuSet all(std::move(every_pu));
    if (cpu.numa_nodes.empty() && document.version == 1 && !document.cut && !all.empty())
        cpu.numa_nodes.push_back({0, all, document.objects.front().local_memory});
    const NodesByPu nodes(cpu.numa_nodes);
    for (Core& core : cpu.cores) core.numa_node = nodes.of(core.pus);
    cpu.numa_distances = read_hwloc_distances(document, cpu.numa_nodes);
    cpu.allowed = all & bitmap_or_empty(document.objects.front().allowed_cpuset);
    if (cpu.allowed.empty()) cpu.allowed = all;
    return cpu;
}

Locality hwloc_locality(const HwlocDocument& document, const Cpu& cpu, std::size_t object) {
    Locality locality;
    // Devices have neither set; a NUMA node without PUs (a GPU's memory) has an empty cpuset.
    while (object != kNoParent && document.objects[object].cpuset.empty())
        object = document.objects[object].parent;
    if (object == kNoParent) return locality;
    locality.cpus = bitmap_or_empty(document.objects[object].cpuset);
    // Near several nodes: all of them stand around the same PUs, or there is no nearest.
    const CpuSet nodes = bitmap_or_empty(document.objects[object].nodeset);
    const NumaNode* nearest = nullptr;
    for (const NumaNode& node : cpu.numa_nodes) {
        if (!nodes.contains(node.os_index) || node.cpus.empty()) continue;
        if (nearest != nullptr && nearest->cpus != node.cpus) return locality;
        if (nearest == nullptr) nearest = &node;
    }
    if (nearest != nullptr) locality.numa_node = nearest->os_index;
    if (!locality.numa_node && nodes.empty())
        locality.numa_node = NodesByPu(cpu.numa_nodes).of(locality.cpus);
    return locality;
}

}  // namespace toporun::detect
