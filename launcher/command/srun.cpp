#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/text.hpp"
#include "launcher/command/contexts.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

// srun(1), Slurm 22.05 to 25.05.
constexpr std::array kSrunOptions = {
    optional_value("I"),
    optional_value("immediate"),
    optional_value("K"),
    optional_value("kill-on-bad-exit"),
    optional_value("k"),
    optional_value("no-kill"),
    optional_value("bcast", Meaning::opaque),
    optional_value("compress"),
    optional_value("exclusive"),
    optional_value("external-launcher"),
    optional_value("nice"),
    optional_value("oom-kill-step"),
    optional_value("overlap"),
    optional_value("propagate"),
    optional_value("pty", Meaning::opaque),
    optional_value("resv-ports"),
    optional_value("send-libs"),
    optional_value("x11"),
    flag("E"),
    flag("H"),
    flag("O"),
    flag("Q"),
    flag("X"),
    flag("Z"),
    flag("l"),
    flag("s"),
    flag("u"),
    flag("v"),
    flag("h", Meaning::no_launch),
    flag("V", Meaning::no_launch),
    flag("help", Meaning::no_launch),
    flag("usage", Meaning::no_launch),
    flag("version", Meaning::no_launch),
    flag("contiguous"),
    flag("exact"),
    flag("multi-prog", Meaning::opaque),
    flag("parsable"),
    flag("quit-on-interrupt"),
    flag("reboot"),
    flag("spread-job"),
    flag("stepmgr"),
    flag("test-only", Meaning::opaque),
    flag("use-min-nodes"),
    flag("wait-for-children"),
    flag("whole"),
    flag("consolidate-segments"),
    flag("spread-segments"),
    flag("async"),
    flag("disable-status"),
    flag("debugger-test"),
    flag("interactive"),
    flag("preserve-env"),
    flag("hold"),
    flag("overcommit"),
    flag("quiet"),
    flag("disable-stdin"),
    flag("no-allocate"),
    flag("label"),
    flag("oversubscribe"),
    flag("share"),
    flag("unbuffered"),
    flag("verbose"),
    one("n", Meaning::total_ranks),
    one("ntasks", Meaning::total_ranks),
    one("N", Meaning::nodes),
    one("nodes", Meaning::nodes),
    one("ntasks-per-node", Meaning::ranks_per_node),
    one("tasks-per-node", Meaning::ranks_per_node),
    one("w", Meaning::hosts),
    one("nodelist", Meaning::hosts),
    one("F", Meaning::host_file),
    one("nodefile", Meaning::host_file),
    one("cpu-bind", Meaning::bind_policy),
    one("cpu_bind", Meaning::bind_policy),
    one("export", Meaning::export_list),
    one("container-image", Meaning::container),
    one("container-name", Meaning::container),
    one("container", Meaning::container),
    one("environment", Meaning::container),  // CSCS's container engine
    one("singularity-container", Meaning::container),
    one("D", Meaning::directory),
    one("chdir", Meaning::directory),
    one("A"),
    one("B"),
    one("b"),
    one("C"),
    one("c"),
    one("d"),
    one("e"),
    one("G"),
    one("i"),
    one("J"),
    one("L"),
    one("M"),
    one("m"),
    one("o"),
    one("p"),
    one("q"),
    one("r"),
    one("S"),
    one("T"),
    one("t"),
    one("W"),
    one("x"),
    one("account"),
    one("accel-bind"),
    one("acctg-freq"),
    one("bb"),
    one("bbf"),
    one("begin"),
    one("bcast-exclude"),
    one("cluster-constraint"),
    one("clusters"),
    one("comment"),
    one("constraint"),
    one("container-mounts"),
    one("container-workdir"),
    one("container-env"),
    one("container-save"),
    flag("container-mount-home"),
    flag("no-container-mount-home"),
    flag("container-remap-root"),
    flag("no-container-remap-root"),
    flag("container-entrypoint"),
    flag("no-container-entrypoint"),
    flag("container-entrypoint-log"),
    flag("container-writable"),
    flag("container-readonly"),
    one("core-spec"),
    one("cores-per-socket"),
    one("cpu-freq"),
    one("cpus-per-gpu"),
    one("cpus-per-task"),
    one("deadline"),
    one("delay-boot"),
    one("dependency"),
    one("distribution"),
    one("epilog"),
    one("error"),
    one("exclude"),
    one("extra"),
    one("extra-node-info"),
    one("gid"),
    one("gpu-bind", Meaning::gpu_bind),
    one("gpu-freq"),
    one("gpus"),
    one("gpus-per-node"),
    one("gpus-per-socket"),
    one("gpus-per-task", Meaning::gpu_bind),
    one("gres"),
    one("gres-flags"),
    one("het-group"),
    one("hint"),
    one("input"),
    one("jobid"),
    one("job-name"),
    one("label-format"),
    one("licenses"),
    one("mail-type"),
    one("mail-user"),
    one("mcs-label"),
    one("mem"),
    one("mem-bind"),
    one("mem-per-cpu"),
    one("mem-per-gpu"),
    one("mincpus"),
    one("mpi"),
    one("msg-timeout"),
    one("network"),
    one("ntasks-per-core"),
    one("ntasks-per-gpu", Meaning::gpu_bind),
    one("ntasks-per-socket"),
    one("ntasks-per-tres"),
    one("open-mode"),
    one("output"),
    one("partition"),
    one("power"),
    one("prefer"),
    one("priority"),
    one("profile"),
    one("prolog"),
    one("qos"),
    one("relative"),
    one("reservation"),
    one("signal"),
    one("slurmd-debug"),
    one("sockets-per-node"),
    one("switches"),
    one("task-epilog"),
    one("task-prolog"),
    one("thread-spec"),
    one("threads"),
    one("threads-per-core"),
    one("time"),
    one("time-min"),
    one("tmp"),
    one("treewidth"),
    one("tres-bind", Meaning::gpu_bind),
    one("tres-per-task", Meaning::gpu_bind),
    one("uid"),
    one("wait"),
    one("wckey"),
};
constexpr OptionTable kSrunTable = {
    .options = kSrunOptions, .clusters = true, .unknown_with_equals = true};

