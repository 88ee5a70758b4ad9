#pragma once

#include <vector>

#include "detect/machine.hpp"
#include "env/plan.hpp"
#include "launcher/command/command.hpp"
#include "launcher/preflight/line_facts.hpp"

namespace toporun::launcher {

/// The mistakes of the launch line that the allocation's variables show (docs/launchers.md,
/// "Pre-flight"). `environment` is what the ranks get (variables_of_ranks). Pure; what is not known
/// is no mistake.
std::vector<env::Finding> preflight(const Command& command, const Environment& environment,
                                    const detect::Machine& machine, const LineFacts& facts = {});

}  // namespace toporun::launcher
