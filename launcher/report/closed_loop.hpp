#pragma once

#include <string_view>
#include <vector>

#include "env/plan.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// Nodes with other RDMA ports than the rest, whether their facts or NCCL's log tell it. NCCL joins
/// the channels of two nodes by position, not by name.
inline constexpr std::string_view kAdaptersDifferEffect =
    "rings run over as many adapters as the node with fewest has, or connect ports of different "
    "networks";
inline constexpr std::string_view kAdaptersDifferFix =
    "ibstat; toporun doctor  # on a node that differs: is a port down, or an adapter missing";

/// What NCCL's log says beside transports and versions (judge.hpp: differences): adapters of the
/// nodes, plugins, channels, CPUs, variables that it never read. Added to `found`.
void add_closed_loop(const RunFacts& facts, std::vector<env::Finding>& found);

}  // namespace toporun::launcher
