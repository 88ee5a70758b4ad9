#include "launcher/preflight/launch_line.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/step.hpp"
#include "launcher/preflight/node_launcher.hpp"

namespace toporun::launcher {
namespace {

/// srun on the line: its options over the variables that sbatch set. An option of srun's that
/// chooses nodes by name leaves their number open.
void read_srun(LaunchLine& line) {
    const auto nodes =
        said(line.srun, line.environment, {"N", "nodes"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    const auto tasks = said(line.srun, line.environment, {"n", "ntasks"}, {"SLURM_NTASKS"});
    const auto per_node =
        said(line.srun, line.environment, {"ntasks-per-node", "tasks-per-node"}, {});
    // Of the script's number of tasks and an option for nodes it is not certain which wins.
    const auto count = [](const auto& one) {
        return one ? one->count().value_or(0) : 1;  // one task a node
    };
    const bool both = tasks && !tasks->option && nodes && nodes->option;
    const bool agree = both && count(nodes) < 1 << 16 && count(per_node) < 1 << 15 &&
                       tasks->count() == count(nodes) * count(per_node);
    const auto by_name =
        said(line.srun, line.environment, {"w", "nodelist", "F", "nodefile"}, {"SLURM_HOSTFILE"});
    if (said(line.srun, line.environment, {"ntasks-per-gpu"}, {"SLURM_NTASKS_PER_GPU"}) ||
        (both && !agree)) {
        if (nodes) line.nodes = nodes->count();
        if (nodes) line.nodes_words = nodes->words;
        return;
    }
    line.tasks = tasks ? tasks->count() : std::nullopt;
    if (nodes && (nodes->option || !by_name)) {
        line.nodes = nodes->count();
        line.nodes_words = nodes->words;
    }
    // Fewer tasks than nodes: the others stay idle.
    if (line.nodes && line.tasks && tasks->option && *line.tasks < *line.nodes) {
        line.nodes = line.tasks;
        line.nodes_words = tasks->words;
    }
    if (line.nodes && line.tasks && *line.tasks % *line.nodes == 0)
        line.tasks_per_node = *line.tasks / *line.nodes;
    if (!tasks && per_node) line.tasks_per_node = per_node->count();
    if (!tasks && !per_node) {  // srun starts one task a node unless it was told otherwise
        const auto site = said(nullptr, line.environment, {}, {"SLURM_NTASKS_PER_NODE"});
        line.tasks_per_node = site ? site->count() : std::optional(1);
    }
    if (!line.tasks && line.nodes && line.tasks_per_node && *line.nodes < 1 << 16 &&
        *line.tasks_per_node < 1 << 15)
        line.tasks = *line.nodes * *line.tasks_per_node;
}

void read_step(LaunchLine& line) {
    const auto step = step_of(line.environment);
    if (!step) return;
    line.in_step = true;
    line.nodes = step->nodes;
    line.tasks = step->tasks;
    line.tasks_per_node = step->tasks_here;
    line.node = step->node;
    line.task = step->task;
    if (step->nodes) line.nodes_words = fmt::format("SLURM_STEP_NUM_NODES={}", *step->nodes);
}

}  // namespace

std::optional<Said> said(const std::vector<Given>* options, const Environment& environment,
                         std::initializer_list<const char*> names,
                         std::initializer_list<const char*> variables) {
    if (options != nullptr) {
        const auto found = std::find_if(options->rbegin(), options->rend(), [&](const Given& g) {
            return std::find(names.begin(), names.end(), g.name) != names.end();
        });
        if (found != options->rend()) return Said{found->value, printable(found->words), true};
    }
    for (const char* name : variables)
        if (const auto found = environment.find(name); found != environment.end())
            return Said{found->second, fmt::format("{}={}", name, printable(found->second))};
    return std::nullopt;
}

std::string one_task_a_node(std::optional<int> nodes) {
    return nodes ? fmt::format("srun --ntasks={} --ntasks-per-node=1", *nodes)
                 : std::string("srun --ntasks=$SLURM_JOB_NUM_NODES --ntasks-per-node=1");
}

LaunchLine read_launch_line(const Command& command, const Environment& environment) {
    LaunchLine line(command, environment);
    for (const LauncherOptions& options : command.launchers) {
        if (options.kind == "srun") line.srun = &options.given;
        line.enclosed = line.enclosed || options.enclosed;
        if (options.kind == "torchrun") line.torchrun = &options.given;
        if (options.kind == "mpi") line.starts_whole_job = "mpirun";
        const NodeLauncher* launcher = node_launcher(options.kind);
        if (launcher == nullptr) continue;
        line.launcher = launcher;
        line.launcher_options = &options.given;
    }
    line.job = !variable(environment, "SLURM_JOB_ID").empty();
    if (line.srun != nullptr)
        read_srun(line);
    else if (command.job.launcher != "srun")  // of several programs
        read_step(line);
    if (command.job.launcher == "openmpi" || command.job.launcher == "hydra")
        line.starts_whole_job = "mpirun";
    if (line.launcher != nullptr) read_node_launcher(line);
    return line;
}

}  // namespace toporun::launcher
