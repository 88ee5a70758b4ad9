// Counts of nodes and tasks, and what each task gets. Sources: srun(1) of Slurm 22.05 to 25.05.
#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "env/gpu_advice.hpp"
#include "launcher/command/families.hpp"
#include "launcher/preflight/launch_line.hpp"
#include "launcher/preflight/node_launcher.hpp"

namespace toporun::launcher {
namespace {

using env::Finding;
using env::Severity;

std::string counted(long long number, std::string_view word) {
    return fmt::format("{} {}{}", number, word, number == 1 ? "" : "s");
}

/// The words of `known`, parted by commas.
std::string evidence_of(std::initializer_list<std::optional<Said>> known) {
    std::vector<std::string> words;
    for (const auto& one : known)
        if (one) words.push_back(one->words);
    return join(words, ", ");
}

/// Tasks, nodes and tasks per node that srun takes together. A total on srun's own line replaces
/// what sbatch was told for each node.
void counts_differ(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.srun == nullptr) return;
    const auto nodes =
        said(line.srun, line.environment, {"N", "nodes"}, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    const auto tasks = said(line.srun, line.environment, {"n", "ntasks"}, {"SLURM_NTASKS"});
    const auto each = said(line.srun, line.environment, {"ntasks-per-node", "tasks-per-node"},
                           {"SLURM_NTASKS_PER_NODE"});
    if (!nodes || !tasks || !each || (tasks->option && !each->option)) return;
    if (nodes->option && !tasks->option && !each->option) return;
    if (!nodes->count() || !tasks->count() || !each->count()) return;
    const long long product = static_cast<long long>(*nodes->count()) * *each->count();
    if (product == *tasks->count()) return;
    findings.push_back(
        {"task-counts-differ", *tasks->count() > product ? Severity::broken : Severity::slow,
         fmt::format("{} and {} do not agree: {} x {} is {}", tasks->words, each->words,
                     counted(*nodes->count(), "node"), counted(*each->count(), "task"), product),
         evidence_of({tasks, nodes, each}),
         "srun takes the total and ignores the number for each node, or refuses; Lightning stops",
         tasks->option ? fmt::format("srun --nodes={} --ntasks={} --ntasks-per-node={}",
                                     *nodes->count(), product, *each->count())
                       : std::string("unset SLURM_NTASKS SLURM_NPROCS"),
         "",
         "give --nodes and --ntasks-per-node only: one task a node for torchrun, one a GPU for "
         "programs that srun starts directly"});
}

/// Where only the total is given, both tasks may land on one node. What is known to share a node is
/// named by the plan.
void one_gpu_per_task(const LaunchLine& line, std::vector<Finding>& findings) {
    const env::Job& job = line.command.job;
    if (line.srun == nullptr || job.gpu_bind.empty() || line.launcher != nullptr) return;
    if (!env::sees_some_gpus(job.gpu_bind) || job.ranks_per_node.value_or(2) > 1 ||
        line.tasks.value_or(1) < 2)
        return;
    if (said(line.srun, line.environment, {"N", "nodes", "ntasks-per-node", "tasks-per-node"},
             {"SLURM_NTASKS_PER_NODE"}))
        return;
    findings.push_back(
        {"one-gpu-per-task", Severity::note,
         fmt::format("each task sees GPUs of its own only ({}), as device 0", job.gpu_bind),
         job.gpu_bind,
         "where two tasks share a node, code that takes device LOCAL_RANK stops ('invalid device "
         "ordinal')",
         fmt::format("{}", job.gpu_bind.starts_with("--tres") ? "srun --tres-bind=gres/gpu:none"
                                                              : "srun --gpu-bind=none"),
         "", "every task then sees all GPUs of its node and chooses by local rank"});
}

std::optional<int> gpus_on_node(const LaunchLine& line, const detect::Machine& machine) {
    if (const auto said_so = positive_count(variable(line.environment, "SLURM_GPUS_ON_NODE")))
        return said_so;
    const bool here = line.in_step || line.command.job.same_host;
    if (!here || !machine.gpus_known || machine.gpus.empty()) return std::nullopt;
    return static_cast<int>(machine.gpus.size());
}

bool binds_gpus(const LaunchLine& line) {
    if (!line.command.job.gpu_bind.empty()) return true;
    for (const char* name : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND"}) {
        const std::string value = variable(line.environment, name);
        if (!value.empty() && value.find("none") == std::string::npos) return true;
    }
    return false;
}

/// Several launchers on a node, each of which starts at local rank 0.
void workers_multiplied(const LaunchLine& line, const detect::Machine& machine,
                        std::vector<Finding>& findings) {
    if (line.launcher == nullptr || line.command.job.cpu_job || binds_gpus(line)) return;
    if (!line.starts_whole_job.empty()) return;
    const int launchers = line.tasks_per_node.value_or(1);
    const auto gpus = gpus_on_node(line, machine);
    const auto ranks = line.nproc ? line.nproc->count() : std::optional(1);
    const bool word = line.nproc && (line.nproc->value == "gpu" || line.nproc->value == "auto");
    if (launchers < 2) return;
    const long long all = ranks ? static_cast<long long>(*ranks) * launchers : 0;
    const bool fit = gpus && all > 0 && all <= *gpus;
    if (!gpus && !word && line.nnodes && line.tasks && line.nnodes->count() == line.tasks) return;
    const NodeLauncher& launcher = *line.launcher;
    const bool same_port = !line.standalone && !launcher.default_port.empty();
    const std::string fitting =
        line.torchrun != nullptr
            ? fmt::format("{} torchrun --nnodes={} --nproc-per-node={} ...",
                          one_task_a_node(line.nodes),
                          line.nodes ? fmt::to_string(*line.nodes) : std::string("NODES"), all)
            : one_task_a_node(line.nodes);
    findings.push_back(
        {"workers-multiplied", gpus && !fit && (ranks || word) ? Severity::broken : Severity::slow,
         fmt::format("srun starts {} {} times on a node, each time {}{}", launcher.command,
                     launchers,
                     ranks  ? counted(*ranks, "rank")
                     : word ? std::string("a rank for every GPU")
                            : std::string("several ranks"),
                     gpus ? fmt::format(", for {}", counted(*gpus, "GPU")) : std::string()),
         fmt::format("{} a node, {}", counted(launchers, "task"),
                     line.nproc ? line.nproc->words : fmt::format("no {}", launcher.ranks)),
         fit ? std::string("each counts its local ranks from 0: code that takes device LOCAL_RANK "
                           "puts several ranks on one GPU, which NCCL refuses")
             : fmt::format("ranks share GPUs, which NCCL refuses{}",
                           same_port ? ", and they want the same port" : ""),
         fit ? fitting : one_task_a_node(line.nodes), "",
         fmt::format("{} itself starts the ranks of its node{}", launcher.command,
                     fit ? "; or GPUs of its own for each task (--gpus-per-task)" : "")});
}

/// A launcher that starts the ranks of every node, once in each of several tasks.
void job_multiplied(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.starts_whole_job.empty() || line.tasks.value_or(1) < 2) return;
    findings.push_back(
        {"workers-multiplied", Severity::slow,
         fmt::format("srun starts {} {} times, and each time the ranks of the whole job",
                     line.starts_whole_job, *line.tasks),
         counted(*line.tasks, "task"),
         "jobs of their own side by side on the same GPUs, or 'Address already in use'",
         "srun --nodes=1 --ntasks=1", "",
         fmt::format("or without srun: {} reaches the nodes itself; right as it is where separate "
                     "runs are meant",
                     line.starts_whole_job)});
}

/// A launcher inside a task that is given fewer GPUs than it starts ranks.
void ranks_exceed_task(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.srun == nullptr || line.launcher == nullptr || line.command.job.cpu_job) return;
    const auto gpus = said(line.srun, line.environment, {"gpus-per-task"}, {"SLURM_GPUS_PER_TASK"});
    if (!gpus || !gpus->count() || !line.nproc || !line.nproc->count() || !binds_gpus(line)) return;
    if (*line.nproc->count() <= *gpus->count()) return;
    findings.push_back(
        {"ranks-exceed-gpus", Severity::broken,
         fmt::format("{} ranks in a task that sees {}, NCCL refuses two on one",
                     *line.nproc->count(), counted(*gpus->count(), "GPU")),
         evidence_of({line.nproc, gpus}),
         "the job stops as it starts (invalid device ordinal, or Duplicate GPU detected)",
         fmt::format("{} --gpus-per-task={}", one_task_a_node(line.nodes), *line.nproc->count()),
         "", "or --gpus-per-node in place of --gpus-per-task"});
}

