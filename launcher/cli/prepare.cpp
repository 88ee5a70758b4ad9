#include "launcher/cli/prepare.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/descriptors.hpp"
#include "base/error.hpp"
#include "base/text.hpp"
#include "env/filled_in.hpp"
#include "env/rank_count.hpp"
#include "launcher/cli/host_order.hpp"
#include "launcher/cli/installed.hpp"
#include "launcher/cli/knowledge.hpp"
#include "launcher/cli/node_words.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/loader_option.hpp"
#include "launcher/command/node_share.hpp"
#include "launcher/command/program.hpp"
#include "launcher/fill/fill_in.hpp"
#include "launcher/fill/look_up.hpp"
#include "launcher/log/footprint.hpp"
#include "launcher/preflight/preflight.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/run_watch.hpp"
#include "launcher/process/signals.hpp"
#include "launcher/profiler/ring_slots.hpp"
#include "launcher/report/write_file.hpp"
#include "launcher/shim/plan_file.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kNamedDirectory = "/tmp/toporun-XXXXXX";

/// Runs one part; what it throws becomes a line that says what is missing without it.
template <class Part>
bool attempt(std::vector<std::string>& problems, const char* missing, Part&& part) {
    try {
        part();
        return true;
    } catch (const Error& fault) {
        problems.push_back(fault.where().empty()
                               ? fmt::format("{}: {}", missing, fault.what())
                               : fmt::format("{}: {} ({})", missing, fault.what(), fault.where()));
        return false;
    } catch (const std::exception& fault) {
        problems.push_back(fmt::format("{}: {}", missing, fault.what()));
        return false;
    }
}

/// The plan counts for ranks of the node that this host is. What srun starts on nodes that are not
/// known has plans of its own.
bool counts_here(const Command& command) {
    return command.job.launcher != "srun" || command.ranks_here;
}

/// `before`: variables from before the launcher started.
std::string write_shim_plan(const Prepared& prepared, const Environment& before,
                            const Environment& environment, const ShimFiles& files) {
    const std::string path = prepared.private_directory + "/" + kShimPlanFile;
    std::string text =
        shim_plan_text(prepared.command.job, prepared.plan, prepared.machine.cpu.allowed,
                       prepared.private_directory + "/" + kRecordsFile, before);
    const char* key = prepared.command.job.other_hosts ? "set" : "expect";
    const std::string node = variable(environment, "SLURMD_NODENAME");
    if (prepared.command.job.other_hosts && counts_here(prepared.command) && !node.empty() &&
        node.find('\n') == std::string::npos)
        text += fmt::format("node {}\n", node);
    for (const auto& [name, value] : profiler_variables(prepared.plan, files, environment))
        text += fmt::format("{} {} {}\n", key, name, value);
    write_file(path, text);
    return path;
}

/// The other hosts that the launcher may reach; 0 = not known.
int count_other_hosts(const Command& command, const Environment& environment, const Host& host) {
    const env::Job& job = command.job;
    if (job.launcher == "srun") return std::max(job.nodes.value_or(0) - command.ranks_here, 0);
    const std::string node = variable(environment, "SLURMD_NODENAME");
    return static_cast<int>(std::count_if(
        job.hosts.begin(), job.hosts.end(),
        [&](const std::string& name) { return name != node && !is_this_host(name, host); }));
}

/// This host is the first, whether it has ranks or not. Not in a task of a step, whose toporuns
/// report together already.
JobPlace place_among_hosts(const Prepared& prepared, const Environment& environment,
                           const Host& host) {
    JobPlace place;
    const int others = count_other_hosts(prepared.command, environment, host);
    if (!prepared.command.job.other_hosts || others == 0 || prepared.private_directory.empty() ||
        job_place(environment).shared())
        return place;
    place.job = base_name(prepared.private_directory);
    place.nodes = others + 1;
    place.name = prepared.machine.hostname;
    if (const std::string node = variable(environment, "SLURMD_NODENAME");
        prepared.command.ranks_here && !node.empty())
        place.name = node;
    return place;
}

/// NVML is asked only where there is a sign of a GPU: that it failed is worth a line at the start.
void add_gpu_problem(Prepared& prepared) {
    for (const std::string& note : prepared.machine.notes) {
        if (!note.starts_with("NVML")) continue;
        prepared.problems.push_back("GPUs are known as far as PCI shows them, " + note);
        return;
    }
}

