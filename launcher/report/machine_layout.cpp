#include "launcher/report/machine_layout.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.hpp"
#include "detect/gpu/nvlink_rate.hpp"
#include "launcher/report/machine_text.hpp"

namespace toporun::launcher {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;
using detect::PathType;

/// Sets that are joined step by step (union-find).
class Sets {
  public:
    explicit Sets(std::size_t size) : parent_(size) {
        std::iota(parent_.begin(), parent_.end(), std::size_t{0});
    }
    std::size_t find(std::size_t member) {
        while (parent_[member] != member) member = parent_[member] = parent_[parent_[member]];
        return member;
    }
    /// The smaller representative stays, so that sets keep the order of their first members.
    void join(std::size_t a, std::size_t b) {
        const auto [first, second] = std::minmax({find(a), find(b)});
        parent_[second] = first;
    }

  private:
    std::vector<std::size_t> parent_;
};

bool is_drawn(const Machine& machine, std::size_t position) {
    const Nic& nic = machine.nics[position];
    if (nic.rdma_device) return true;
    if (nic.kind == NicKind::other && nearest_gpus(machine, position)) return true;
    const bool device = nic.kind == NicKind::ethernet || nic.kind == NicKind::ipoib ||
                        nic.kind == NicKind::infiniband || nic.kind == NicKind::roce ||
                        nic.kind == NicKind::efa;
    return device && nic.state != "down";
}

/// GPUs first, then the NICs that are drawn.
struct Devices {
    std::size_t gpus = 0;
    std::vector<std::size_t> nics;
    std::size_t size() const { return gpus + nics.size(); }
};

bool is_path(PathType path, PathType farthest) {
    return path == PathType::PIX || (farthest >= PathType::PXB && path == PathType::PXB) ||
           (farthest >= PathType::PHB && path == PathType::PHB);
}

/// Devices joined by PIX, by PIX and PXB, or by these and PHB.
Sets joined_by(const Machine& machine, const Devices& devices, PathType farthest) {
    Sets sets(devices.size());
    for (std::size_t a = 0; has_paths(machine) && a < devices.gpus; ++a)
        for (std::size_t b = 0; b < a; ++b)
            if (is_path(machine.gpu_paths[a][b], farthest)) sets.join(a, b);
    for (std::size_t gpu = 0; has_nic_paths(machine) && gpu < devices.gpus; ++gpu)
        for (std::size_t n = 0; n < devices.nics.size(); ++n) {
            const auto& path = machine.gpu_nic_paths[gpu][devices.nics[n]];
            if (path && is_path(*path, farthest)) sets.join(gpu, devices.gpus + n);
        }
    return sets;
}

std::optional<int> numa_node_of(const Machine& machine, const Devices& devices,
                                std::size_t device) {
    const std::optional<int> node =
        device < devices.gpus ? machine.gpus[device].numa_node
                              : machine.nics[devices.nics[device - devices.gpus]].numa_node;
    if (!node && machine.cpu.numa_nodes.size() == 1) return machine.cpu.numa_nodes.front().os_index;
    return node;
}

std::string title_of(const Machine& machine, const std::optional<int>& numa_node) {
    if (!numa_node) return "NUMA node unknown";
    std::string title = fmt::format("NUMA node {}", *numa_node);
    for (const detect::NumaNode& node : machine.cpu.numa_nodes) {
        if (node.os_index != *numa_node) continue;
        if (!node.cpus.empty()) title += ", CPUs " + cpu_list(node.cpus);
        if (node.memory_bytes) title += ", " + bytes_text(*node.memory_bytes);
    }
    return title;
}

/// What each device's place follows from. Vectors are indexed by device.
struct Neighbours {
    std::vector<std::optional<int>> numa_node;  ///< its own, else the one of those it is joined to
    std::vector<std::size_t> around_cpu;        ///< first device that it reaches through one CPU
    std::vector<bool> apart;                    ///< of such a first device: the set is a place
};

/// The node of a set is that of its first device whose node is known: a tree of switches lies on
/// one node, and by PHB no path leaves a node.
void spread_nodes(Sets& sets, std::vector<std::optional<int>>& nodes) {
    std::map<std::size_t, std::optional<int>> node_of_set;
    for (std::size_t device = 0; device < nodes.size(); ++device)
        if (auto& node = node_of_set[sets.find(device)]; !node) node = nodes[device];
    for (std::size_t device = 0; device < nodes.size(); ++device)
        if (!nodes[device]) nodes[device] = node_of_set[sets.find(device)];
}

/// Sets around one CPU that hold several GPUs and reach some GPU outside by SYS.
std::vector<bool> sets_apart(const Machine& machine, const std::vector<std::size_t>& around_cpu) {
    std::vector<bool> several(around_cpu.size(), false);
    std::vector<bool> far(around_cpu.size(), false);
    for (std::size_t a = 0; has_paths(machine) && a < machine.gpus.size(); ++a)
        for (std::size_t b = 0; b < machine.gpus.size(); ++b) {
            const std::size_t set = around_cpu[a];
            if (a != b && around_cpu[b] == set) several[set] = true;
            if (around_cpu[b] != set && machine.gpu_paths[a][b] == PathType::SYS) far[set] = true;
        }
    for (std::size_t set = 0; set < several.size(); ++set) several[set] = several[set] && far[set];
    return several;
}

Neighbours neighbours_of(const Machine& machine, const Devices& devices, Sets& trees, Sets& cpus) {
    Neighbours found;
    for (std::size_t device = 0; device < devices.size(); ++device) {
        found.numa_node.push_back(numa_node_of(machine, devices, device));
        found.around_cpu.push_back(cpus.find(device));
    }
    spread_nodes(trees, found.numa_node);
    spread_nodes(cpus, found.numa_node);
    found.apart = sets_apart(machine, found.around_cpu);
    return found;
}

/// Key of a place, in the order of drawing: its NUMA node; the set of devices around one CPU by its
/// first GPU; the rest.
struct PlaceKey {
    enum Kind { numa, around_cpu, rest } kind = rest;
    std::size_t number = 0;
    friend auto operator<=>(const PlaceKey&, const PlaceKey&) = default;
};

PlaceKey key_of(const std::optional<int>& numa_node) {
    if (numa_node) return {PlaceKey::numa, static_cast<std::size_t>(*numa_node)};
    return {};
}

PlaceKey key_of(const Neighbours& neighbours, std::size_t device) {
    const std::size_t first = neighbours.around_cpu[device];
    if (!neighbours.numa_node[device] && neighbours.apart[first])
        return {PlaceKey::around_cpu, first};
    return key_of(neighbours.numa_node[device]);
}

/// The tree of `device` by the representatives of its switch and its tree of switches.
void add_device(Place& place, const Devices& devices, std::size_t device,
                std::map<std::size_t, std::size_t>& tree_at,
                std::map<std::size_t, std::size_t>& group_at, std::size_t tree, std::size_t group) {
    const auto [in_place, new_tree] = tree_at.try_emplace(tree, place.trees.size());
    if (new_tree) place.trees.emplace_back();
    std::vector<SwitchGroup>& groups = place.trees[in_place->second].groups;
    const auto [in_tree, new_group] = group_at.try_emplace(group, groups.size());
    if (new_group) groups.emplace_back();
    SwitchGroup& found = groups[in_tree->second];
    if (device < devices.gpus)
        found.gpus.push_back(device);
    else
        found.nics.push_back(devices.nics[device - devices.gpus]);
}

}  // namespace

