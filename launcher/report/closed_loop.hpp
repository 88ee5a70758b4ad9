#pragma once

#include <vector>

#include "env/plan.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// What NCCL's log says beside transports and versions (judge.hpp: differences): adapters of the
/// nodes, plugins, channels, CPUs, variables that it never read. Added to `found`.
void add_closed_loop(const RunFacts& facts, std::vector<env::Finding>& found);

}  // namespace toporun::launcher
