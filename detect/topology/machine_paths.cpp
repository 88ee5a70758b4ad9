#include "detect/topology/machine_paths.hpp"

#include <algorithm>
#include <utility>

#include "detect/topology/compute_paths.hpp"
#include "detect/topology/link_graph.hpp"
#include "detect/topology/tree_links.hpp"

namespace toporun::detect {
namespace {

/// The slower and the narrower of two ends; an end that says nothing does not count.
std::optional<int> lower(const std::optional<int>& a, const std::optional<int>& b) {
    if (!a || !b) return a ? a : b;
    return std::min(*a, *b);
}

double link_gbytes_per_s(const WayStation& device, const WayStation* port) {
    if (port == nullptr) return pcie_gbytes_per_s(device.generation, device.width);
    return pcie_gbytes_per_s(lower(device.generation, port->generation),
                             lower(device.width, port->width));
}

class TreeMaker {
  public:
    TreeMaker(const Machine& machine, const MachinePlaces& places)
        : machine_(machine), places_(places) {}

    SystemTree make() {
        const std::size_t gpus = std::min(machine_.gpus.size(), places_.gpus.size());
        for (std::size_t i = 0; i < gpus; ++i)
            if (const auto& place = places_.gpus[i]; place && !place->way.empty())
                add_gpu(machine_.gpus[i], *place);
        const std::size_t nics = std::min(machine_.nics.size(), places_.nics.size());
        for (std::size_t i = 0; i < nics; ++i)
            if (const auto& place = places_.nics[i]; place && !place->way.empty())
                add_nic(machine_.nics[i], *place);
        add_links();
        return std::move(tree_);
    }

  private:
    /// A device whose NUMA node the firmware does not tell is on the node of its host bridge's
    /// other devices; what is left shares one.
    int numa_node(const DevicePlace& place) const {
        if (place.numa_node) return *place.numa_node;
        if (place.host_bridge.empty()) return -1;
        for (const auto* list : {&places_.gpus, &places_.nics})
            for (const auto& other : *list)
                if (other && other->numa_node && other->host_bridge == place.host_bridge)
                    return *other->numa_node;
        return -1;
    }

    std::size_t cpu(const DevicePlace& place) {
        const int node = numa_node(place);
        const auto known =
            std::find_if(tree_.cpus.begin(), tree_.cpus.end(),
                         [&](const TreeCpu& other) { return other.numa_node == node; });
        if (known != tree_.cpus.end()) return static_cast<std::size_t>(known - tree_.cpus.begin());
        const Cpu& facts = machine_.cpu;
        const bool x86 = facts.vendor == "GenuineIntel" || facts.vendor == "AuthenticAMD";
        const std::string architecture =
            facts.architecture.empty() && x86 ? "x86_64" : facts.architecture;
        tree_.cpus.push_back({node, architecture, facts.vendor, facts.family.value_or(0),
                              facts.model_number.value_or(0), ""});
        return tree_.cpus.size() - 1;
    }

    /// Two bridges are a switch, named by the upper one (src/graph/xml.cc goes up two at a time).
    TreeParent parent(const DevicePlace& place) {
        TreeParent result{cpu(place), std::nullopt};
        const auto& way = place.way;
        std::size_t top = way.size() - 1;  // bridges are 1 to top; upper ports 2, 4, ...
        for (std::size_t i = top - top % 2; i >= 2; i -= 2) {
            const auto known = std::find_if(
                tree_.switches.begin(), tree_.switches.end(),
                [&](const TreeSwitch& other) { return other.address == way[i].address; });
            if (known == tree_.switches.end()) {
                const WayStation* port = i < top ? &way[i + 1] : nullptr;
                tree_.switches.push_back(
                    {way[i].address, result, link_gbytes_per_s(way[i], port), way[i].ids, {}});
                result.pci_switch = tree_.switches.size() - 1;
            } else {
                result.pci_switch = static_cast<std::size_t>(known - tree_.switches.begin());
            }
        }
        return result;
    }

    static double up_gbytes_per_s(const DevicePlace& place) {
        return link_gbytes_per_s(place.way[0], place.way.size() > 1 ? &place.way[1] : nullptr);
    }

    void add_gpu(const Gpu& gpu, const DevicePlace& place) {
        TreeGpu entry;
        entry.address = place.way[0].address;
        entry.parent = parent(place);
        entry.gbytes_per_s = up_gbytes_per_s(place);
        entry.index = gpu.index;
        entry.compute_capability = gpu.compute_capability;
        if (gpu.vendor == "amd")
            entry.amd_architecture = gpu.architecture.empty() ? "gfx" : gpu.architecture;
        entry.c2c_gbytes_per_s = gpu.c2c_gbytes_per_s.value_or(0);
        tree_.gpus.push_back(std::move(entry));
    }

