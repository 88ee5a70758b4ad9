#pragma once

#include <optional>

#include "detect/topology/system_tree.hpp"

namespace toporun::detect {

/// Broadcom's switches show two levels where there is one crossbar: NCCL hangs the devices of the
/// lower level on the upper one (src/graph/topo.cc, ncclTopoFlattenBcmSwitches; PEX 88000 since
/// 2.9.8, PEX 89000 since 2.20). Positions of switches change.
void fold_switches(SystemTree& tree, std::optional<int> nccl_version);

}  // namespace toporun::detect
