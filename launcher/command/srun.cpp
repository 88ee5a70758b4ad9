#include <fmt/format.h>

#include <array>
#include <optional>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

constexpr Option optional_value(std::string_view name) {
    return {name, Arity::optional};
}
constexpr Option flag(std::string_view name) {
    return {name};
}
constexpr Option value(std::string_view name) {
    return {name, Arity::one};
}

// srun(1), Slurm 22.05 to 25.05.
constexpr std::array kOptions = {
    optional_value("I"),
    optional_value("immediate"),
    optional_value("K"),
    optional_value("kill-on-bad-exit"),
    optional_value("k"),
    optional_value("no-kill"),
    Option{"bcast", Arity::optional, Meaning::opaque},
    optional_value("compress"),
    optional_value("exclusive"),
    optional_value("external-launcher"),
    optional_value("nice"),
    optional_value("oom-kill-step"),
    optional_value("overlap"),
    optional_value("propagate"),
    Option{"pty", Arity::optional, Meaning::opaque},
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
    Option{"h", Arity::flag, Meaning::no_launch},
    Option{"V", Arity::flag, Meaning::no_launch},
    Option{"help", Arity::flag, Meaning::no_launch},
    Option{"usage", Arity::flag, Meaning::no_launch},
    Option{"version", Arity::flag, Meaning::no_launch},
    flag("contiguous"),
    flag("exact"),
    Option{"multi-prog", Arity::flag, Meaning::opaque},
    flag("parsable"),
    flag("quit-on-interrupt"),
    flag("reboot"),
    flag("spread-job"),
    flag("stepmgr"),
    flag("test-only"),
    flag("use-min-nodes"),
    flag("wait-for-children"),
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
    Option{"n", Arity::one, Meaning::total_ranks},
    Option{"ntasks", Arity::one, Meaning::total_ranks},
    Option{"N", Arity::one, Meaning::nodes},
    Option{"nodes", Arity::one, Meaning::nodes},
    Option{"ntasks-per-node", Arity::one, Meaning::ranks_per_node},
    Option{"tasks-per-node", Arity::one, Meaning::ranks_per_node},
    Option{"w", Arity::one, Meaning::hosts},
    Option{"nodelist", Arity::one, Meaning::hosts},
    Option{"F", Arity::one, Meaning::host_file},
    Option{"nodefile", Arity::one, Meaning::host_file},
    Option{"cpu-bind", Arity::one, Meaning::bind_policy},
    Option{"cpu_bind", Arity::one, Meaning::bind_policy},
    Option{"export", Arity::one, Meaning::export_list},
    Option{"container-image", Arity::one, Meaning::container},
    Option{"container-name", Arity::one, Meaning::container},
    Option{"container", Arity::one, Meaning::container},
    Option{"D", Arity::one, Meaning::directory},
    Option{"chdir", Arity::one, Meaning::directory},
    value("A"),
    value("B"),
    value("b"),
    value("C"),
    value("c"),
    value("d"),
    value("e"),
    value("G"),
    value("i"),
    value("J"),
    value("L"),
    value("M"),
    value("m"),
    value("o"),
    value("p"),
    value("q"),
    value("r"),
    value("S"),
    value("T"),
    value("t"),
    value("W"),
    value("x"),
    value("account"),
    value("accel-bind"),
    value("acctg-freq"),
    value("bb"),
    value("bbf"),
    value("begin"),
    value("bcast-exclude"),
    value("cluster-constraint"),
    value("clusters"),
    value("comment"),
    value("constraint"),
    value("container-mounts"),
    value("container-workdir"),
    value("container-env"),
    value("core-spec"),
    value("cores-per-socket"),
    value("cpu-freq"),
    value("cpus-per-gpu"),
    value("cpus-per-task"),
    value("deadline"),
    value("delay-boot"),
    value("dependency"),
    value("distribution"),
    value("epilog"),
    value("error"),
    value("exclude"),
    value("extra"),
    value("extra-node-info"),
    value("gid"),
    value("gpu-bind"),
    value("gpu-freq"),
    value("gpus"),
    value("gpus-per-node"),
    value("gpus-per-socket"),
    value("gpus-per-task"),
    value("gres"),
    value("gres-flags"),
    value("het-group"),
    value("hint"),
    value("input"),
    value("jobid"),
    value("job-name"),
    value("label-format"),
    value("licenses"),
    value("mail-type"),
    value("mail-user"),
    value("mcs-label"),
    value("mem"),
    value("mem-bind"),
    value("mem-per-cpu"),
    value("mem-per-gpu"),
    value("mincpus"),
    value("mpi"),
    value("msg-timeout"),
    value("network"),
    value("ntasks-per-core"),
    value("ntasks-per-gpu"),
    value("ntasks-per-socket"),
    value("ntasks-per-tres"),
    value("open-mode"),
    value("output"),
    value("partition"),
    value("power"),
    value("prefer"),
    value("priority"),
    value("profile"),
    value("prolog"),
    value("qos"),
    value("relative"),
    value("reservation"),
    value("signal"),
    value("slurmd-debug"),
    value("sockets-per-node"),
    value("switches"),
    value("task-epilog"),
    value("task-prolog"),
    value("thread-spec"),
    value("threads"),
    value("threads-per-core"),
    value("time"),
    value("time-min"),
    value("tmp"),
    value("treewidth"),
    value("tres-bind"),
    value("tres-per-task"),
    value("uid"),
    value("wait"),
    value("wckey"),
};
constexpr OptionTable kTable = {.options = kOptions, .clusters = true, .unknown_with_equals = true};