/// The number in the option, else in the first of the variables that holds one.
std::optional<int> number(const Scan& scan, Meaning meaning, const Environment& environment,
                          std::initializer_list<const char*> names) {
    if (const Given* given = last_given(scan, meaning)) return positive_count(given->value);
    for (const char* name : names)
        if (const auto found = positive_count(variable(environment, name))) return found;
    return std::nullopt;
}

env::Job read_counts(env::Job job, const Scan& scan, const Environment& environment) {
    job.nodes = number(scan, Meaning::nodes, environment, {"SLURM_NNODES", "SLURM_JOB_NUM_NODES"});
    job.ranks_per_node =
        number(scan, Meaning::ranks_per_node, environment, {"SLURM_NTASKS_PER_NODE"});
    const auto total =
        number(scan, Meaning::total_ranks, environment, {"SLURM_NTASKS", "SLURM_NPROCS"});
    const bool asked = last_given(scan, Meaning::total_ranks) != nullptr;
    if (total && job.nodes && (asked || !job.ranks_per_node) && *total % *job.nodes == 0)
        job.ranks_per_node = *total / *job.nodes;
    return job;
}

/// An option of a plug-in that may start the tasks in another place; nullptr = none was given.
const Given* foreign_option(const Scan& scan) {
    constexpr std::array<std::string_view, 4> kOnHost = {"auto-resume", "mpibind", "uenv", "view"};
    const auto found = std::find_if(scan.given.begin(), scan.given.end(), [&](const Given& given) {
        return given.meaning == Meaning::plug_in &&
               std::find(kOnHost.begin(), kOnHost.end(), given.name) == kOnHost.end();
    });
    return found == scan.given.end() ? nullptr : &*found;
}

