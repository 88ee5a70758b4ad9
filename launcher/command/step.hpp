#pragma once

#include <optional>
#include <string_view>

#include "launcher/command/command.hpp"

namespace toporun::launcher {

/// What Slurm tells a task of the step that it belongs to (srun(1), output environment variables).
struct Step {
    std::optional<int> nodes;
    std::optional<int> tasks;       ///< of the whole step
    std::optional<int> node;        ///< place of this node in the step's list, from 0
    std::optional<int> task;        ///< SLURM_PROCID
    std::optional<int> tasks_here;  ///< on this node
};

/// The step that toporun itself runs in. Nothing outside of srun: a batch script has no step id,
/// though it has SLURM_PROCID and SLURM_NODEID.
std::optional<Step> step_of(const Environment& environment);

/// The tasks of node `node` in Slurm's run-length form: "8(x4)", "3,1", "2(x3),1". Nothing for what
/// has another form or fewer nodes.
std::optional<int> tasks_on_node(std::string_view text, int node);

/// The tasks of all nodes in that form, likewise.
std::optional<int> tasks_on_all_nodes(std::string_view text);

}  // namespace toporun::launcher
