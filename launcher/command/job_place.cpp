#include "launcher/command/job_place.hpp"

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {

JobPlace job_place(const Environment& environment, bool typed) {
    JobPlace place;
    if (typed && !variable(environment, "SLURM_PTY_PORT").empty()) return place;
    const auto step = step_of(environment);
    const auto local = to_integer(variable(environment, "SLURM_LOCALID"));
    if (!step || !step->node || !step->task || !local) return place;
    const int local_tasks = step->tasks_here.value_or(1);
    const bool fits = *local >= 0 && *local < local_tasks && *step->node < step->nodes.value_or(1);
    const std::string job = variable(environment, "SLURM_JOB_ID");
    if (!fits || job.empty()) return place;
    place.job = job + "." + variable(environment, "SLURM_STEP_ID");
    const std::string restart = variable(environment, "SLURM_RESTART_COUNT");
    if (!restart.empty() && restart != "0") place.job += ".r" + restart;
    place.node = *step->node;
    place.nodes = step->nodes;
    place.task = *step->task;
    place.local_task = static_cast<int>(*local);
    place.local_tasks = local_tasks;
    place.name = variable(environment, "SLURMD_NODENAME");
    return place;
}

}  // namespace toporun::launcher
