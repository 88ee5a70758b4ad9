#include "launcher/command/job_place.hpp"

#include "launcher/command/families.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {

JobPlace job_place(const Environment& environment) {
    JobPlace place;
    const auto step = task_of_step(environment);
    const std::string job = variable(environment, "SLURM_JOB_ID");
    if (!step || job.empty()) return place;
    place.job = job + "." + variable(environment, "SLURM_STEP_ID");
    const std::string restart = variable(environment, "SLURM_RESTART_COUNT");
    if (!restart.empty() && restart != "0") place.job += ".r" + restart;
    place.node = *step->node;
    place.nodes = step->nodes;
    place.task = *step->task;
    place.local_task = *step->local_task;
    place.local_tasks = step->tasks_here.value_or(1);
    place.name = variable(environment, "SLURMD_NODENAME");
    return place;
}

}  // namespace toporun::launcher
