#pragma once

#include <string>
#include <vector>

#include "launcher/cli/prepare.hpp"

namespace toporun::launcher {

/// What toporun on the other hosts of the job is told, which node_agent.hpp reads; for a toporun
/// that stands in front of a launcher on each node (Guard::toporun) this run's own options.
std::vector<std::string> words_for_nodes(const Prepared& prepared, const Arguments& arguments);

}  // namespace toporun::launcher