int cores_allowed(const detect::Cpu& cpu) {
    return static_cast<int>(
        std::count_if(cpu.cores.begin(), cpu.cores.end(),
                      [&](const detect::Core& core) { return !(core.pus & cpu.allowed).empty(); }));
}

/// A task of one core for ranks that use GPUs. Slurm 22.05 to 23.02: srun does not take over
/// sbatch's --cpus-per-task (Lightning issue 18650).
void one_cpu(const LaunchLine& line, const detect::Machine& machine,
             std::vector<Finding>& findings) {
    const auto ranks = line.nproc ? line.nproc->count() : std::nullopt;
    std::string evidence, what;
    if (line.in_step) {
        const int cores = cores_allowed(machine.cpu);
        if (machine.cpu.allowed.empty() || (cores != 1 && machine.cpu.allowed.count() != 1)) return;
        if (machine.gpus.empty() && ranks.value_or(1) < 2) return;
        what = "this task may use one CPU core";
        evidence = fmt::format("affinity mask {}", machine.cpu.allowed.text());
    } else if (line.srun != nullptr && ranks.value_or(1) > 1) {
        const auto cpus = said(line.srun, line.environment, {"c", "cpus-per-task"},
                               {"SRUN_CPUS_PER_TASK", "SLURM_CPUS_PER_TASK"});
        if (!cpus || cpus->count() != 1) return;
        what = fmt::format("one CPU for the {} ranks of a task", *ranks);
        evidence = cpus->words;
    } else {
        return;
    }
    const auto asked = positive_count(variable(line.environment, "SLURM_CPUS_PER_TASK"));
    const bool lost = line.in_step && asked.value_or(1) > 1;
    findings.push_back(
        {"task-one-cpu", Severity::slow, what, evidence,
         "ranks, their loader workers and NCCL's threads share one core",
         lost ? "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK"
              : fmt::format("srun --cpus-per-task={}", 8 * ranks.value_or(1)),
         "",
         lost ? "in the job script before srun: srun of Slurm 22.05 to 23.02 does not take "
                "--cpus-per-task over from sbatch"
              : "8 CPUs a rank is a common share; sbatch has to ask for them too"});
}