/// NCCL's log and the records are written by the ranks: where a file may not grow (ulimit -f), they
/// would end the ranks by SIGXFSZ.
void make_private(Prepared& prepared, const Environment& environment, Files files) {
    if (!prepared.private_directory.empty()) return;
    const std::uint64_t most_bytes = footprint_budget(std::nullopt);
    if (!file_size_allowed(most_bytes)) {
        prepared.problems.push_back(
            fmt::format("NCCL's log and the measurement are off: files may not grow to {} here "
                        "(ulimit -f)",
                        format_bytes(most_bytes)));
        return;
    }
    if (files == Files::name_only) {
        prepared.private_directory = kNamedDirectory;
        return;
    }
    block_relayed_signals();  // one that comes now must not leave the directory behind
    PrivateDirectory made = make_private_directory(environment, most_bytes);
    prepared.private_directory = made.path;
    if (made.path.empty())
        prepared.problems.push_back("NCCL's log and the measurement are off: " + made.note);
}

/// What the command line says of loader workers. With --set-workers its number is not the user's
/// wish.
void read_loader_words(Prepared& prepared, const Arguments& arguments) {
    env::Job& job = prepared.command.job;
    const std::vector<LoaderNumber> numbers = loader_numbers(prepared.command);
    const bool placeholder = has_workers_placeholder(prepared.command.argv);
    job.loader_filled_in = placeholder || (arguments.set_workers && !numbers.empty());
    if (!numbers.empty()) {
        if (arguments.set_workers) return;
        job.loader_workers = numbers.back().workers;
        job.loader_words = numbers.back().words;
    } else if (const auto advice = loader_advice(prepared.command); advice && !placeholder) {
        job.loader_framework = advice->framework;
        job.loader_add = advice->add;
        job.loader_default = advice->default_workers;
    }
}

/// What was left out of the launch. The number of nodes counts for the decisions already.
struct LeftOut {
    Gaps gaps;
    RendezvousFacts facts;
};

LeftOut find_left_out(Prepared& prepared, const Environment& inner, const FillOptions& options,
                      const Host& host, const NodeShare& share) {
    LeftOut left_out;
    left_out.gaps = find_gaps(prepared.command, inner);
    if (left_out.gaps.gap == Gap::none) return left_out;
    const bool config = left_out.gaps.gap == Gap::ranks && options.tf_config;
    if (is_left(options, left_out.gaps, inner) && !config) return left_out;  // nobody is asked
    left_out.facts = look_up_rendezvous(left_out.gaps, inner, host, share);
    env::Job& job = prepared.command.job;
    const bool counts = left_out.gaps.gap == Gap::rendezvous && left_out.gaps.rendezvous.nodes;
    if (counts) job.nodes = left_out.gaps.nodes;
    if (job.rendezvous.empty() && job.nodes.value_or(1) > 1 && !left_out.facts.addresses.empty())
        job.rendezvous = left_out.facts.addresses.front();
    return left_out;
}

/// What is left out of torchrun's options, and no more.
bool is_left_out(const env::Finding& finding) {
    return finding.id == "rendezvous-missing" || finding.id == "node-rank-missing" ||
           finding.id == "launcher-alone-per-node";
}

bool has_finding(const Prepared& prepared, const env::Finding& finding) {
    return std::any_of(prepared.plan.findings.begin(), prepared.plan.findings.end(),
                       [&](const env::Finding& other) { return other.id == finding.id; });
}

/// {workers} and, with --set-workers, the numbers of the command line. No other character changes.
std::vector<std::string> with_workers(Prepared& prepared, const Arguments& arguments,
                                      std::vector<std::string>& notes) {
    Command command = prepared.command;
    const bool known = prepared.plan.ranks_per_node && prepared.plan.workers.loader_workers;
    const int workers = known ? *prepared.plan.workers.loader_workers : kSafeWorkers;
    if (has_workers_placeholder(command.argv)) {
        command.argv = fill_in_workers(std::move(command.argv), workers);
        if (known)
            notes.push_back(fmt::format("{{workers}} in the command is {}", workers));
        else
            prepared.problems.push_back(fmt::format(
                "{{workers}} in the command is {}: how many fit is not known", workers));
    }
    if (!arguments.set_workers) return command.argv;
    const std::vector<LoaderNumber> numbers = loader_numbers(command);
    if (numbers.empty() || !known) {
        notes.emplace_back(numbers.empty()
                               ? "--set-workers: no number of loader workers is on the command line"
                               : "--set-workers: how many loader workers fit is not known");
        return command.argv;
    }
    // Options that go with workers (prefetch_factor) are an error without any.
    const int number = numbers.back().workers > 0 ? std::max(1, workers) : workers;
    notes.push_back(fmt::format("{}: {} in its place (--set-workers)",
                                printable(numbers.back().words), number));
    return set_loader_numbers(command, numbers, number);
}