/// The allocation is this one node, and nothing leads the step to another place.
bool stays_here(const Scan& scan, const env::Job& job, const Environment& environment,
                const Host& host) {
    for (const Meaning away : {Meaning::host_file, Meaning::container})
        if (last_given(scan, away) != nullptr) return false;
    if (const Given* given = last_given(scan, Meaning::hosts);
        given != nullptr && !is_this_host(given->value, host) &&
        given->value != variable(environment, "SLURMD_NODENAME"))
        return false;
    if (foreign_option(scan) != nullptr) return false;
    if (variable(environment, "SLURM_JOB_ID").empty() || job.nodes != 1) return false;
    const auto allocated =
        number(Scan{}, Meaning::nodes, environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    const std::string node = variable(environment, "SLURM_JOB_NODELIST");
    return allocated == 1 && (is_this_host(node, host) ||
                              (!node.empty() && node == variable(environment, "SLURMD_NODENAME")));
}

/// The option, or the variable that stands for it, by which each task sees other GPUs; "" = none
/// does. A word of its own wins over what --gpus-per-task and the like imply (srun(1), --gpu-bind
/// and --tres-bind); only "none" shows all.
std::string gpu_bind(const Scan& scan, const Environment& environment) {
    std::string implied, own;
    bool own_given = false;
    for (const char* name : {"SLURM_GPUS_PER_TASK", "SLURM_NTASKS_PER_GPU"})
        if (const std::string value = variable(environment, name); !value.empty())
            implied = fmt::format("{}={}", name, value);
    if (const std::string value = variable(environment, "SLURM_GPU_BIND"); !value.empty()) {
        own_given = true;
        if (value.find("none") == std::string::npos) own = fmt::format("SLURM_GPU_BIND={}", value);
    }
    for (const Given& given : scan.given) {
        if (given.meaning != Meaning::gpu_bind) continue;
        const std::string text = fmt::format("--{}={}", given.name, given.value);
        const auto has = [&](const char* word) {
            return given.value.find(word) != std::string::npos;
        };
        if (given.name == "gpu-bind" || given.name == "tres-bind") {
            own_given = true;
            own = has("none") ? "" : text;
        } else if (given.name != "tres-per-task" || has("gpu")) {
            implied = text;
        }
    }
    if (!own_given) return implied;
    // By "closest" alone a task may see all GPUs of its node.
    const bool both = own.find("closest") != std::string::npos && !implied.empty();
    return both ? implied + " " + own : own;
}

/// srun's --export list, "" when all variables are handed over. NIL counts as NONE.
std::string export_list(const Scan& scan, const Environment& environment) {
    const Given* given = last_given(scan, Meaning::export_list);
    const std::string list =
        given != nullptr ? given->value : variable(environment, "SLURM_EXPORT_ENV");
    return list == "ALL" || list.starts_with("ALL,") ? "" : list;
}

/// One srun that starts torchrun and the like on this node: its workers inherit the environment.
Command nested_launcher(Command command, const Site& site, const Environment& environment,
                        const Host& host) {
    const std::string name = printable(command.argv[site.word]);
    const bool one_task = command.job.ranks_per_node.value_or(1) == 1;
    if (one_task) command.job.ranks_per_node.reset();
    Command inner = command;
    if (site.kind == "torchrun")
        inner = recognise_torchrun(command, site, environment, host);
    else if (site.kind == "accelerate")
        inner = recognise_accelerate(command, site, environment, host);
    if (inner.rewrite == Rewrite::environment && command.job.same_host && one_task &&
        !command.drops_variables) {
        inner.job.gpu_bind = command.job.gpu_bind;
        inner.launchers = command.launchers;
        inner.job.user_binds = inner.job.user_binds || command.job.user_binds;
        inner.job.binding_given = inner.job.binding_given || command.job.binding_given;
        return inner;
    }
    command.program_at = {site.word};
    return export_only(
        std::move(command),
        fmt::format("each task starts '{0}': put toporun in front of it, srun ... toporun {0} ...",
                    name));
}

/// Notes the options of srun and of the launcher that it starts.
Command keep_options(Command command, const Scan& scan, const Environment& environment,
                     const Host& host) {
    command.launchers = {{"srun", scan.given}};
    Peeled peeled = peel_prefixes(command.argv, scan.program);
    const bool enclosed = peeled.opaque;
    if (!peeled.shell) peeled.opaque = false;  // its options say the same in a container
    const Site inner = find_site(command.argv, peeled, host);
    auto options = inner_options(command, inner, environment, host);
    if (!options) options = options_in_shell_text(command.argv, scan.program, environment, host);
    if (!options) return command;
    options->enclosed = options->enclosed || enclosed;
    command.launchers.push_back(std::move(*options));
    return command;
}

/// Why toporun's shim cannot stand in front of the tasks; "" when it can.
std::string srun_obstacle(const std::vector<Context>& contexts, const env::Job& job,
                          const Environment& environment) {
    if (const std::string problem = contexts_problem(contexts); !problem.empty()) return problem;
    for (const Context& context : contexts)
        if (last_given(context.scan, Meaning::container) != nullptr)
            return "srun starts the ranks in containers";
    for (const Context& context : contexts)
        if (const Given* given = foreign_option(context.scan))
            return fmt::format(
                "'--{}' is no option of srun's own: its plug-in may start the ranks "
                "in another place",
                printable(given->name));
    if (job.same_host) return {};
    return variable(environment, "SLURM_JOB_ID").empty()
               ? "srun may start the ranks on other hosts"
               : "srun starts the ranks on other hosts too: in the job script, srun ... toporun "
                 "COMMAND decides on each node";
}

}  // namespace

