#pragma once

#include <vector>

#include "env/carrier.hpp"
#include "env/inputs.hpp"
#include "env/port_roles.hpp"

/// How the data travels between nodes: adapters, GIDs, rails, TCP threads.
namespace toporun::env {

/// Nothing on one node. NCCL_IB_HCA and NCCL_IB_GID_INDEX where this host shows that NCCL's own
/// choice is wrong; for the others of the hardware at hand why they are left to NCCL. What a
/// vendor's plugin owns is not touched.
Decision decide_fabric(const Inputs& inputs);

/// What is worth saying of the user's own values.
std::vector<Finding> fabric_user_findings(const Inputs& inputs, const PortRoles& roles);

}  // namespace toporun::env
