#include "launcher/cli/run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/explain.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/cli/opening_lines.hpp"
#include "launcher/cli/prepare.hpp"
#include "launcher/command/job_place.hpp"
#include "launcher/command/node_share.hpp"
#include "launcher/command/prefixes.hpp"
#include "launcher/process/held_directory.hpp"
#include "launcher/process/observer.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/supervisor.hpp"
#include "launcher/process/survivors.hpp"
#include "launcher/report/findings.hpp"
#include "launcher/report/json.hpp"
#include "launcher/report/views.hpp"
#include "launcher/report/write_file.hpp"
#include "launcher/version.hpp"

namespace toporun::launcher {
namespace {

constexpr int kNotFound = 127;
constexpr int kCannotRun = 126;
constexpr int kFailedBeforeStart = 125;
/// srun's second Ctrl-C sends SIGINT, and SIGKILL some 15 ms later to what is still there: then the
/// step would end with 137 and not as the command did (Slurm 22.05).
constexpr double kAbortedStepWait = 0.01;

/// Of SIGINT itself, or a shell whose command did. What ends in another way was asked to end early
/// (`srun --signal=INT@60`), and nobody kills it.
constexpr bool died_of_interrupt(int wait_status) {
    return WIFSIGNALED(wait_status) ? WTERMSIG(wait_status) == SIGINT
                                    : WEXITSTATUS(wait_status) == 128 + SIGINT;
}

/// A wait status as if the command had exited with `code`.
constexpr int exited(int code) {
    return code << 8;
}

/// Says why a word cannot be run and returns the status, both as `env` does: 127 when nothing of
/// that name is there, 126 when it is there and cannot be run.
int cannot_run(const std::string& word, const Environment& environment, const Console& console) {
    const bool searched = word.find('/') == std::string::npos;
    std::vector<std::string> candidates;
    const auto path = environment.find("PATH");
    if (!searched) candidates.push_back(word);
    if (searched && !word.empty() && path != environment.end())
        for (const std::string& directory : split(path->second, ':'))
            candidates.push_back((directory.empty() ? "." : directory) + "/" + word);
    int error = ENOENT;
    for (const std::string& candidate : candidates) {
        struct stat info {};
        const int fault = ::stat(candidate.c_str(), &info) == 0 ? EACCES : errno;
        if (fault == EACCES || !searched) error = fault;
    }
    static const std::vector<std::string> kKnown = {"torchrun",  "mpirun",     "mpiexec", "srun",
                                                    "deepspeed", "accelerate", "python3", "python",
                                                    "detect",    "env",        "report"};
    const auto close = closest_word(word, kKnown);
    const bool missing = error == ENOENT;
    const std::string reason =
        missing && searched ? "not found on PATH" : std::string(std::strerror(error));
    std::string hint =
        missing && close && *close != word ? fmt::format("did you mean '{}'?", *close) : "";
    if (missing && is_assignment(word))
        hint = fmt::format("toporun -- env {} COMMAND", printable(word));
    console.error(fmt::format("cannot run '{}': {}", word, reason), {}, hint);
    return missing ? kNotFound : kCannotRun;
}

std::vector<std::string> child_environment(
    const std::vector<std::pair<std::string, std::string>>& added) {
    std::set<std::string, std::less<>> names;
    for (const auto& [name, value] : added) names.insert(name);
    std::vector<std::string> strings;
    for (std::string& entry : environment_strings())
        if (!names.contains(std::string_view(entry).substr(0, entry.find('='))))
            strings.push_back(std::move(entry));
    for (const auto& [name, value] : added) strings.push_back(name + "=" + value);
    return strings;
}

RunFacts known_facts(const Arguments& arguments, const Prepared& prepared,
                     const RunDirectory& directory) {
    RunFacts facts;
    facts.tool_version = kVersion;
    facts.command = arguments.command;
    facts.job = prepared.command.job;
    facts.rewrite = rewrite_text(prepared.launch.rewrite);
    facts.rewrite_note = prepared.command.export_only_reason;
    facts.machine = prepared.machine;
    facts.plan = prepared.plan;
    facts.run_directory = directory.shown;
    facts.start_utc = utc_iso(::time(nullptr));
    facts.warnings = prepared.problems;
    facts.notes = prepared.launch.notes;
    facts.comm_limit = arguments.comm_limit;
    return facts;
}

[[noreturn]] void refuse(const std::string& problem) {
    throw Error(problem, {}, "without --strict the command runs all the same");
}

/// The observer did not finish: says so, and has the report written from what the run left.
void replace_observer(const ObserverTask& task, const ChildEnd& end, ReportState state,
                      double seconds, const Console& console) {
    const char* what = state == ReportState::lost
                           ? "the observer ended before the report was written"
                           : "the report was not ready in time (--report-wait)";
    struct stat info {};
    if (state == ReportState::late && !task.run_directory.empty() && task.place.leads() &&
        ::stat((task.run_directory + "/report.txt").c_str(), &info) == 0) {
        remove_private_directory(task.private_directory);  // all but the last words was done
        return;
    }
    try {
        report_later(task, end.status, seconds);
        console.warn(task.run_directory.empty()
                         ? fmt::format("{}; the command was not affected", what)
                         : fmt::format("{}; the command was not affected, the report follows in {}",
                                       what, task.facts.run_directory));
    } catch (const std::exception&) {
        console.warn(fmt::format("{}; the command was not affected, there is no report", what));
        remove_private_directory(task.private_directory);
    }
}

/// The copy of srun's file of programs. Without it the command runs as typed.
void write_programs(Prepared& prepared) {
    Launch& launch = prepared.launch;
    if (launch.programs_path.empty()) return;
    try {
        const std::string text = program_file_text(launch.program_lines, launch.rank_words);
        if (text.empty()) throw Error("a line of it would be too long");
        write_file(launch.programs_path, text);
    } catch (const Error& fault) {
        launch.argv = prepared.argv;
        launch.rewrite = Rewrite::export_only;
        prepared.problems.push_back(
            fmt::format("srun's file of programs stays as it is: {}", fault.what()));
    }
}

}  // namespace

int run_command(const Arguments& arguments, const InheritedSignals& inherited,
                const Console& given_console) {
    const Environment environment = own_environment();
    const JobPlace step_place = job_place(environment);
    const auto rank = step_place.shared() ? std::nullopt : rank_of_mpi(environment);
    // Of the toporuns of a step, and of the ranks that another launcher started here, one speaks;
    // what the others have to say is in the report.
    const bool speaks = step_place.leads() && (!rank || rank->local_rank == 0);
    const Console console(given_console.fd(), given_console.quiet() || !speaks);
    const SystemHost host(environment);
    Prepared prepared = prepare(arguments, environment, host, Files::make);
    if (prepared.command.executable.empty())
        return exited(cannot_run(arguments.command.front(), environment, console));
    if (runs_inside(prepared.command)) {  // toporun is in front of each task: this one steps aside
        if (arguments.strict && !prepared.problems.empty()) refuse(prepared.problems.front());
        for (const std::string& problem : prepared.problems) console.warn(problem);
        return exited(exec_command(prepared.launch.argv, inherited, console));
    }
    const JobPlace& place = prepared.place.shared() ? prepared.place : step_place;
    if (arguments.strict && !prepared.problems.empty()) {
        remove_private_directory(prepared.private_directory);
        refuse(prepared.problems.front());
    }
    RunDirectory directory =
        make_run_directory(arguments.command.front(), arguments.run_directory, environment, place);
    if (!directory.note.empty()) prepared.problems.push_back(directory.note);
    // Of a node without a run directory nobody else can tell.
    if (directory.path.empty() && place.local_task == 0 && !place.leads())
        given_console.warn(fmt::format(
            "{}: {}", place.name.empty() ? fmt::format("node {}", place.node) : place.name,
            directory.note));
    const auto withdraw = [&] {
        remove_private_directory(prepared.private_directory);
        withdraw_run(directory, place);
    };
    if (arguments.strict && !directory.note.empty()) {
        withdraw();
        refuse(directory.note);
    }
    if (prepared.command.job.other_hosts) {
        const bool shell = !by_python(prepared.command.guard);
        const std::string_view told = kRunDirectoryWord + (shell ? 0 : 2);  // without its dashes
        for (auto* words : {&prepared.launch.argv, &prepared.launch.rank_words})
            for (std::string& word : *words)
                if (word == told && (shell || passes_shell(directory.path))) word += directory.path;
    }
    write_programs(prepared);
    if (rank)
        prepared.command.notes.emplace_back(
            "a launcher starts a toporun for each rank: one in front of the launcher instead binds "
            "the ranks, fills in their variables and makes one report");
    for (const std::string& line : opening_lines(prepared, directory.shown)) console.say(line);
    if (arguments.explain)
        for (const std::string& line : env::explain_lines(prepared.plan)) console.say(line);

    block_relayed_signals();
    const bool move_latest = !directory.named && place.local_task == 0;
    const Descriptor held = hold_directory(prepared.private_directory);
    const ObserverTask task{.facts = known_facts(arguments, prepared, directory),
                            .private_directory = prepared.private_directory,
                            .held = held.get(),
                            .run_directory = directory.path,
                            .place = place,
                            .run = directory.run,
                            .move_latest = move_latest,
                            .own_directory = !move_latest,
                            .quiet = console.quiet(),
                            .nvml_library = nvml_library(environment),
                            .reap = arguments.reap,
                            .report_wait_s = arguments.report_wait_s,
                            .silent = false};
    Observer observer;
    try {
        observer = start_observer(task);
    } catch (const Error& fault) {
        console.warn(fmt::format("no report and no measurement: {}", fault.what()));
    }
    if (const int signal = pending_end(inherited); signal != 0) {
        dismiss_observer(observer);
        withdraw();
        return signal;  // as a wait status: death by this signal
    }
    const ChildCommand child{prepared.command.executable,
                             prepared.launch.argv,
                             child_environment(prepared.launch.added),
                             arguments.parent_death_signal,
                             prepared.argv,
                             environment_strings()};
    const auto started = std::chrono::steady_clock::now();
    ChildEnd end;
    try {
        end = supervise(child, inherited, observer.link, observer.pid);
    } catch (const std::exception&) {
        console.warn("no descriptors or processes are left to supervise with: toporun steps aside");
        dismiss_observer(observer);
        withdraw();
        return exited(exec_command(prepared.argv, inherited, console));
    }
    if (!end.started) {
        dismiss_observer(observer);
        withdraw();
        console.error(fmt::format("cannot run '{}': {}", arguments.command.front(),
                                  std::strerror(end.error)));
        return exited(end.error == ENOENT ? kNotFound : kCannotRun);
    }
    const std::chrono::duration<double> run_time = std::chrono::steady_clock::now() - started;
    drain_relayed_signals();  // the Ctrl-C that ended the command; a later one ends the waiting
    if (observer.pid < 0) {
        remove_private_directory(prepared.private_directory);
        return end.status;
    }
    const bool aborted = died_of_interrupt(end.status) && !step_place.job.empty();
    const double wait_s = aborted ? std::min(kAbortedStepWait, arguments.report_wait_s)
                                  : arguments.report_wait_s + (arguments.reap ? kReapSeconds : 0);
    const ReportState state =
        finish_observer(observer, end.status, wait_s, [&] { return pending_end(inherited) != 0; });
    if (state != ReportState::written)
        replace_observer(task, end, state, run_time.count(), console);
    return end.status;
}

int dry_run(const Arguments& arguments, const Console& console) {
    const Environment environment = own_environment();
    const SystemHost host(environment);
    const Prepared prepared = prepare(arguments, environment, host, Files::name_only);
    if (prepared.command.executable.empty() && !prepared.command.launcher_at)
        return cannot_run(arguments.command.front(), environment, console);
    if (arguments.strict && !prepared.problems.empty()) refuse(prepared.problems.front());
    if (arguments.json) {
        const std::string text = dry_run_json(prepared.command, prepared.launch, prepared.plan);
        std::fputs(text.c_str(), stdout);
        return std::fflush(stdout) == 0 ? 0 : kFailedBeforeStart;
    }
    for (const std::string& line : opening_lines(prepared, {})) console.say(line);
    Command shown = prepared.command;  // with the ranks that `gpu` means or that were filled in
    if (prepared.plan.ranks_per_node) shown.job.ranks_per_node = prepared.plan.ranks_per_node;
    console.say(structure_text(shown));
    if (const auto filled = filled_in_variables(prepared.plan); !filled.empty())
        console.say(fmt::format("filled in: {}{}", join(filled, " "),
                                arguments.explain ? "" : " (--explain says why)"));
    if (arguments.explain)
        for (const std::string& line : env::explain_lines(prepared.plan)) console.say(line);
    if (const auto off = environment.find("TOPORUN");
        off != environment.end() && off->second == "off")
        console.say("TOPORUN=off is set: without --dry-run the command runs as typed");
    std::vector<std::string> words;
    for (const auto& [name, value] : prepared.launch.added) words.push_back(name + "=" + value);
    if (!words.empty()) words.insert(words.begin(), "env");
    words.insert(words.end(), prepared.launch.argv.begin(), prepared.launch.argv.end());
    std::printf("%s\n", printable(shell_line(words)).c_str());
    return std::fflush(stdout) == 0 ? 0 : kFailedBeforeStart;
}

int preflight_only(const Arguments& arguments, const Console& console) {
    const Environment environment = own_environment();
    const SystemHost host(environment);
    const Prepared prepared = prepare(arguments, environment, host, Files::name_only);
    if (prepared.command.executable.empty() && !prepared.command.launcher_at)
        return cannot_run(arguments.command.front(), environment, console);
    if (arguments.strict && !prepared.problems.empty()) refuse(prepared.problems.front());
    std::vector<env::Finding> findings = prepared.plan.findings;
    std::stable_sort(findings.begin(), findings.end(), [](const auto& a, const auto& b) {
        return static_cast<int>(a.severity) < static_cast<int>(b.severity);
    });
    for (const std::string& problem : prepared.problems) console.warn(problem, {});
    const std::string text =
        arguments.json ? preflight_json(findings) : preflight_text(findings, Console(1).colour());
    std::fputs(text.c_str(), stdout);
    if (std::fflush(stdout) != 0) return kFailedBeforeStart;
    return !findings.empty() && findings.front().severity == env::Severity::broken ? 1 : 0;
}

int exec_command(const std::vector<std::string>& command, const InheritedSignals& inherited,
                 const Console& console) {
    std::vector<char*> words;
    words.reserve(command.size() + 1);
    for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
    words.push_back(nullptr);
    restore_signals(inherited);
    ::execvp(words.front(), words.data());
    const int error = errno;
    console.error(fmt::format("cannot run '{}': {}", command.front(), std::strerror(error)));
    return error == ENOENT ? kNotFound : kCannotRun;
}

}  // namespace toporun::launcher