Command recognise_srun(Command command, const Site& site, const Environment& environment,
                       const Host& host) {
    command.job.launcher = "srun";
    command.family = "srun";
    const std::vector<Context> contexts = read_contexts(command.argv, site.first, kSrunTable);
    const Scan& scan = contexts.front().scan;
    for (const Context& context : contexts)
        if (!context.scan.problem.empty())
            return export_only(std::move(command), context.scan.problem);
    if (contexts.size() == 1) command = keep_options(std::move(command), scan, environment, host);
    command.job = read_counts(std::move(command.job), scan, environment);
    if (contexts.size() > 1) command.job.ranks_per_node.reset();
    command.job.same_host = true;
    for (const Context& context : contexts)
        command.job.same_host =
            command.job.same_host && stays_here(context.scan, command.job, environment, host);
    command.job.gpu_bind = gpu_bind(scan, environment);
    const Given* policy = last_given(scan, Meaning::bind_policy);
    command.job.binding_given = policy != nullptr;
    command.job.user_binds = policy != nullptr && policy->value.find("none") == std::string::npos;
    const std::string handed_over = export_list(scan, environment);
    command.drops_variables = !handed_over.empty();
    if (const Given* list = last_given(scan, Meaning::export_list))
        add_assignments(command.given.set, list->value, ',');
    const std::string obstacle = srun_obstacle(contexts, command.job, environment);
    const bool containers = obstacle.find("containers") != std::string::npos;
    if (obstacle.empty() || last_given(scan, Meaning::opaque) == nullptr)
        if (last_given(scan, Meaning::no_launch) == nullptr)
            command = add_programs(std::move(command), contexts, host);
    if (containers) command.program.clear();
    if (!obstacle.empty()) {
        if (contexts.size() == 1) forget_one_rank(command, scan.program, host);
        if (command.drops_variables)
            command.notes.push_back(
                fmt::format("srun hands over only '--export={}': toporun's variables do not arrive",
                            printable(handed_over)));
        return export_only(std::move(command), obstacle);
    }
    const Peeled peeled = peel_prefixes(command.argv, scan.program);
    if (const Site inner = find_site(command.argv, peeled, host); inner.role == Role::launcher) {
        add_given(command.given, peeled);
        if (peeled.cleared) command.assignments_at = peeled.assignments_at;
        if (!peeled.binds.empty()) {
            command.job.user_binds = command.job.binding_given = true;
            command.notes.push_back(
                fmt::format("{} chooses the CPUs of all ranks together: toporun does not bind them",
                            peeled.binds));
        }
        const Environment inside = variables_of_ranks(command, environment);
        return nested_launcher(std::move(command), inner, inside, host);
    }
    forget_one_rank(command, scan.program, host);
    return insert_shim(std::move(command), site, program_words(contexts), host);
}

}  // namespace toporun::launcher
