#include "detect/gpu/gpu_links.hpp"

#include <algorithm>

namespace toporun::detect {
namespace {

/// Position of the GPU with this address, or the number of GPUs.
std::size_t position_of(const std::vector<Gpu>& gpus, const PciAddress& address) {
    const auto found =
        std::find_if(gpus.begin(), gpus.end(), [&](const Gpu& gpu) { return gpu.pci == address; });
    return static_cast<std::size_t>(found - gpus.begin());
}

}  // namespace

bool leads_to_switch(const GpuLink& link) {
    return link.active == true && (link.peer_kind == "switch" || link.peer_kind.empty());
}

NvLinks count_links(const std::vector<Gpu>& gpus) {
    const std::size_t count = gpus.size();
    NvLinks links{std::vector(count, std::vector<int>(count)), std::vector<int>(count),
                  std::vector<int>(count)};
    for (std::size_t a = 0; a < count; ++a)
        for (const GpuLink& link : gpus[a].links) {
            if (link.active == false) ++links.inactive[a];
            if (link.active != true) continue;
            const std::size_t b = link.peer ? position_of(gpus, *link.peer) : count;
            if (b < count && b != a)
                ++links.direct[a][b];
            else if (!link.peer || (b == count && leads_to_switch(link)))
                ++links.to_switch[a];
        }
    return links;
}

std::vector<std::vector<int>> pair_links(const NvLinks& links) {
    const std::size_t count = links.to_switch.size();
    std::vector<std::vector<int>> pairs(count, std::vector<int>(count));
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b) {
            if (a == b) continue;
            const int direct = std::min(links.direct[a][b], links.direct[b][a]);
            pairs[a][b] = direct > 0 ? direct : std::min(links.to_switch[a], links.to_switch[b]);
        }
    return pairs;
}

std::vector<std::vector<PathType>> gpu_path_matrix(const PciePaths& pcie,
                                                   const std::vector<std::vector<int>>& links) {
    const std::size_t count = pcie.size();
    std::vector<std::vector<PathType>> paths(count, std::vector(count, PathType::LOC));
    const auto linked = [&](std::size_t a, std::size_t b) {
        return a < links.size() && b < links.size() && links[a][b] > 0;
    };
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b) {
            if (a == b) continue;
            bool through_third = false;
            for (std::size_t c = 0; c < count; ++c)
                through_third = through_third || (linked(a, c) && linked(c, b));
            if (linked(a, b))
                paths[a][b] = PathType::NVL;
            else if (through_third)
                paths[a][b] = PathType::NVB;
            else if (pcie[a][b])
                paths[a][b] = *pcie[a][b];
            else
                return {};
        }
    return paths;
}

}  // namespace toporun::detect