/// What ranks read of their place, where another host's toporun says where they meet.
void fill_in_told(Prepared& prepared, const ToldToNode& told, const Environment& environment,
                  const FillOptions& options, const Host& host) {
    // The first rank's own variables, of which this process has those of one.
    Environment others = environment;
    for (const std::string_view name : env::kRankVariables) others.erase(std::string(name));
    if (told.places_of_step) {
        const Gaps own = gaps_of_step(others);
        if (own.gap == Gap::none) return;
        FilledIn filled = fill_in_node(own, look_up_rendezvous(own, others, host), others,
                                       prepared.machine, prepared.plan, options);
        for (env::Setting& setting : filled.settings)
            prepared.plan.settings.push_back(std::move(setting));
        for (env::Finding& finding : filled.findings)
            prepared.plan.findings.push_back(std::move(finding));
        return;
    }
    if (told.master_address.empty()) return;
    Gaps gaps;
    gaps.one_task = told.job.launcher == "srun" && told.job.ranks_per_node == 1;
    gaps.gap = Gap::ranks;
    gaps.by_shim = gaps.other_hosts = true;
    gaps.evidence = "told by toporun on the launcher's host";
    Rendezvous rendezvous;
    rendezvous.address = told.master_address;
    rendezvous.port = told.master_port;
    rendezvous.reason = "where rank 0 listens";
    for (env::Setting& setting :
         fill_in_ranks(gaps, rendezvous, others, prepared.machine, options).settings)
        prepared.plan.settings.push_back(std::move(setting));
}

/// Looks at the machine, decides and rewrites, for a command that was recognised. `node`: on
/// another host than the launcher's, in the environment of its first rank.
void look_and_decide(Prepared& prepared, const Arguments& arguments, const Environment& environment,
                     const Host& host, Files files, const ToldToNode* node = nullptr) {
    std::vector<std::string>& problems = prepared.problems;
    const Environment inner = variables_of_ranks(prepared.command, environment);
    read_loader_words(prepared, arguments);
    const FillOptions fill_options{arguments.options.leave, arguments.export_tf_config};
    // --dry-run leaves nothing behind, and a node's agent is alone.
    const NodeShare share =
        files == Files::make && node == nullptr ? NodeShare::among_ranks(environment) : NodeShare();
    LeftOut left_out;
    attempt(problems, "what was left out of the launch is not filled in", [&] {
        if (node == nullptr && !runs_inside(prepared.command))
            left_out = find_left_out(prepared, inner, fill_options, host, share);
    });
    const auto look = [&] {
        prepared.machine = read_machine(arguments, environment, prepared.command.program, false,
                                        prepared.command.job.rendezvous, &share);
    };
    if (arguments.machine_files.empty() && arguments.captures.empty()) {
        if (!attempt(problems, "nothing is chosen, the machine could not be read", look)) return;
        add_gpu_problem(prepared);
    } else {
        look();
    }
    if (!prepared.command.alone_reason.empty())
        prepared.command = with_gpus(
            std::move(prepared.command),
            env::resolve_ranks_word("gpu", prepared.machine, read_user_environment(inner)));
    const Installed installed = find_installed();
    if (installed.shim.empty() && prepared.command.rewrite != Rewrite::export_only &&
        !runs_inside(prepared.command)) {
        prepared.command = without_shim(std::move(prepared.command), "toporun-shim is missing");
        problems.emplace_back(
            "ranks are not bound to CPUs and NCCL's log is not taken: toporun-shim is not beside "
            "toporun");
    }
    env::Options options = arguments.options;
    attempt(problems, "the order of the hosts is not known",
            [&] { read_host_order(arguments, environment, prepared.command.job, options); });
    Loaded loaded;
    const auto load = [&] { loaded = load_knowledge(arguments, environment, prepared.machine); };
    if (arguments.profile_files.empty())
        attempt(problems, "profiles are left out", load);
    else
        load();
    for (const ProfileProblem& problem : loaded.problems)
        problems.push_back(problem_text(problem) +
                           (problem.hint.empty() ? "" : ": " + problem.hint));
    make_private(prepared, environment, files);  // what is above may refuse to start
    const bool decided = attempt(problems, "nothing is chosen, the decision failed", [&] {
        options.log_directory = prepared.private_directory;
        options.plugin = prepared.private_directory.empty() ? std::string() : installed.plugin;
        prepared.plan = decide(prepared.command.job, prepared.machine, read_user_environment(inner),
                               options, loaded.knowledge);
    });
    if (!decided) return;
    Environment told = inner;
    bool meets = false;  // at an address of toporun's own
    if (node != nullptr) fill_in_told(prepared, *node, inner, fill_options, host);
    attempt(problems, "what was left out of the launch is not filled in", [&] {
        FilledIn filled = fill_in(left_out.gaps, left_out.facts, inner, prepared.machine,
                                  prepared.plan, fill_options);
        for (env::Setting& setting : filled.settings) {
            if (setting.exported && !setting.per_rank) told[setting.name] = *setting.value;
            prepared.plan.settings.push_back(std::move(setting));
        }
        meets = filled.meets;
        for (env::Finding& finding : filled.findings)
            prepared.plan.findings.push_back(std::move(finding));
    });
    attempt(problems, "the launch line was not checked", [&] {
        LineFacts facts;
        if (arguments.machine_files.empty() && arguments.captures.empty())  // of this host
            facts = look_up_line(questions_on_line(prepared.command, told), told, host, share);
        const bool on_nodes =
            runs_inside(prepared.command) && filled_in_on_nodes(prepared.command, inner);
        for (env::Finding& finding : preflight(prepared.command, told, prepared.machine, facts))
            if (!(meets && finding.id == "rendezvous-loopback") &&
                !(on_nodes && is_left_out(finding)) && !has_finding(prepared, finding))
                prepared.plan.findings.push_back(std::move(finding));
    });
    if (node == nullptr) prepared.place = place_among_hosts(prepared, environment, host);
    ShimFiles node_files{
        prepared.private_directory,
        {},
        words_for_nodes(prepared, arguments),
        profiler::ring_slots(prepared.plan.ranks_per_node, memory_bytes(prepared.machine.limits))};
    if (!prepared.private_directory.empty() && prepared.command.rewrite != Rewrite::export_only &&
        !runs_inside(prepared.command)) {
        if (files == Files::name_only)
            node_files.shim_plan = prepared.private_directory + "/" + kShimPlanFile;
        else
            attempt(problems, "ranks are not bound to CPUs and NCCL's log is not taken", [&] {
                const Environment before = node == nullptr ? inner : Environment{};
                node_files.shim_plan = write_shim_plan(prepared, before, inner, node_files);
            });
    }
    std::vector<std::string> notes;
    prepared.argv = with_workers(prepared, arguments, notes);
    prepared.launch.argv = prepared.argv;
    attempt(problems, "the command runs as typed, without any setting", [&] {
        Command command = prepared.command;
        command.argv = prepared.argv;
        prepared.launch =
            prepare_launch(command, prepared.plan, installed, node_files, inner, host);
        prepared.launch.notes.insert(prepared.launch.notes.begin(), notes.begin(), notes.end());
    });
}

}  // namespace

