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
    std::optional<int> local_task;  ///< SLURM_LOCALID
};

/// The step that toporun itself runs in. Nothing outside of srun: a batch script has no step id,
/// though it has SLURM_PROCID and SLURM_NODEID.
std::optional<Step> step_of(const Environment& environment);

/// The same of a task whose place is known, as far as what Slurm tells fits together; `step->node`,
/// `step->task` and `step->local_task` are there. Nothing in a shell that somebody types into: srun
/// --pty has started one task, whose commands no other task has. `environment` has SLURM_PTY_PORT
/// only there (own_environment in launcher/cli/inputs.hpp), not in what srun starts from within.
std::optional<Step> task_of_step(const Environment& environment);

/// The tasks of node `node` in Slurm's run-length form: "8(x4)", "3,1", "2(x3),1". Nothing for what
/// has another form or fewer nodes.
std::optional<int> tasks_on_node(std::string_view text, int node);

/// The tasks of all nodes in that form, likewise.
std::optional<int> tasks_on_all_nodes(std::string_view text);

}  // namespace toporun::launcher