    void add_nic(const Nic& nic, const DevicePlace& place) {
        TreeAdapter entry;
        entry.address = place.way[0].address;
        entry.parent = parent(place);
        entry.gbytes_per_s = up_gbytes_per_s(place);
        constexpr double kDefault = 1.25;  // 10 Gb/s, as NCCL where the speed is unknown
        const double speed =
            nic.speed_gbits && *nic.speed_gbits > 0 ? *nic.speed_gbits / 8 : kDefault;
        entry.nets.push_back({nic.name, speed, rdma_usable(nic), true});
        tree_.adapters.push_back(std::move(entry));
    }

    TreeGpu* find(const std::optional<PciAddress>& address) {
        const auto found = std::find_if(tree_.gpus.begin(), tree_.gpus.end(),
                                        [&](const TreeGpu& gpu) { return address == gpu.address; });
        return found == tree_.gpus.end() ? nullptr : &*found;
    }

    /// The matrix speaks for both ends; single links only where there is none.
    void add_links() {
        const bool matrix = machine_.gpu_links.size() == machine_.gpus.size();
        for (std::size_t i = 0; i < machine_.gpus.size(); ++i) {
            TreeGpu* gpu = find(machine_.gpus[i].pci);
            if (gpu == nullptr) continue;
            if (matrix) add_pairs(i, *gpu);
            for (const GpuLink& link : machine_.gpus[i].links)
                if (link.active.value_or(true) && (!matrix || link.peer_kind == "cpu"))
                    add_link(link, *gpu);
        }
    }

    void add_pairs(std::size_t a, TreeGpu& gpu) {
        const std::vector<int>& row = machine_.gpu_links[a];
        int most = 0;
        for (std::size_t b = 0; b < row.size() && b < machine_.gpus.size(); ++b) {
            if (b == a || row[b] <= 0) continue;
            most = std::max(most, row[b]);
            if (!machine_.nvswitch && machine_.gpus[b].pci)
                gpu.links.push_back({LinkTarget::gpu, *machine_.gpus[b].pci, row[b]});
        }
        if (machine_.nvswitch && most > 0) gpu.links.push_back({LinkTarget::nvswitch, {}, most});
    }

    void add_link(const GpuLink& link, TreeGpu& gpu) {
        if (link.peer_kind == "cpu")
            gpu.links.push_back({LinkTarget::cpu, {}, 1});
        else if (link.peer && find(link.peer) != nullptr)
            gpu.links.push_back({LinkTarget::gpu, *link.peer, 1});
        else if (link.peer_kind != "gpu")  // a hidden far end is a switch to NCCL
            gpu.links.push_back({LinkTarget::nvswitch, {}, 1});
    }

    const Machine& machine_;
    const MachinePlaces& places_;
    SystemTree tree_;
};

/// Positions in the list that have a place: the order of the tree.
std::vector<std::size_t> placed(std::size_t count,
                                const std::vector<std::optional<DevicePlace>>& places) {
    std::vector<std::size_t> positions;
    for (std::size_t i = 0; i < std::min(count, places.size()); ++i)
        if (places[i] && !places[i]->way.empty()) positions.push_back(i);
    return positions;
}

}  // namespace

SystemTree make_tree(const Machine& machine, const MachinePlaces& places) {
    return TreeMaker(machine, places).make();
}

void fill_paths(Machine& machine, const MachinePlaces& places) {
    const std::vector<std::size_t> gpus = placed(machine.gpus.size(), places.gpus);
    const std::vector<std::size_t> nics = placed(machine.nics.size(), places.nics);
    const TreePaths paths = compute_paths(
        make_tree(machine, places), {nccl_version_code(machine.software.nccl_version), true, true});
    if (!gpus.empty() && gpus.size() == machine.gpus.size()) take_gpu_paths(paths, machine);
    machine.gpu_nic_paths.clear();
    if (machine.gpus.empty() || machine.nics.empty()) return;
    machine.gpu_nic_paths.assign(machine.gpus.size(),
                                 std::vector<std::optional<PathType>>(machine.nics.size()));
    for (std::size_t g = 0; g < gpus.size(); ++g)
        for (std::size_t n = 0; n < nics.size(); ++n)
            machine.gpu_nic_paths[gpus[g]][nics[n]] = paths.nets[g][n].type;
}

}  // namespace toporun::detect