bool runs_inside(const Command& command) {
    return command.guard == Guard::toporun && command.rewrite == Rewrite::inserted;
}

Prepared prepare(const Arguments& arguments, const Environment& environment, const Host& host,
                 Files files) {
    Prepared prepared;
    std::vector<std::string>& problems = prepared.problems;
    prepared.command.argv = arguments.command;
    prepared.argv = fill_in_workers(arguments.command, kSafeWorkers);
    prepared.launch.argv = prepared.argv;
    prepared.command.executable = host.find_executable(arguments.command.front());
    const bool missing = prepared.command.executable.empty();
    if (missing && files == Files::make) return prepared;
    attempt(problems, "the command was not understood, variables are exported only",
            [&] { prepared.command = recognise(arguments.command, environment, host); });
    if (missing && !prepared.command.launcher_at) return prepared;
    if (runs_inside(prepared.command) && files == Files::make) {
        if (!arguments.profile_files.empty()) load_knowledge(arguments, environment, {});
        prepared.launch =
            prepare_launch(prepared.command, {}, find_installed(),
                           {{}, {}, words_for_nodes(prepared, arguments)}, environment, host);
        for (const std::string& note : prepared.launch.notes)
            problems.push_back("the command runs without toporun on the nodes: " + note);
        return prepared;
    }
    if (missing)
        problems.push_back(fmt::format("'{}' is not found on PATH here: it would not start",
                                       printable(arguments.command.front())));
    look_and_decide(prepared, arguments, environment, host, files);
    return prepared;
}

Prepared prepare_node(const Arguments& arguments, const ToldToNode& told,
                      const std::string& directory, const Environment& environment,
                      const Host& host) {
    Prepared prepared;
    prepared.command.argv = prepared.argv = prepared.launch.argv = {told.program};
    prepared.command.executable = prepared.command.program = told.program;
    prepared.command.job = told.job;
    prepared.command.rewrite = Rewrite::inserted;
    prepared.private_directory = directory;
    look_and_decide(prepared, arguments, environment, host, Files::make, &told);
    return prepared;
}

}  // namespace toporun::launcher
