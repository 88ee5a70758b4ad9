#include "detect/topology/compute_paths.hpp"

#include <algorithm>

#include "detect/topology/fold_switches.hpp"
#include "detect/topology/link_graph.hpp"

namespace toporun::detect {
namespace {

/// The search and its later steps, on the graph of one tree.
class PathSearch {
  public:
    PathSearch(const SystemTree& tree, const PathRules& rules)
        : graph_(make_link_graph(tree, rules.nccl_version)),
          rules_(rules),
          version_(rules.nccl_version.value_or(kNewestNccl)) {
        for (const TreeGpu& gpu : tree.gpus) gpus_.push_back(&gpu);
        for (const TreeAdapter& adapter : tree.adapters)
            for (const TreeNet& net : adapter.nets) nets_.push_back(&net);
        to_cpus_ = paths_to(graph_.cpus);
        to_gpus_ = paths_to(graph_.gpus);
        to_nets_ = paths_to(graph_.nets);
        if (version_ >= 2'30'00) count_device_nodes();
        if (version_ >= 2'27'00) shorten_over_c2c();
        if (version_ >= 2'12'00 && rules.pxn) relay_over_nvlink();
        divert_without_gpu_direct();
    }

    TreePaths result() const {
        TreePaths paths;
        for (const std::size_t gpu : graph_.gpus) {
            std::vector<Path> to_gpus;
            for (const auto& to : to_gpus_) to_gpus.push_back(to[gpu]);
            paths.gpus.push_back(std::move(to_gpus));
            std::vector<Path> to_nets;
            for (const auto& to : to_nets_) to_nets.push_back(to[gpu]);
            paths.nets.push_back(std::move(to_nets));
        }
        return paths;
    }

  private:
    /// Per base a path from every node of the graph.
    using PathsToBases = std::vector<std::vector<Path>>;

    PathsToBases paths_to(const std::vector<std::size_t>& bases) const {
        PathsToBases all;
        for (const std::size_t base : bases) all.push_back(paths_to_base(base));
        return all;
    }

    /// A GPU passes traffic on to another GPU over NVLink, one hop from the base only.
    bool may_pass(std::size_t base, std::size_t node, const GraphLink& link,
                  const Path& path) const {
        if (node == base || graph_.nodes[node].kind != NodeKind::gpu) return true;
        return rules_.nvb && link.kind == PathType::NVL &&
               graph_.nodes[link.to].kind == NodeKind::gpu && path.hops <= 1;
    }

    PathType type_over(std::size_t node, const GraphLink& link, const Path& path) const {
        const NodeKind from = graph_.nodes[node].kind;
        const NodeKind to = graph_.nodes[link.to].kind;
        PathType type = link.kind;
        if (from == NodeKind::pci && to == NodeKind::pci) type = PathType::PXB;
        if (link.kind == PathType::PIX && (from == NodeKind::cpu || to == NodeKind::cpu))
            type = PathType::PHB;
        if (from == NodeKind::gpu && path.type == PathType::NVL && type == PathType::NVL)
            type = PathType::NVB;
        return std::max(path.type, type);
    }

    /// 2.30.7 looks at the type first, older versions at the hops, then at the bandwidth.
    bool better(const Path& found, const Path& known) const {
        if (version_ < 2'30'07)
            return (known.gbytes_per_s == 0 || known.hops >= found.hops) &&
                   known.gbytes_per_s < found.gbytes_per_s;
        if (found.type != known.type) return found.type < known.type;
        if (found.gbytes_per_s != known.gbytes_per_s)
            return found.gbytes_per_s > known.gbytes_per_s;
        return found.hops < known.hops;
    }

