#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::detect {

/// Active NVLinks. `direct[a][b]` counts links from GPU a to GPU b (each direction by the word of
/// its own end, so it may be asymmetric), `to_switch[a]` those from GPU a to NVSwitches.
struct NvLinks {
    std::vector<std::vector<int>> direct;
    std::vector<int> to_switch;
    std::vector<int> inactive;  ///< links of a GPU that exist but are down
};

/// Counted from Gpu::links. A far end that is hidden, as in VMs, or of no known kind counts as a
/// switch, as NCCL does (src/graph/xml.cc).
NvLinks count_links(const std::vector<Gpu>& gpus);

/// Whether an active link leads to a switch: by its kind, or to something hidden of no known kind.
bool leads_to_switch(const GpuLink& link);

/// Links of each pair: direct ones that both ends report, else through switches the smaller number
/// of the two GPUs. Symmetric, 0 on the diagonal.
std::vector<std::vector<int>> pair_links(const NvLinks& links);

/// Path of each pair over PCIe, LOC on the diagonal; empty cells are unknown.
using PciePaths = std::vector<std::vector<std::optional<PathType>>>;

/// NCCL's path matrix from the paths over PCIe and the NVLinks of each pair: NVL on links, NVB
/// where a third GPU has links to both, else the PCIe path. Empty when one pair stays unknown.
std::vector<std::vector<PathType>> gpu_path_matrix(const PciePaths& pcie,
                                                   const std::vector<std::vector<int>>& links);

}  // namespace toporun::detect
