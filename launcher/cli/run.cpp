#include "launcher/cli/run.hpp"

#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/summary.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/cli/prepare.hpp"
#include "launcher/process/observer.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/supervisor.hpp"
#include "launcher/report/json.hpp"
#include "launcher/version.hpp"

namespace toporun::launcher {
namespace {

constexpr int kNotFound = 127;
constexpr int kCannotRun = 126;
constexpr int kFailedBeforeStart = 125;

/// A wait status as if the command had exited with `code`.
constexpr int exited(int code) {
    return code << 8;
}

/// Why a word cannot be run, as execvp sees it: found but not executable, or not found.
int cannot_run(const std::string& word, const Environment& environment, const Console& console) {
    int error = ENOENT;
    std::vector<std::string> candidates = {word};
    const auto path = environment.find("PATH");
    if (word.find('/') == std::string::npos) {
        candidates.clear();
        if (path != environment.end())
            for (const std::string& directory : split(path->second, ':'))
                candidates.push_back((directory.empty() ? "." : directory) + "/" + word);
    }
    for (const std::string& candidate : candidates) {
        struct stat info {};
        if (::stat(candidate.c_str(), &info) == 0)
            error = S_ISDIR(info.st_mode) && word.find('/') == std::string::npos ? error : EACCES;
        else if (errno == EACCES || errno == ENOTDIR)
            error = word.find('/') == std::string::npos ? error : errno;
    }
    static const std::vector<std::string> kKnown = {"torchrun",  "mpirun",     "mpiexec", "srun",
                                                    "deepspeed", "accelerate", "python3", "python"};
    const auto close = closest_word(word, kKnown);
    const bool missing = error != EACCES;
    console.error(fmt::format("cannot run '{}': {}", word,
                              !missing                              ? "permission denied"
                              : word.find('/') == std::string::npos ? "not found on PATH"
                                                                    : std::strerror(error)),
                  {},
                  missing && close && *close != word ? fmt::format("did you mean '{}'?", *close)
                                                     : std::string());
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

void refuse_if_strict(const Arguments& arguments, const Prepared& prepared) {
    if (!arguments.strict || prepared.problems.empty()) return;
    throw Error(prepared.problems.front(), {}, "without --strict the command runs all the same");
}

void say_end(const ChildEnd& end, ReportState state, const std::string& run_directory,
             const Console& console) {
    if (end.observer_lost || state == ReportState::lost)
        console.warn(
            "the observer ended before the report was written; the command was not affected");
    else if (state == ReportState::late)
        console.warn(
            "the report was not ready in time and is not written",
            "--report-wait SECONDS gives it longer; what there is lies in " + run_directory);
}

}  // namespace

int run_command(const Arguments& arguments, const InheritedSignals& inherited,
                const Console& console) {
    const Environment environment = environment_map();
    const SystemHost host(environment);
    Prepared prepared = prepare(arguments, environment, host, Files::make);
    if (prepared.command.executable.empty())
        return exited(cannot_run(arguments.command.front(), environment, console));
    RunDirectory directory =
        make_run_directory(arguments.command.front(), arguments.run_directory, environment);
    if (!directory.note.empty()) prepared.problems.push_back(directory.note);
    try {
        refuse_if_strict(arguments, prepared);
    } catch (...) {
        remove_private_directory(prepared.private_directory);
        throw;
    }
    for (const std::string& line : opening_lines(prepared, directory.shown)) console.say(line);
    if (arguments.explain)
        for (const std::string& line : env::explain_lines(prepared.plan)) console.say(line);

    Observer observer;
    try {
        observer = start_observer({known_facts(arguments, prepared, directory),
                                   prepared.private_directory, directory.path, console.quiet()});
    } catch (const Error& fault) {
        console.warn(fmt::format("no report and no measurement: {}", fault.what()));
    }
    const ChildCommand child{prepared.command.executable, prepared.launch.argv,
                             child_environment(prepared.launch.added),
                             arguments.parent_death_signal};
    ChildEnd end;
    try {
        end = supervise(child, inherited, observer.link);
    } catch (const std::exception& fault) {
        console.warn(fmt::format("toporun steps aside, it cannot supervise: {}", fault.what()));
        dismiss_observer(observer);
        remove_private_directory(prepared.private_directory);
        return exited(exec_command(arguments.command, inherited, console));
    }
    if (!end.started) {
        dismiss_observer(observer);
        remove_private_directory(prepared.private_directory);
        console.error(fmt::format("cannot run '{}': {}", arguments.command.front(),
                                  std::strerror(end.error)));
        return exited(end.error == ENOENT ? kNotFound : kCannotRun);
    }
    restore_signals(inherited);
    const bool observed = observer.pid >= 0;
    const ReportState state = finish_observer(observer, end.status, arguments.report_wait_s);
    if (observed) say_end(end, state, directory.shown, console);
    if (state != ReportState::written) remove_private_directory(prepared.private_directory);
    return end.status;
}

int dry_run(const Arguments& arguments, const Console& console) {
    const Environment environment = environment_map();
    const SystemHost host(environment);
    const Prepared prepared = prepare(arguments, environment, host, Files::name_only);
    if (prepared.command.executable.empty())
        return cannot_run(arguments.command.front(), environment, console);
    refuse_if_strict(arguments, prepared);
    if (arguments.json) {
        const std::string text = dry_run_json(prepared.command, prepared.launch, prepared.plan);
        std::fputs(text.c_str(), stdout);
        return std::fflush(stdout) == 0 ? 0 : kFailedBeforeStart;
    }
    for (const std::string& line : opening_lines(prepared, {})) console.say(line);
    for (const std::string& line : env::explain_lines(prepared.plan)) console.say(line);
    std::vector<std::string> words;
    for (const auto& [name, value] : prepared.launch.added) words.push_back(name + "=" + value);
    if (!words.empty()) words.insert(words.begin(), "env");
    words.insert(words.end(), prepared.launch.argv.begin(), prepared.launch.argv.end());
    std::printf("%s\n", printable(shell_line(words)).c_str());
    return std::fflush(stdout) == 0 ? 0 : kFailedBeforeStart;
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