/// The number in the option, else in the first of the variables that holds one.
std::optional<int> number(const Scan& scan, Meaning meaning, const Environment& environment,
                          std::initializer_list<const char*> names) {
    const auto read = [](const std::string& text) -> std::optional<int> {
        const auto found = to_integer(trim(text));
        if (!found || *found < 1 || *found > 10'000'000) return std::nullopt;
        return static_cast<int>(*found);
    };
    if (const Given* given = last_given(scan, meaning)) return read(given->value);
    for (const char* name : names)
        if (const auto found = read(variable(environment, name))) return found;
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

/// The allocation is this one node, and nothing leads the step to another place.
bool stays_here(const Scan& scan, const env::Job& job, const Environment& environment,
                const Host& host) {
    for (const Meaning away : {Meaning::hosts, Meaning::host_file, Meaning::container})
        if (last_given(scan, away) != nullptr) return false;
    if (variable(environment, "SLURM_JOB_ID").empty() || job.nodes != 1) return false;
    const auto allocated =
        number(Scan{}, Meaning::nodes, environment, {"SLURM_JOB_NUM_NODES", "SLURM_NNODES"});
    const std::string node = variable(environment, "SLURM_JOB_NODELIST");
    return allocated == 1 && (is_this_host(node, host) ||
                              (!node.empty() && node == variable(environment, "SLURMD_NODENAME")));
}

std::string narrowed_export(const Scan& scan, const Environment& environment) {
    const Given* given = last_given(scan, Meaning::export_list);
    const std::string list =
        given != nullptr ? given->value : variable(environment, "SLURM_EXPORT_ENV");
    if (list.empty() || list == "ALL" || list.starts_with("ALL,")) return {};
    return fmt::format("srun hands over only '--export={}': toporun's variables do not arrive",
                       printable(list));
}

}  // namespace

Command recognise_srun(Command command, const Environment& environment, const Host& host) {
    command.job.launcher = "srun";
    command.family = "srun";
    const Scan scan = scan_options(command.argv, 1, command.argv.size(), kTable);
    if (!scan.problem.empty()) return export_only(std::move(command), scan.problem);
    command.job = read_counts(std::move(command.job), scan, environment);
    command.job.same_host = stays_here(scan, command.job, environment, host);
    const Given* policy = last_given(scan, Meaning::bind_policy);
    command.binding_given = policy != nullptr;
    command.job.user_binds = policy != nullptr && policy->value.find("none") == std::string::npos;
    if (const std::string note = narrowed_export(scan, environment); !note.empty())
        command.notes.push_back(note);
    if (last_given(scan, Meaning::no_launch) != nullptr)
        return export_only(std::move(command), "srun only prints its help or its version");
    if (scan.program < command.argv.size() && last_given(scan, Meaning::opaque) == nullptr) {
        command.program_at = {scan.program};
        if (last_given(scan, Meaning::container) == nullptr)
            command.program = innermost_program(command.argv, scan.program, host);
    }
    return export_only(std::move(command),
                       "srun starts the ranks itself: no shim in front of them");
}

}  // namespace toporun::launcher
