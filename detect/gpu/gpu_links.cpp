#include "detect/gpu/gpu_links.hpp"

#include <algorithm>

namespace toporun::detect {
namespace {

constexpr unsigned kSwitchClass = 0x068000;  ///< 0x068001 is a POWER9 CPU (NCCL src/graph/topo.cc)

/// Position of the GPU with this address, or the number of GPUs.
std::size_t position_of(const NvmlReport& report, const PciAddress& address) {
    std::size_t position = 0;
    while (position < report.gpu_count &&
           PciAddress::parse(report.gpus[position].pci.data()) != address)
        ++position;
    return position;
}

}  // namespace

NvLinks read_links(const NvmlReport& report,
                   const std::function<std::optional<unsigned>(const PciAddress&)>& class_of) {
    const std::size_t count = report.gpu_count;
    NvLinks links{std::vector(count, std::vector<int>(count)), std::vector<int>(count),
                  std::vector<int>(count)};
    for (std::size_t a = 0; a < count; ++a) {
        const NvmlGpu& gpu = report.gpus[a];
        for (std::size_t link = 0; link < nvml::kMostLinks; ++link) {
            if (gpu.link_active[link] == 0) ++links.inactive[a];
            if (gpu.link_active[link] != 1) continue;
            const auto peer = PciAddress::parse(gpu.link_peer[link].data());
            const std::size_t b = peer ? position_of(report, *peer) : count;
            if (b < count && b != a)
                ++links.direct[a][b];
            else if (!peer ||
                     (b == count && class_of(*peer).value_or(kSwitchClass) == kSwitchClass))
                ++links.to_switch[a];
        }
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
