#pragma once

#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

struct P2pDecision {
    std::vector<Setting> settings;  ///< NCCL_P2P_LEVEL always, NCCL_P2P_DISABLE when it matters
    std::vector<Pair> pairs;        ///< of gpus_in_job()
    std::vector<Finding> findings;
};

/// Which GPU pairs should use P2P, and the level that gives it. The level is decided for all
/// visible GPUs, so that it holds whichever of them the ranks take.
P2pDecision decide_p2p(const Inputs& inputs);

/// A reason to keep PCIe P2P off although the driver offers it. Empty `id` = none.
struct P2pFault {
    std::string id;
    std::string what;
    std::string evidence;
    std::string fix;
};

/// The faults of this machine that make P2P over PCIe hang or lose data, gravest first.
std::vector<P2pFault> p2p_faults(const Inputs& inputs);

}  // namespace toporun::env
