#include "detect/topology/link_graph.hpp"

#include <algorithm>

#include "detect/topology/link_bandwidth.hpp"

namespace toporun::detect {
namespace {

class GraphMaker {
  public:
    GraphMaker(const SystemTree& tree, std::optional<int> nccl_version)
        : tree_(tree), nccl_version_(nccl_version) {}

    LinkGraph make() {
        for (std::size_t i = 0; i < tree_.cpus.size(); ++i)
            graph_.cpus.push_back(add(NodeKind::cpu));
        for (std::size_t i = 0; i < tree_.switches.size(); ++i)
            switches_.push_back(add(NodeKind::pci));
        for (std::size_t i = 0; i < tree_.switches.size(); ++i)
            join_up(switches_[i], tree_.switches[i]);
        for (const TreeGpu& gpu : tree_.gpus) {
            graph_.gpus.push_back(add(NodeKind::gpu));
            join_up(graph_.gpus.back(), gpu);
        }
        for (const TreeAdapter& adapter : tree_.adapters) add_adapter(adapter);
        for (std::size_t i = 0; i < tree_.gpus.size(); ++i) add_gpu_links(i);
        join_peers();
        join_cpus();
        for (GraphNode& node : graph_.nodes) sort_links(node);
        mark_one_way_links();
        return std::move(graph_);
    }

  private:
    std::size_t add(NodeKind kind) {
        graph_.nodes.push_back({kind, {}});
        return graph_.nodes.size() - 1;
    }

    /// Links between the same two nodes add up.
    void join(std::size_t from, std::size_t to, PathType kind, double gbytes_per_s) {
        auto& links = graph_.nodes[from].links;
        const auto known = std::find_if(links.begin(), links.end(), [&](const GraphLink& link) {
            return link.to == to && link.kind == kind;
        });
        if (known == links.end())
            links.push_back({to, kind, gbytes_per_s, true});
        else
            known->gbytes_per_s += gbytes_per_s;
    }

    void join_both(std::size_t a, std::size_t b, PathType kind, double gbytes_per_s) {
        join(a, b, kind, gbytes_per_s);
        join(b, a, kind, gbytes_per_s);
    }

    template <typename Device>
    void join_up(std::size_t node, const Device& device) {
        const TreeParent& parent = device.parent;
        const std::size_t up =
            parent.pci_switch ? switches_[*parent.pci_switch] : graph_.cpus[parent.cpu];
        join_both(node, up, PathType::PIX, device.gbytes_per_s);
    }

    void add_adapter(const TreeAdapter& adapter) {
        const std::size_t nic = add(NodeKind::nic);
        join_up(nic, adapter);
        for (const TreeNet& net : adapter.nets) {
            graph_.nets.push_back(add(NodeKind::net));
            join_both(nic, graph_.nets.back(), PathType::LOC, net.gbytes_per_s);
        }
    }

    /// The CPU above a device, not the word of its parent: a switch may have been folded.
    std::size_t cpu_of(const TreeParent& parent) const {
        TreeParent up = parent;
        while (up.pci_switch) up = tree_.switches[*up.pci_switch].parent;
        return graph_.cpus[up.cpu];
    }

    void add_gpu_links(std::size_t position) {
        const TreeGpu& gpu = tree_.gpus[position];
        const std::size_t node = graph_.gpus[position];
        const double one = gpu.amd_architecture.empty()
                               ? nvlink_gbytes_per_s(gpu.compute_capability, nccl_version_)
                               : xgmi_gbytes_per_s(gpu.amd_architecture);
        for (const TreeNvLink& link : gpu.links) {
            const double all = link.count * one;
            if (link.target == LinkTarget::cpu)
                join_both(node, cpu_of(gpu.parent), PathType::NVL, all);
            else if (link.target == LinkTarget::nvswitch)
                join_both(node, nvswitch(), PathType::NVL, all);
            else
                join_gpu(node, link.address, all);
        }
        if (gpu.c2c_gbytes_per_s > 0)
            join_both(node, cpu_of(gpu.parent), PathType::C2C, gpu.c2c_gbytes_per_s);
    }

    void join_gpu(std::size_t node, const PciAddress& peer, double gbytes_per_s) {
        for (std::size_t i = 0; i < tree_.gpus.size(); ++i)
            if (tree_.gpus[i].address == peer && graph_.gpus[i] != node)
                join(node, graph_.gpus[i], PathType::NVL, gbytes_per_s);
    }

    /// NCCL knows one NVSwitch, which stands for all.
    std::size_t nvswitch() {
        if (!nvswitch_) nvswitch_ = add(NodeKind::nvswitch);
        return *nvswitch_;
    }

    void join_peers() {
        for (std::size_t i = 0; i < tree_.switches.size(); ++i)
            for (const PciAddress& peer : tree_.switches[i].peers)
                for (std::size_t k = 0; k < tree_.switches.size(); ++k)
                    if (k != i && tree_.switches[k].address == peer)
                        join(switches_[i], switches_[k], PathType::LOC, kUnlimitedGbytes);
    }

    void join_cpus() {
        for (std::size_t a = 0; a < tree_.cpus.size(); ++a)
            for (std::size_t b = 0; b < tree_.cpus.size(); ++b)
                if (a != b && tree_.cpus[a].host == tree_.cpus[b].host)
                    join(graph_.cpus[a], graph_.cpus[b], PathType::SYS,
                         cpu_link_gbytes_per_s(tree_.cpus[a], nccl_version_));
    }

    static void sort_links(GraphNode& node) {
        // PCIe upwards was added first and comes last, except at a CPU, which has none.
        if (node.kind != NodeKind::cpu && node.links.size() > 1 &&
            node.links.front().kind == PathType::PIX) {
            const GraphLink up = node.links.front();
            node.links.erase(node.links.begin());
            widest_first(node);
            node.links.push_back(up);
        } else {
            widest_first(node);
        }
    }

    static void widest_first(GraphNode& node) {
        std::stable_sort(
            node.links.begin(), node.links.end(),
            [](const GraphLink& a, const GraphLink& b) { return a.gbytes_per_s > b.gbytes_per_s; });
    }

    void mark_one_way_links() {
        for (std::size_t from = 0; from < graph_.nodes.size(); ++from)
            for (GraphLink& link : graph_.nodes[from].links) {
                const auto& back = graph_.nodes[link.to].links;
                link.both_ways = std::any_of(back.begin(), back.end(), [&](const GraphLink& other) {
                    return other.to == from && other.kind == link.kind;
                });
            }
    }

    const SystemTree& tree_;
    std::optional<int> nccl_version_;
    LinkGraph graph_;
    std::vector<std::size_t> switches_;
    std::optional<std::size_t> nvswitch_;
};

}  // namespace

LinkGraph make_link_graph(const SystemTree& tree, std::optional<int> nccl_version) {
    return GraphMaker(tree, nccl_version).make();
}

}  // namespace toporun::detect
