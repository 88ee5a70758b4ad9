#pragma once

#include <vector>

#include "env/nccl_defaults.hpp"

namespace toporun::env {

/// What is worth saying of the user's own P2P variables, and of pairs that will stop NCCL. `wanted`
/// is toporun's own choice, `defaults` NCCL's switches without any variable; `faulty`: P2P that may
/// hang or lose data stands between the two.
std::vector<Finding> p2p_user_findings(const Inputs& inputs, const PairMatrix& matrix,
                                       const Setting& wanted, const TransportSwitches& defaults,
                                       bool faulty);

}  // namespace toporun::env
