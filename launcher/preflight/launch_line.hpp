#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/plan.hpp"
#include "launcher/command/command.hpp"
#include "launcher/preflight/line_facts.hpp"

/// What the launch line and the allocation say together.
namespace toporun::launcher {

/// A value and where it was said: "--nnodes=2", "PET_NNODES=2", "SLURM_NTASKS=16".
struct Said {
    std::string value;
    std::string words;
    bool option = false;  ///< on the command line, not in a variable

    std::optional<int> count() const { return positive_count(value); }
};

struct NodeLauncher;

struct LaunchLine {
    LaunchLine(const Command& read, const Environment& variables)
        : command(read), environment(variables) {}

    const Command& command;
    const Environment& environment;
    const std::vector<Given>* srun = nullptr;  ///< options; nullptr = not on the line
    /// The launcher that starts the ranks of each node, and its options; nullptr = there is none.
    const NodeLauncher* launcher = nullptr;
    const std::vector<Given>* launcher_options = nullptr;
    const std::vector<Given>* torchrun = nullptr;  ///< `launcher_options` where it is torchrun
    bool enclosed = false;  ///< the launcher is in a shell's text or a container
    /// The launcher that starts the ranks of every node by itself; "" = none does.
    std::string starts_whole_job;
    bool job = false;      ///< in an allocation of Slurm
    bool in_step = false;  ///< toporun itself is a task of srun's
    /// Nodes that each run the same words, and tasks, of srun on the line or of the step around
    /// toporun. Empty = not known.
    std::optional<int> nodes;
    std::optional<int> tasks;
    std::optional<int> tasks_per_node;
    std::string nodes_words;  ///< where `nodes` was said
    /// This task's place in the step; empty = unknown or not in a step.
    std::optional<int> node;
    std::optional<int> task;
    /// What the launcher was told, in torchrun's terms; of an option or a variable.
    std::optional<Said> nnodes, nproc, node_rank, backend, endpoint, master_address, master_port;
    bool standalone = false;
};

LaunchLine read_launch_line(const Command& command, const Environment& environment);

/// The first of these options of srun that was given last, else the first variable that is set.
std::optional<Said> said(const std::vector<Given>* options, const Environment& environment,
                         std::initializer_list<const char*> names,
                         std::initializer_list<const char*> variables);

/// The words of srun that start one task on each node. With the total: srun ignores the number for
/// each node where sbatch has set SLURM_NTASKS (slurm/src/srun/libsrun/opt.c).
std::string one_task_a_node(std::optional<int> nodes);

/// Task and node counts, GPUs and CPUs of tasks.
void task_findings(const LaunchLine& line, const detect::Machine& machine,
                   std::vector<env::Finding>& findings);
/// Node ranks, numbers of nodes and the address where the nodes meet.
void rendezvous_findings(const LaunchLine& line, std::vector<env::Finding>& findings);
/// Whether that address belongs to a node of the job and can be reached from here.
void reach_findings(const LaunchLine& line, const LineFacts& facts, const detect::Machine& machine,
                    std::vector<env::Finding>& findings);
/// Words that a variable of the job script filled in wrongly, signals and limits of Slurm,
/// containers.
void script_findings(const LaunchLine& line, const LineFacts& facts,
                     std::vector<env::Finding>& findings);

}  // namespace toporun::launcher