void export_drops(const LaunchLine& line, std::vector<Finding>& findings) {
    if (line.srun == nullptr) return;
    const auto list = said(line.srun, line.environment, {"export"}, {"SLURM_EXPORT_ENV"});
    if (!list) return;
    const std::vector<std::string> names = split(list->value, ',');
    const bool arrives = std::any_of(names.begin(), names.end(), [](const std::string& name) {
        return name == "ALL" || name == "PATH" || name.starts_with("PATH=");
    });
    if (arrives) return;
    const bool boxed = said(line.srun, line.environment,
                            {"container-image", "container-name", "container", "environment",
                             "singularity-container"},
                            {})
                           .has_value();
    const bool none = list->value.empty() || list->value == "NONE" || list->value == "NIL";
    findings.push_back(
        {"export-drops-path", Severity::slow,
         boxed ? fmt::format("with {} srun does not hand over the job script's variables",
                             list->words)
               : fmt::format("with {} srun hands over neither PATH nor the job script's variables",
                             list->words),
         list->words,
         boxed ? "NCCL's and toporun's variables are lost"  // PATH is the image's
               : "commands and libraries are not found; NCCL's and toporun's variables are lost",
         none ? std::string("srun --export=ALL")
              : fmt::format("srun --export=ALL,{}", printable(list->value)),
         ""});
}

/// Open MPI starts no rank where it has fewer slots (seen with 4.1.4).
void ranks_exceed_slots(const LaunchLine& line, const detect::Machine& machine,
                        std::vector<Finding>& findings) {
    const auto& launchers = line.command.launchers;
    if (launchers.size() != 1 || launchers.front().kind != "openmpi") return;
    const auto ranks = said(&launchers.front().given, line.environment, {"np"}, {});
    const auto slots = said(&launchers.front().given, line.environment, {"slots"}, {});
    if (!ranks || !ranks->count() || !slots) return;
    const bool cores = slots->value == "cores";
    const auto count =
        cores ? positive_count(fmt::to_string(machine.cpu.cores.size())) : slots->count();
    if (!count || *ranks->count() <= *count) return;
    findings.push_back(
        {"ranks-exceed-slots", Severity::broken,
         cores ? fmt::format("{}: without hosts Open MPI has a slot for each of the {} cores",
                             ranks->words, *count)
               : fmt::format("{}: Open MPI has {}", ranks->words, counted(*count, "slot")),
         fmt::format("{}, {}", ranks->words, slots->words),
         "mpirun ends before it starts a rank: 'There are not enough slots available'",
         line.job ? fmt::format("sbatch --ntasks={}", *ranks->count())
                  : fmt::format("mpirun -np {}", *count),
         "", "or --oversubscribe, where several ranks may share a core"});
}

}  // namespace

void task_findings(const LaunchLine& line, const detect::Machine& machine,
                   std::vector<Finding>& findings) {
    counts_differ(line, findings);
    one_gpu_per_task(line, findings);
    workers_multiplied(line, machine, findings);
    job_multiplied(line, findings);
    ranks_exceed_task(line, findings);
    ranks_exceed_slots(line, machine, findings);
    one_cpu(line, machine, findings);
    export_drops(line, findings);
}

}  // namespace toporun::launcher
