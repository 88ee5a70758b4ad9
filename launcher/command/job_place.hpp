#pragma once

#include <optional>
#include <string>

#include "launcher/command/command.hpp"

namespace toporun::launcher {

/// Where one toporun stands among those of the same job step, which share a run directory.
struct JobPlace {
    std::string job;           ///< the step and its restart: "4711.0", "4711.0.r1"; "" = none
    int node = 0;              ///< number of this node in the step
    std::optional<int> nodes;  ///< of the step; empty = unknown
    int task = 0;              ///< number of this toporun in the step
    int local_task = 0;        ///< on this node
    int local_tasks = 1;       ///< toporuns of the step on this node
    std::string name;          ///< what the scheduler calls this node; "" = unknown
    /// Others share the run directory.
    bool shared() const { return !job.empty() && (nodes.value_or(1) > 1 || local_tasks > 1); }
    /// The one that speaks for all: lines at the start and the end, comparison of the nodes.
    bool leads() const { return task == 0; }
};

/// The place of a toporun that srun started, one a task. Alone outside of a Slurm step, and where
/// what Slurm tells does not fit together (task_of_step).
JobPlace job_place(const Environment& environment);

}  // namespace toporun::launcher
