// Sources: srun(1), "output environment variables"; torch/distributed/run.py, 1.13 to 2.9.
#include "launcher/fill/gaps.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/gpu_advice.hpp"
#include "env/host_list.hpp"
#include "env/interface_model.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/site.hpp"
#include "launcher/command/step.hpp"
#include "launcher/preflight/endpoint.hpp"

namespace toporun::launcher {
namespace {

std::vector<std::string> hosts_of_step(const Environment& environment, int nodes) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
        try {
            std::vector<std::string> hosts = env::expand_host_list(variable(environment, name));
            if (static_cast<int>(hosts.size()) == nodes) return hosts;
        } catch (const Error&) {
            continue;  // somebody's variable: nothing is known of the hosts
        }
    }
    return {};
}

/// Where this task stands in the step. False where that is not certain.
bool read_place(Gaps& gaps, const Environment& environment) {
    // Of several components (srun A : B) each has its own count of tasks.
    if (!variable(environment, "SLURM_HET_SIZE").empty()) return false;
    const auto step = task_of_step(environment);
    if (!step || !step->nodes || !step->tasks || !step->tasks_here) return false;
    gaps.nodes = *step->nodes;
    gaps.node = *step->node;
    gaps.tasks = step->tasks;
    gaps.task = *step->task;
    gaps.local_task = *step->local_task;
    gaps.tasks_here = *step->tasks_here;
    gaps.evidence = fmt::format("task {} of {} (SLURM_PROCID, SLURM_STEP_NUM_TASKS), node {} of {}",
                                gaps.task, *gaps.tasks, gaps.node, gaps.nodes);
    if (gaps.nodes == 1) return true;
    gaps.hosts = hosts_of_step(environment, gaps.nodes);
    if (gaps.hosts.empty()) return false;
    gaps.first_host = gaps.hosts.front();
    gaps.first_node = gaps.node == 0;
    // With a host file ranks follow the file, SLURM_NODEID stays the place in the sorted list.
    if (variable(environment, "SLURM_DISTRIBUTION").find("arbitrary") != std::string::npos ||
        !variable(environment, "SLURM_HOSTFILE").empty()) {
        gaps.host_file = variable(environment, "SLURM_HOSTFILE");
        gaps.first_host.clear();  // the file tells
        return !gaps.host_file.empty() && !variable(environment, "SLURMD_NODENAME").empty();
    }
    return true;
}

bool own_host(std::string_view endpoint) {
    const std::string host = env::host_of(trim(endpoint));
    const auto address = env::parse_ip(host);
    return host == "localhost" || (address && env::loopback(*address));
}

bool filled(const std::optional<Said>& said) {
    return said && !trim(said->value).empty();
}

/// `--nnodes` fits the step: left out, or the step's number, also as the most of a range.
bool nodes_agree(const LaunchLine& line, int nodes) {
    if (!line.nnodes) return true;
    const std::string& text = line.nnodes->value;
    return positive_count(text.substr(text.find(':') + 1)) == nodes;
}

/// Workers that are started again, or nodes that come and go, need the c10d backend.
bool elastic(const LaunchLine& line) {
    const auto restarts =
        said(line.torchrun, line.environment, {"max-restarts"}, {"PET_MAX_RESTARTS"});
    if (restarts && to_integer(trim(restarts->value)).value_or(0) > 0) return true;
    if (!line.nnodes) return false;
    const std::vector<std::string> bounds = split(line.nnodes->value, ':');
    return bounds.size() == 2 && bounds[0] != bounds[1];
}

/// Whether the line leaves the rendezvous of these nodes open, and what of it is left out. With
/// `c10d_only` no node can be told its rank.
bool read_rendezvous(Gaps& gaps, const LaunchLine& line, bool c10d_only) {
    if (!nodes_agree(line, gaps.nodes)) return false;
    // The address of one node, or any free port: each node is meant to be a job of its own.
    for (const auto* said : {&line.endpoint, &line.master_address})
        if (filled(*said) && own_host((*said)->value)) return false;
    if (filled(line.endpoint) && line.endpoint->value.ends_with(":0")) return false;
    const std::string backend = filled(line.backend) ? std::string(trim(line.backend->value)) : "";
    if (!backend.empty() && backend != "static" && backend != "c10d") return false;
    const bool fixed = line.node_rank || filled(line.master_address);
    const auto given = [&](const char* option, const char* name) {
        return said(line.torchrun, line.environment, {option}, {name}).has_value();
    };
    RendezvousGap& gap = gaps.rendezvous;
    gap.c10d = backend == "c10d" || (backend.empty() && !fixed && (c10d_only || elastic(line)));
    if (c10d_only && !gap.c10d) return false;
    gap.nodes = !line.nnodes;
    gap.backend = gap.c10d && backend.empty();
    if (gap.c10d) {
        gap.endpoint = !filled(line.endpoint);
        gap.id = !given("rdzv-id", "PET_RDZV_ID");
        gap.conf = gap.endpoint && !c10d_only && !given("rdzv-conf", "PET_RDZV_CONF");
    } else {
        gap.node_rank = !line.node_rank;
        gap.address = !filled(line.endpoint) && !line.master_address;
        gap.port = !filled(line.endpoint) && !line.master_port;
    }
    return gap.nodes || gap.endpoint || gap.node_rank || gap.address;
}

