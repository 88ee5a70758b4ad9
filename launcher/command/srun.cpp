#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <optional>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/host_list.hpp"
#include "launcher/command/contexts.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/program_file.hpp"
#include "launcher/command/srun_table.hpp"

namespace toporun::launcher {
namespace {

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
    if (total && job.nodes && *total < *job.nodes) {  // srun takes no more nodes than tasks
        job.nodes = *total;
        job.ranks_per_node = 1;
    }
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

/// The same for a launcher that srun starts on each node: toporun itself in front of it, as in
/// `srun toporun torchrun`. This one only starts srun.
Command start_inside(Command command, std::size_t word, const std::string& name, const Host& host) {
    if (host.find_executable(command.argv[word]).empty()) {
        const std::string reason =
            fmt::format("'{}' is not an executable file here: left to the launcher",
                        printable(command.argv[word]));
        return export_only(std::move(command), reason);
    }
    command.notes.push_back(fmt::format(
        "each task starts '{}': toporun runs there, in front of it, where it is installed at the "
        "same place",
        name));
    command.job.why_not_here = fmt::format("toporun decides where '{}' starts", name);
    command.job.same_host = false;
    command.rewrite = Rewrite::inserted;
    command.guard = Guard::toporun;
    command.edits = {{word, false, {}, true, {}}};
    return command;
}

/// One srun that starts torchrun and the like. On this node its workers inherit the environment.
Command nested_launcher(const Command& command, std::size_t word, const Peeled& peeled,
                        const Site& site, const Environment& environment, const Host& host) {
    const bool one_task = command.job.ranks_per_node.value_or(1) == 1;
    Command inner = command;
    add_given(inner.given, peeled);
    if (peeled.cleared) inner.assignments_at = peeled.assignments_at;
    if (!peeled.binds.empty()) {
        inner.job.user_binds = inner.job.binding_given = true;
        inner.notes.push_back(fmt::format(
            "{} chooses the CPUs of all ranks together: toporun does not bind them", peeled.binds));
    }
    if (one_task) inner.job.ranks_per_node.reset();
    const env::Job outer = inner.job;
    const Environment inside = variables_of_ranks(inner, environment);
    if (site.kind == "torchrun")
        inner = recognise_torchrun(std::move(inner), site, inside, host);
    else if (site.kind == "accelerate")
        inner = recognise_accelerate(std::move(inner), site, inside, host);
    if (inner.rewrite == Rewrite::environment && command.job.same_host && one_task &&
        !command.drops_variables) {
        inner.job.gpu_bind = outer.gpu_bind;
        inner.launchers = command.launchers;
        inner.job.user_binds = inner.job.user_binds || outer.user_binds;
        inner.job.binding_given = inner.job.binding_given || outer.binding_given;
        return inner;
    }
    Command plain = command;
    if (one_task) plain.job.ranks_per_node.reset();
    plain.program_at = {site.word};
    return start_inside(std::move(plain), word, printable(command.argv[site.word]), host);
}

/// The variables that the tasks have from the job script, as far as that is known.
Environment handed_over_to_tasks(const Scan& scan, const Environment& environment) {
    if (!export_list(scan, environment).empty()) return {};
    Environment variables = environment;
    std::map<std::string, std::string> assigned;
    if (const Given* list = last_given(scan, Meaning::export_list))
        add_assignments(assigned, list->value, ',');
    for (const auto& assignment : assigned) variables.erase(assignment.first);
    return variables;
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
    if (!options)
        options = options_in_shell_text(command.argv, scan.program,
                                        handed_over_to_tasks(scan, environment), host);
    if (!options) return command;
    options->enclosed = options->enclosed || enclosed;
    command.launchers.push_back(std::move(*options));
    return command;
}

bool is_given(const Scan& scan, std::initializer_list<std::string_view> names) {
    return std::any_of(scan.given.begin(), scan.given.end(), [&](const Given& given) {
        return std::find(names.begin(), names.end(), given.name) != names.end();
    });
}

/// The program word is a file with a program for each task.
bool has_program_file(const Scan& scan) {
    return is_given(scan, {"multi-prog"});
}

/// Why nothing of toporun's can stand in front of the tasks; "" when it can.
std::string srun_obstacle(const std::vector<Context>& contexts) {
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
    for (const Context& context : contexts)
        if (contexts.size() > 1 && has_program_file(context.scan))
            return "'--multi-prog' beside other programs leaves no place for toporun";
    return {};
}

/// The nodes of the step in Slurm's order where it takes the whole allocation; empty where it may
/// take others.
std::vector<std::string> nodes_of_step(const std::vector<Context>& contexts, const env::Job& job,
                                       const Environment& environment) {
    if (contexts.size() != 1 || !job.nodes || variable(environment, "SLURM_JOB_ID").empty() ||
        !variable(environment, "SLURM_HET_SIZE").empty())
        return {};
    if (is_given(contexts.front().scan, {"jobid", "M", "clusters", "het-group"})) return {};
    try {
        auto nodes = env::expand_host_list(variable(environment, "SLURM_JOB_NODELIST"));
        if (static_cast<int>(nodes.size()) == *job.nodes) return nodes;
    } catch (const Error&) {
    }
    return {};  // somebody's variable, or a part of the allocation
}

/// Whether rank 0 may start on another node than the first: the order is a file's.
bool has_order(const Scan& scan, const Environment& environment) {
    if (!variable(environment, "SLURM_HOSTFILE").empty()) return true;
    const auto arbitrary = [](std::string_view text) {
        return text.find("arbitrary") != std::string_view::npos;
    };
    return arbitrary(variable(environment, "SLURM_DISTRIBUTION")) ||
           last_given(scan, Meaning::host_file) != nullptr ||
           std::any_of(scan.given.begin(), scan.given.end(), [&](const Given& given) {
               return (given.name == "m" || given.name == "distribution") && arbitrary(given.value);
           });
}

/// srun that makes the allocation calls the job by its program's name (srun(1), --job-name).
void keep_job_name(Command& command, const Site& site, const std::vector<Context>& contexts,
                   const Environment& environment) {
    if (command.rewrite != Rewrite::inserted || !variable(environment, "SLURM_JOB_ID").empty() ||
        !variable(environment, "SLURM_JOB_NAME").empty() ||
        is_given(contexts.front().scan, {"J", "job-name"}))
        return;
    const std::string& program = command.argv[contexts.front().scan.program];
    command.edits.push_back(
        {site.first, false, {"--job-name=" + std::string(base_name(program))}, false, {}});
}

/// Why the shim cannot stand in front of the programs of the file; "" when it can.
std::string file_obstacle(const ProgramFile& file, const Host& host) {
    if (!file.problem.empty()) return file.problem;
    for (const ProgramLine& line : file.lines) {
        if (line.words.empty()) continue;
        const std::string path = host.find_executable(line.words.front());
        if (const std::string reason = refuses_shim(line.words, 0, path, host); !reason.empty())
            return reason;
        if (peel_prefixes(line.words, 0).cleared)
            return "env -i in front of the ranks' program keeps toporun's variables out";
    }
    return {};
}

/// --multi-prog: the shim in front of each program in a copy of the file, whose word is dropped
/// for the copy's (prepare_launch).
Command insert_in_file(Command command, const Site& site, const Scan& scan, const Host& host) {
    const std::string& name = command.argv[scan.program];
    const bool moved = last_given(scan, Meaning::directory) != nullptr && !name.starts_with('/');
    const auto text = host.read_file(name, kMostProgramFileBytes);
    ProgramFile file;
    if (!text || text->size() >= kMostProgramFileBytes || moved || !site.own_path.empty())
        file.problem =
            fmt::format("srun's file of programs, '{}', cannot be read here", printable(name));
    else
        file = read_program_file(*text);
    if (const std::string reason = file_obstacle(file, host); !reason.empty()) {
        command.job.same_host = false;
        return export_only(std::move(command), reason);
    }
    for (const ProgramLine& line : file.lines) {
        if (line.words.empty()) continue;
        if (command.program.empty()) command.program = innermost_program(line.words, 0, host);
        forget_one_rank(command.job, line.words, 0, host);
        if (!peel_prefixes(line.words, 0).binds.empty())
            command.job.user_binds = command.job.binding_given = true;
    }
    if (text->find("VISIBLE_DEVICES") != std::string::npos)
        command.job.rank_gpus_unknown = "srun's file of programs chooses the GPUs of the ranks";
    return insert_words(std::move(command), {{scan.program, true, {}, true, {}}});
}

Command place_shim(Command command, const Site& site, const std::vector<Context>& contexts,
                   const Host& host) {
    const Scan& scan = contexts.front().scan;
    if (has_program_file(scan)) return insert_in_file(std::move(command), site, scan, host);
    return insert_shim(std::move(command), site, program_words(contexts), host);
}

/// The shim where ranks start on other nodes too, each behind the guard.
Command insert_shim_on_nodes(Command command, const Site& site,
                             const std::vector<Context>& contexts, const Environment& environment,
                             const Host& host) {
    const bool allocated = !variable(environment, "SLURM_JOB_ID").empty();
    if (contexts.size() > 1) command.job.nodes.reset();  // each program has its own
    command.job.hosts = nodes_of_step(contexts, command.job, environment);
    const std::vector<std::string>& nodes = command.job.hosts;
    const std::string own = variable(environment, "SLURMD_NODENAME");
    command.ranks_here = !own.empty() && std::find(nodes.begin(), nodes.end(), own) != nodes.end();
    if (command.ranks_here && !has_order(contexts.front().scan, environment))
        command.first_host = {nodes.front(), nodes.front() == own, {}};
    command = on_other_hosts(place_shim(std::move(command), site, contexts, host),
                             allocated ? "srun starts ranks on other hosts too"
                                       : "srun may start the ranks on other hosts");
    command.guard = Guard::srun;
    keep_job_name(command, site, contexts, environment);
    return command;
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
    const std::string obstacle = srun_obstacle(contexts);
    const bool containers = obstacle.find("containers") != std::string::npos;
    const bool programs_in_file = has_program_file(scan);
    if (obstacle.empty() || last_given(scan, Meaning::opaque) == nullptr)
        if (last_given(scan, Meaning::no_launch) == nullptr && !programs_in_file)
            command = add_programs(std::move(command), contexts, host);
    if (containers) command.program.clear();
    if (!obstacle.empty()) {
        if (contexts.size() == 1) forget_one_rank(command.job, command.argv, scan.program, host);
        if (command.drops_variables)
            command.notes.push_back(
                fmt::format("srun hands over only '--export={}': toporun's variables do not arrive",
                            printable(handed_over)));
        return export_only(std::move(command), obstacle);
    }
    const Peeled peeled = peel_prefixes(command.argv, scan.program);
    const Site inner = find_site(command.argv, peeled, host);
    if (inner.role == Role::launcher && contexts.size() == 1 && !programs_in_file) {
        command = nested_launcher(command, scan.program, peeled, inner, environment, host);
        if (command.guard == Guard::toporun) keep_job_name(command, site, contexts, environment);
        return command;
    }
    if (!programs_in_file) forget_one_rank(command.job, command.argv, scan.program, host);
    if (!command.job.same_host)
        return insert_shim_on_nodes(std::move(command), site, contexts, environment, host);
    return place_shim(std::move(command), site, contexts, host);
}

}  // namespace toporun::launcher