    /// Breadth first from the base outwards (ncclTopoSetPaths).
    std::vector<Path> paths_to_base(std::size_t base) const {
        std::vector<Path> paths(graph_.nodes.size());
        paths[base] = {PathType::LOC, kUnlimitedGbytes, 0};
        std::vector<std::size_t> front{base};
        // Every round lengthens or widens a path; the bound is for graphs that NCCL would refuse.
        for (std::size_t round = 0; !front.empty() && round <= graph_.nodes.size(); ++round) {
            std::vector<std::size_t> next;
            for (const std::size_t node : front)
                for (const GraphLink& link : graph_.nodes[node].links) {
                    if (!link.both_ways || !may_pass(base, node, link, paths[node])) continue;
                    const Path& path = paths[node];
                    const Path found{type_over(node, link, path),
                                     std::min(path.gbytes_per_s, link.gbytes_per_s), path.hops + 1};
                    if (link.to == base || !better(found, paths[link.to])) continue;
                    paths[link.to] = found;
                    if (std::find(next.begin(), next.end(), link.to) == next.end())
                        next.push_back(link.to);
                }
            front = std::move(next);
        }
        return paths;
    }

    /// 2.30 has a node between a GPU and its links: one hop more for each GPU at an end.
    void count_device_nodes() {
        const auto count = [&](PathsToBases& paths, bool gpu_at_base) {
            for (auto& to : paths)
                for (const std::size_t gpu : graph_.gpus)
                    if (to[gpu].hops > 0) to[gpu].hops += gpu_at_base ? 2 : 1;
        };
        count(to_cpus_, false);
        count(to_gpus_, true);
        count(to_nets_, false);
    }

    /// The CPU with the fewest hops; since 2.30.7 with the widest path.
    std::optional<std::size_t> local_cpu(std::size_t gpu) const {
        std::optional<std::size_t> best;
        for (std::size_t c = 0; c < to_cpus_.size(); ++c) {
            const Path& path = to_cpus_[c][graph_.gpus[gpu]];
            if (path.hops == 0) continue;
            if (!best) {
                best = c;
                continue;
            }
            const Path& known = to_cpus_[*best][graph_.gpus[gpu]];
            const bool wider = version_ >= 2'30'07 && path.gbytes_per_s != known.gbytes_per_s;
            if (wider ? path.gbytes_per_s > known.gbytes_per_s : path.hops < known.hops) best = c;
        }
        return best;
    }

    /// P2C: over the C2C link to the CPU, then its own PCIe.
    void shorten_over_c2c() {
        for (std::size_t g = 0; g < graph_.gpus.size(); ++g) {
            const auto cpu = local_cpu(g);
            if (!cpu) continue;
            const auto& to_cpu = to_cpus_[*cpu];
            if (to_cpu[graph_.gpus[g]].type != PathType::C2C) continue;
            const std::vector<std::size_t> local = nets_of_gpu(g);
            for (std::size_t n = 0; n < graph_.nets.size(); ++n) {
                if (to_cpu[graph_.nets[n]].type != PathType::PHB) continue;
                if (version_ >= 2'30'07 && std::find(local.begin(), local.end(), n) == local.end())
                    continue;
                PathType& there = to_nets_[n][graph_.gpus[g]].type;
                PathType& back = to_gpus_[g][graph_.nets[n]].type;
                there = std::min(PathType::P2C, there);
                back = std::min(PathType::P2C, back);
            }
        }
    }

    /// Positions of the widest paths, of them the nearest (ncclTopoGetLocal).
    template <typename PathAt>
    static std::vector<std::size_t> widest(std::size_t count, const PathAt& path_at) {
        std::vector<std::size_t> found;
        Path best;
        for (std::size_t i = 0; i < count; ++i) {
            const Path& path = path_at(i);
            const bool same = path.gbytes_per_s == best.gbytes_per_s;
            if (path.gbytes_per_s > best.gbytes_per_s || (same && path.type < best.type)) {
                best = path;
                found.clear();
            }
            if (path.gbytes_per_s == best.gbytes_per_s && path.type == best.type)
                found.push_back(i);
        }
        return found;
    }

    std::vector<std::size_t> nets_of_gpu(std::size_t gpu) const {
        return widest(graph_.nets.size(),
                      [&](std::size_t n) -> const Path& { return to_nets_[n][graph_.gpus[gpu]]; });
    }

    std::vector<std::size_t> gpus_of_net(std::size_t net) const {
        return widest(graph_.gpus.size(),
                      [&](std::size_t g) -> const Path& { return to_gpus_[g][graph_.nets[net]]; });
    }