Gaps rendezvous_gap(const LaunchLine& line) {
    Gaps gaps;
    if (line.torchrun == nullptr || line.standalone || !line.in_step ||
        !read_place(gaps, line.environment))
        return {};
    if (gaps.nodes < 2 || gaps.tasks != gaps.nodes || gaps.tasks_here != 1) return {};
    if (!read_rendezvous(gaps, line, false)) return {};
    if (!gaps.host_file.empty()) gaps.node = gaps.task;
    gaps.gap = Gap::rendezvous;
    return gaps;
}

/// `toporun srun torchrun` in a job script: srun takes the whole allocation, a task on each node.
Gaps srun_gap(const Command& command, const LaunchLine& line) {
    Gaps gaps;
    if (line.srun == nullptr || line.torchrun == nullptr || line.standalone || !line.job) return {};
    if (command.drops_variables || step_of(line.environment)) return {};
    if (line.nodes.value_or(1) < 2 || line.tasks_per_node != 1 || line.tasks != line.nodes)
        return {};
    gaps.nodes = *line.nodes;
    gaps.tasks = line.tasks;
    gaps.hosts = hosts_of_step(line.environment, gaps.nodes);
    if (gaps.hosts.empty() || !read_rendezvous(gaps, line, true)) return {};
    gaps.first_host = gaps.hosts.front();
    gaps.first_node = variable(line.environment, "SLURMD_NODENAME") == gaps.first_host;
    gaps.by_srun = true;
    gaps.evidence = fmt::format("{}, one task a node", line.nodes_words);
    gaps.gap = Gap::rendezvous;
    return gaps;
}

/// torchrun by itself takes 127.0.0.1:29500.
Gaps port_gap(const LaunchLine& line) {
    if (line.torchrun == nullptr || line.standalone || line.command.job.nodes != 1) return {};
    if (!static_backend(line) || filled(line.endpoint) || line.master_address || line.master_port)
        return {};
    Gaps gaps;
    gaps.by_shim = true;
    gaps.evidence = "no --master-port";
    gaps.gap = Gap::port;
    return gaps;
}

/// Of the ranks that a launcher starts, each behind the shim.
Gaps shim_gap(const Command& command, const Environment& environment) {
    Gaps gaps;
    gaps.by_shim = true;
    gaps.other_hosts = command.job.other_hosts;
    gaps.tasks = command.job.ranks_per_node;
    if (gaps.tasks) gaps.tasks_here = *gaps.tasks;
    if (gaps.other_hosts) gaps.nodes = command.job.nodes.value_or(2);
    if (gaps.tasks == 1 && gaps.nodes == 1) return {};
    gaps.one_task = command.job.launcher == "srun" && gaps.tasks == 1;
    if (gaps.nodes > 1) {
        const std::string users = variable(environment, "MASTER_ADDR");
        if (own_host(users)) return {};  // pre-flight says so
        gaps.first_host = command.first_host.name;
        gaps.first_node = command.first_host.here;
        if (trim(users).empty()) gaps.unknown = command.first_host.unknown;
    }
    gaps.own_gpus = !command.job.gpu_bind.empty() && env::sees_some_gpus(command.job.gpu_bind);
    gaps.evidence = gaps.nodes > 1 && !gaps.first_host.empty()
                        ? fmt::format("{} starts Python on several hosts, rank 0 on {}",
                                      command.job.launcher, printable(gaps.first_host))
                        : fmt::format("{} starts Python on {}", command.job.launcher,
                                      gaps.nodes > 1     ? "several hosts"
                                      : gaps.other_hosts ? "one host"
                                                         : "this host");
    gaps.gap = Gap::ranks;
    return gaps;
}

}  // namespace

Gaps gaps_of_step(const Environment& environment) {
    Gaps gaps;
    if (!read_place(gaps, environment) || *gaps.tasks < 2) return {};
    gaps.gap = Gap::ranks;
    return gaps;
}

bool filled_in_on_nodes(const Command& command, const Environment& environment) {
    const LaunchLine line = read_launch_line(command, environment);
    if (line.srun == nullptr || line.torchrun == nullptr || line.standalone) return false;
    Gaps gaps;
    gaps.nodes = line.nodes.value_or(1);
    return gaps.nodes > 1 && line.tasks_per_node == 1 && line.tasks == line.nodes &&
           read_rendezvous(gaps, line, false);
}

Gaps find_gaps(const Command& command, const Environment& environment) {
    const std::string& launcher = command.job.launcher;
    const LaunchLine line = read_launch_line(command, environment);
    if (launcher == "torchrun") {
        // Its versions before torch 1.9 do not read the variables.
        if (std::find(command.argv.begin(), command.argv.end(), "torch.distributed.launch") !=
            command.argv.end())
            return {};
        const Gaps nodes = rendezvous_gap(line);
        return nodes.gap == Gap::none ? port_gap(line) : nodes;
    }
    if (line.enclosed) return {};
    if (launcher == "srun" && line.torchrun != nullptr) return srun_gap(command, line);
    if (!is_python(base_name(command.program)) || command.program_at.size() != 1) return {};
    // A launcher or a server tells what it starts its place itself.
    if (role_of(command.argv, command.program_at.front()) != Role::none) return {};
    if (launcher == "plain") return line.in_step ? gaps_of_step(environment) : Gaps{};
    // Where srun takes nodes that are not known here, each of them reads it of the step.
    if (launcher == "srun" && command.job.other_hosts && command.first_host.name.empty()) return {};
    const bool ranks = launcher == "openmpi" || launcher == "hydra" || launcher == "srun";
    return ranks && command.rewrite == Rewrite::inserted && command.job.same_host
               ? shim_gap(command, environment)
               : Gaps{};
}

}  // namespace toporun::launcher
