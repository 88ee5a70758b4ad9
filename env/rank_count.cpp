#include "env/rank_count.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {
namespace {

/// An instance is a device of its own to CUDA: the GPUs are not what is counted.
bool has_instances(const Inputs& inputs) {
    return inputs.visible_note.find("MIG-") != std::string::npos ||
           std::any_of(inputs.visible.begin(), inputs.visible.end(), [&](int gpu) {
               return inputs.machine.gpus[static_cast<std::size_t>(gpu)].mig.value_or(false);
           });
}

/// Another launcher has started several torchruns on this host, or this one is in a rank of one.
std::string started_by_launcher(const Inputs& inputs) {
    if (inputs.user.variable("TORCHELASTIC_RUN_ID")) return "torchrun runs inside a torchrun";
    for (const char* name :
         {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "SLURM_STEP_TASKS_PER_NODE",
          "SLURM_NTASKS_PER_NODE", "SLURM_TASKS_PER_NODE"}) {
        const auto value = inputs.user.variable(name);
        if (value && nccl_integer(*value) > 1)
            return fmt::format("{}={} may start several torchruns on this host", name,
                               printable(*value));
    }
    return "";
}

/// Why one rank for each GPU is not what was meant; "" when it is.
std::string rank_count_obstacle(const Inputs& inputs) {
    const auto& leave = inputs.options.leave;
    if (std::find(leave.begin(), leave.end(), kRankCountShortName) != leave.end())
        return "left alone as asked (--leave)";
    if (inputs.job.cpu_job) return kCpuJob;
    if (has_instances(inputs)) return "MIG instances are visible";
    if (inputs.visible.size() < 2) return "fewer than two GPUs are visible";
    return started_by_launcher(inputs);
}

/// os.cpu_count(): the CPUs that are online, whatever the cpuset and the quota allow.
std::optional<int> python_cpus(const detect::Machine& machine, const UserEnvironment& user) {
    if (user.variable("PYTHON_CPU_COUNT") || machine.cpu.numa_nodes.empty()) return std::nullopt;
    detect::CpuSet all = machine.cpu.allowed;
    for (const detect::NumaNode& node : machine.cpu.numa_nodes) all = all | node.cpus;
    for (const detect::Core& core : machine.cpu.cores) all = all | core.pus;
    if (all.empty()) return std::nullopt;
    return all.count();
}

}  // namespace

std::optional<int> resolve_ranks_word(const std::string& word, const detect::Machine& machine,
                                      const UserEnvironment& user) {
    if (word == "cpu") return python_cpus(machine, user);
    if (word != "gpu" && word != "auto") return std::nullopt;
    const Job job;
    const Options options;
    const profiles::Knowledge knowledge;
    Inputs inputs{job, machine, user, options, knowledge, nullptr, {}, is_rccl(machine), {}, {}};
    find_visible_gpus(inputs);
    if (has_instances(inputs)) return std::nullopt;
    if (!inputs.visible.empty()) return static_cast<int>(inputs.visible.size());
    return word == "auto" ? python_cpus(machine, user) : std::nullopt;
}

RankCount fill_in_rank_count(const Inputs& inputs) {
    RankCount count;
    const Job& job = inputs.job;
    if (job.launcher != "torchrun" || !job.ranks_left_out) return count;
    const auto gpus = static_cast<int>(inputs.visible.size());
    const std::string evidence =
        fmt::format("no --nproc-per-node; {} visible GPU{}", gpus, gpus == 1 ? "" : "s");
    const std::string without = "torchrun starts one rank";
    const std::string obstacle = rank_count_obstacle(inputs);
    if (!obstacle.empty()) {
        count.settings.push_back(
            settle(inputs, left_alone(kRankCountVariable, obstacle, evidence, without)));
        return count;
    }
    count.settings.push_back(
        settle(inputs, detected(kRankCountVariable, std::to_string(gpus),
                                "one rank for each visible GPU", evidence, without)));
    if (!count.settings.front().exported) return count;
    count.filled_in = gpus;
    count.findings.push_back(
        {"nproc-filled-in", Severity::note,
         fmt::format("--nproc-per-node was left out: {} ranks, one for each visible GPU", gpus),
         evidence, "the global batch grows with the ranks",
         "--nproc-per-node=1 for one, or --leave nproc", ""});
    return count;
}

std::vector<Finding> rank_count_findings(const Inputs& inputs) {
    if (inputs.job.cpu_job) return {};
    const std::size_t gpus = inputs.visible.size();
    const int ranks = inputs.job.ranks_per_node.value_or(0);
    // No visible GPU at all is a job for CPUs, and 1 lets NCCL put several ranks on a GPU.
    if (ranks < 1 || gpus == 0 || static_cast<std::size_t>(ranks) <= gpus || has_instances(inputs))
        return {};
    // One visible GPU in each of several tasks is most often another one in each.
    if (inputs.job.task_of_step && gpus == 1) return {};
    if (nccl_integer(user_value(inputs, "NCCL_MULTI_RANK_GPU_ENABLE").value_or("0")) != 0)
        return {};
    const bool some = !inputs.visible_note.empty();
    // An MPI job of many ranks may be one for CPUs; torchrun's is most likely not.
    const bool for_gpus = inputs.job.launcher == "torchrun";
    return {{"ranks-exceed-gpus", for_gpus ? Severity::broken : Severity::note,
             fmt::format("{} ranks share {} {}GPU{}, NCCL refuses two on one", ranks, gpus,
                         some ? "visible " : "", gpus == 1 ? "" : "s"),
             some ? fmt::format("{}, of {} GPU{}", inputs.visible_note, inputs.machine.gpus.size(),
                                inputs.machine.gpus.size() == 1 ? "" : "s")
                  : std::string("the GPUs of this machine"),
             for_gpus
                 ? "the job stops as it starts (Duplicate GPU detected)"
                 : "if the ranks use GPUs, the job stops as it starts (Duplicate GPU detected)",
             fmt::format("start at most {} rank{} on this host{}", gpus, gpus == 1 ? "" : "s",
                         some ? ", or make more GPUs visible" : ""),
             ""}};
}

}  // namespace toporun::env
