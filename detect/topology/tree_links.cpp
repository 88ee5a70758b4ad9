#include "detect/topology/tree_links.hpp"

#include <algorithm>

#include "detect/gpu/gpu_links.hpp"
#include "detect/topology/link_graph.hpp"

namespace toporun::detect {
namespace {

int links_to(const TreeGpu& gpu, const PciAddress& peer) {
    int count = 0;
    for (const TreeNvLink& link : gpu.links)
        if (link.target == LinkTarget::gpu && link.address == peer) count += link.count;
    return count;
}

int links_to_switches(const TreeGpu& gpu) {
    int count = 0;
    for (const TreeNvLink& link : gpu.links)
        if (link.target == LinkTarget::nvswitch) count += link.count;
    return count;
}

}  // namespace

std::vector<std::vector<int>> pair_links(const SystemTree& tree) {
    const std::size_t count = tree.gpus.size();
    NvLinks links{std::vector(count, std::vector<int>(count)), {}, {}};
    for (const TreeGpu& gpu : tree.gpus) links.to_switch.push_back(links_to_switches(gpu));
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b)
            if (a != b) links.direct[a][b] = links_to(tree.gpus[a], tree.gpus[b].address);
    return pair_links(links);
}

bool has_nvswitch(const SystemTree& tree) {
    return std::any_of(tree.gpus.begin(), tree.gpus.end(),
                       [](const TreeGpu& gpu) { return links_to_switches(gpu) > 0; });
}

void take_gpu_paths(const TreePaths& paths, Machine& machine) {
    machine.gpu_paths.clear();
    machine.gpu_path_gbytes_per_s.clear();
    for (std::size_t a = 0; a < paths.gpus.size(); ++a) {
        std::vector<PathType> types;
        std::vector<std::optional<double>> bandwidths;
        for (std::size_t b = 0; b < paths.gpus.size(); ++b) {
            // One direction may be the better one on odd machines: what NCCL uses is the worse.
            const Path& there = paths.gpus[a][b];
            const Path& back = paths.gpus[b][a];
            types.push_back(std::max(there.type, back.type));
            const double bandwidth = std::min(there.gbytes_per_s, back.gbytes_per_s);
            const bool limited = a != b && bandwidth > 0 && bandwidth < kUnlimitedGbytes;
            bandwidths.push_back(limited ? std::optional(bandwidth) : std::nullopt);
        }
        machine.gpu_paths.push_back(std::move(types));
        machine.gpu_path_gbytes_per_s.push_back(std::move(bandwidths));
    }
}

}  // namespace toporun::detect
