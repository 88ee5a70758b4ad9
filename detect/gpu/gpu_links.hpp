#pragma once

#include <functional>
#include <optional>
#include <vector>

#include "detect/gpu/nvml_report.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Active NVLinks. `direct[a][b]` counts links from GPU a to GPU b (each direction by the word of
/// its own end, so it may be asymmetric), `to_switch[a]` those from GPU a to NVSwitches.
struct NvLinks {
    std::vector<std::vector<int>> direct;
    std::vector<int> to_switch;
    std::vector<int> inactive;  ///< links of a GPU that exist but are down
};

/// `class_of` gives the 24-bit PCI class of a device, nothing when it is not visible. A far end
/// that is hidden (empty or no address, as in VMs) or not visible counts as a switch, as NCCL does.
NvLinks read_links(const NvmlReport& report,
                   const std::function<std::optional<unsigned>(const PciAddress&)>& class_of);

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