std::vector<Place> layout_of(const Machine& machine) {
    Devices devices{machine.gpus.size(), {}};
    for (std::size_t n = 0; n < machine.nics.size(); ++n)
        if (is_drawn(machine, n)) devices.nics.push_back(n);
    Sets switches = joined_by(machine, devices, PathType::PIX);
    Sets trees = joined_by(machine, devices, PathType::PXB);
    Sets cpus = joined_by(machine, devices, PathType::PHB);

    const Neighbours neighbours = neighbours_of(machine, devices, trees, cpus);
    std::map<PlaceKey, Place> places;
    for (const detect::NumaNode& node : machine.cpu.numa_nodes)
        if (!node.cpus.empty()) places[key_of(node.os_index)].numa_node = node.os_index;
    std::map<std::size_t, std::size_t> tree_at;
    std::map<std::size_t, std::size_t> group_at;
    for (std::size_t device = 0; device < devices.size(); ++device) {
        const PlaceKey key = key_of(neighbours, device);
        Place& place = places[key];
        place.numa_node = neighbours.numa_node[device];
        place.located = key.kind != PlaceKey::rest;
        add_device(place, devices, device, tree_at, group_at, trees.find(device),
                   switches.find(device));
    }
    std::vector<Place> result;
    for (auto& [key, place] : places) {
        place.title = title_of(machine, place.numa_node);
        result.push_back(std::move(place));
    }
    return result;
}

std::string gpu_title(const detect::Gpu& gpu) {
    return fmt::format("GPU {}", gpu.index);
}

std::string nic_title(const Nic& nic) {
    return nic_label(nic);
}

std::string nic_words(const Nic& nic) {
    std::vector<std::string> words;
    if (nic.speed_gbits) words.push_back(rate_text(*nic.speed_gbits) + " Gb/s");
    if (nic.state == "down") words.emplace_back("down");
    return join(words, ", ");
}

std::string pair_text(const Machine& machine, std::size_t a, std::size_t b) {
    const std::string path = path_text(machine, a, b);
    const int links = machine.gpu_links.size() > a && machine.gpu_links[a].size() > b
                          ? machine.gpu_links[a][b]
                          : 0;
    if (const auto rate = detect::nominal_nvlink_gbytes_per_s(machine.gpus[a]); rate && links > 0)
        return fmt::format("{}, {} GB/s", path, rate_text(*rate * links));
    const auto& bandwidths = machine.gpu_path_gbytes_per_s;
    if (bandwidths.size() > a && bandwidths[a].size() > b && bandwidths[a][b])
        return fmt::format("{}, {} GB/s", path, rate_text(*bandwidths[a][b]));
    return path;
}

bool linked_directly(const Machine& machine, std::size_t a, std::size_t b) {
    return !machine.nvswitch && has_paths(machine) && machine.gpu_paths[a][b] == PathType::NVL;
}

std::string switch_links_text(const Machine& machine, std::size_t gpu) {
    const int links = machine.nvswitch ? links_of(machine, gpu).value_or(0) : 0;
    if (links == 0) return {};
    std::string text = counted(static_cast<std::size_t>(links), "link");
    if (const auto rate = detect::nominal_nvlink_gbytes_per_s(machine.gpus[gpu]))
        text += fmt::format(", {} GB/s", rate_text(*rate * links));
    return text;
}

}  // namespace toporun::launcher
