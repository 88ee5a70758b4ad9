#include "launcher/process/run_failure.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "launcher/failures/failure_log.hpp"
#include "launcher/log/footprint.hpp"
#include "launcher/log/source.hpp"

namespace toporun::launcher {
namespace {

/// NCCL's logs of this node: all of them, or as many as are read for a report.
failures::FailureLog read_own_logs(const std::string& directory) {
    failures::FailureLog log;
    std::vector<std::filesystem::path> files;
    std::error_code error;
    std::filesystem::directory_iterator entry(directory, error);
    for (; !error && entry != std::filesystem::directory_iterator(); entry.increment(error)) {
        const std::string name = entry->path().filename().string();
        if (name.starts_with("nccl.") && name.ends_with(".log") && entry->is_regular_file(error) &&
            !entry->is_symlink(error))
            files.push_back(entry->path());
    }
    std::sort(files.begin(), files.end());
    std::uint64_t bytes = 0;
    for (const std::filesystem::path& file : files) {
        bytes += std::filesystem::file_size(file, error);
        if (error || bytes > kMostLogBytes) break;
        log.begin_file(file.filename());
        try {
            read_log_lines(file, [&](std::string_view line, bool) {
                const auto parsed = detect::nccl_log::parse_line(line);
                log.add(line, &parsed);
            });
        } catch (const Error&) {  // the log model has noted it
            continue;
        }
    }
    return log;
}

failures::Verdict verdict_of_class(std::string_view id, const std::string& what,
                                   const std::string& evidence, failures::Confidence confidence) {
    failures::Verdict verdict;
    const failures::Class* of = failures::Catalogue::builtin().find_class(id);
    verdict.cause = id;
    verdict.severity = of == nullptr ? "unknown" : of->severity;
    verdict.title = of == nullptr ? "" : of->title;
    verdict.what = what;
    verdict.evidence = evidence;
    verdict.confidence = confidence;
    if (of != nullptr) verdict.advice = of->advice;
    return verdict;
}

/// The control group's counter, which also counts what is not of this run when the group is
/// shared.
std::optional<failures::Verdict> verdict_of_counter(const RunFacts& facts, const RunEnd& end) {
    if (!end.oom_kills_before || !end.oom_kills_after) return std::nullopt;
    if (*end.oom_kills_after <= *end.oom_kills_before) return std::nullopt;
    const std::uint64_t kills = *end.oom_kills_after - *end.oom_kills_before;
    failures::Verdict verdict = verdict_of_class(
        "host-oom-kill",
        fmt::format("the kernel killed {} {} of this control group for want of memory while the "
                    "command ran",
                    kills, kills == 1 ? "process" : "processes"),
        fmt::format("oom_kill rose from {} to {}", *end.oom_kills_before, *end.oom_kills_after),
        failures::Confidence::likely);
    verdict.node = facts.machine.hostname;
    return verdict;
}

std::optional<failures::Verdict> verdict_of_death(const RunFacts& facts) {
    if (!facts.exit.signal) return std::nullopt;
    const int signal = *facts.exit.signal;
    const char* name = sigabbrev_np(signal);
    const std::string evidence =
        fmt::format("the command ended by {}", name == nullptr ? fmt::format("signal {}", signal)
                                                               : fmt::format("SIG{}", name));
    std::string_view id;
    if (signal == SIGSEGV || signal == SIGBUS || signal == SIGILL || signal == SIGFPE ||
        signal == SIGABRT)
        id = "native-crash";
    else if (signal == SIGKILL)
        id = "unknown-kill";
    else if (signal == SIGTERM || signal == SIGINT || signal == SIGHUP || signal == SIGQUIT)
        id = "signal-external";
    else
        return std::nullopt;
    failures::Verdict verdict =
        verdict_of_class(id, evidence, evidence, failures::Confidence::certain);
    verdict.from_status_only = true;
    if (verdict.advice.size() > 2) verdict.advice.resize(2);  // the third is to use toporun
    verdict.node = facts.machine.hostname;
    return verdict;
}

}  // namespace

std::optional<failures::Verdict> failure_of_run(const RunFacts& facts,
                                                const std::string& log_directory,
                                                const RunEnd& end) {
    if (facts.exit.status.value_or(0) == 0) return std::nullopt;
    const auto counter = verdict_of_counter(facts, end);
    if (!log_directory.empty()) {
        auto verdict = read_own_logs(log_directory).verdict();
        const bool names_cause = verdict && verdict->confidence != failures::Confidence::unknown;
        // A rank that vanished without a word, and a kill by the kernel: the same one.
        if (names_cause && counter && verdict->cause == "unknown-kill") {
            verdict->cause = counter->cause;
            verdict->severity = counter->severity;
            verdict->title = counter->title;
            verdict->advice = counter->advice;
            verdict->remarks.push_back(counter->what + ": " + counter->evidence);
        }
        if (names_cause) return verdict;
    }
    return counter ? counter : verdict_of_death(facts);
}

}  // namespace toporun::launcher