    /// Bits of a number below a power of two in reverse, so that neighbours use distant nets.
    static std::size_t mirrored(std::size_t value, std::size_t power_of_two) {
        std::size_t result = 0;
        for (std::size_t bit = 1, other = power_of_two >> 1; bit < power_of_two;
             bit <<= 1, other >>= 1)
            if ((value & bit) != 0) result |= other;
        return result;
    }

    /// In which channel a GPU turns to the net first (ncclTopoGetLocalNet), nothing = never.
    std::optional<std::size_t> channel_of(std::size_t gpu, std::size_t net) const {
        const std::vector<std::size_t> nets = nets_of_gpu(gpu);
        const std::size_t count = nets.size();
        if (count == 0) return std::nullopt;
        const std::size_t sharing = std::max<std::size_t>(gpus_of_net(nets.front()).size(), 1);
        const std::size_t nets_per_gpu = (count + sharing - 1) / sharing;
        auto first = static_cast<std::size_t>(std::max(gpus_[gpu]->index, 0));
        if ((count & (count - 1)) == 0) first = mirrored(first, count);
        constexpr std::size_t kChannels = 64;
        for (std::size_t channel = 0; channel < std::min(nets_per_gpu, kChannels); ++channel)
            if (nets[(first + channel) % count] == net) return channel;
        return std::nullopt;
    }

    /// The GPU that uses a net first and passes it on to others.
    std::optional<std::size_t> relay_of(std::size_t net) const {
        std::optional<std::size_t> best;
        std::size_t best_channel = 0;
        for (const std::size_t gpu : gpus_of_net(net)) {
            const auto channel = channel_of(gpu, net);
            if (!channel || (best && *channel >= best_channel)) continue;
            best = gpu;
            best_channel = *channel;
        }
        return best;
    }

    /// PXN: to a net through the GPU beside it.
    void relay_over_nvlink() {
        const PathType near = version_ >= 2'27'00 ? PathType::P2C : PathType::PXB;
        for (std::size_t n = 0; n < graph_.nets.size(); ++n) {
            const bool usable = nets_[n]->relay && nets_[n]->gpu_direct;
            const auto relay = usable ? relay_of(n) : std::nullopt;
            if (relay && !gpus_[*relay]->gpu_direct) continue;
            if (!relay) continue;
            const Path& rest = to_nets_[n][graph_.gpus[*relay]];
            for (std::size_t g = 0; g < graph_.gpus.size(); ++g) {
                Path& path = to_nets_[n][graph_.gpus[g]];
                const Path& hop = to_gpus_[*relay][graph_.gpus[g]];
                const Path& back = to_gpus_[g][graph_.gpus[*relay]];
                if (g == *relay || rest.type > near || back.type > PathType::NVL) continue;
                if (rest.gbytes_per_s > path.gbytes_per_s || path.type > PathType::PXN)
                    path = {PathType::PXN, std::min(hop.gbytes_per_s, rest.gbytes_per_s),
                            hop.hops + rest.hops};
            }
        }
    }

    /// Through the CPU beside the GPU.
    void divert_without_gpu_direct() {
        for (std::size_t g = 0; g < gpus_.size(); ++g)
            for (std::size_t n = 0; n < nets_.size(); ++n) {
                Path& path = to_nets_[n][graph_.gpus[g]];
                if ((gpus_[g]->gpu_direct && nets_[n]->gpu_direct) || path.type >= PathType::PHB)
                    continue;
                const auto cpu = local_cpu(g);
                if (!cpu) continue;
                const Path& up = to_cpus_[*cpu][graph_.gpus[g]];
                const Path& down = to_nets_[n][graph_.cpus[*cpu]];
                path = {std::max(up.type, down.type), std::min(up.gbytes_per_s, down.gbytes_per_s),
                        up.hops + down.hops};
            }
    }

    LinkGraph graph_;
    PathRules rules_;
    int version_;
    std::vector<const TreeGpu*> gpus_;  ///< of the caller's tree, in its order
    std::vector<const TreeNet*> nets_;
    PathsToBases to_cpus_;
    PathsToBases to_gpus_;
    PathsToBases to_nets_;
};

}  // namespace

TreePaths compute_paths(SystemTree tree, const PathRules& rules) {
    fold_switches(tree, rules.nccl_version);
    return PathSearch(tree, rules).result();
}

}  // namespace toporun::detect
