#include "launcher/process/run_failure.hpp"

#include <fmt/format.h>
#include <sys/wait.h>

#include <algorithm>
#include <csignal>
#include <filesystem>
#include <vector>

#include "base/error.hpp"
#include "launcher/failures/failure_log.hpp"
#include "launcher/log/footprint.hpp"
#include "launcher/log/source.hpp"
#include "launcher/process/error_file.hpp"

namespace toporun::launcher {
namespace {

/// NCCL's logs of this node: all of them, or as many as are read for a report.
void read_own_logs(const std::string& directory, failures::FailureLog& log) {
    if (directory.empty()) return;
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
}

std::vector<const RankRecord*> in_order_of_ends(const std::vector<RankRecord>& records) {
    std::vector<const RankRecord*> ended;
    for (const RankRecord& record : records)
        if (record.rank && record.ended_after_s) ended.push_back(&record);
    std::stable_sort(ended.begin(), ended.end(), [](const auto* a, const auto* b) {
        return *a->ended_after_s < *b->ended_after_s;
    });
    return ended;
}

/// What the ranks' own error handlers have written, in the form in which PyTorch prints it.
void read_error_files(const RunFacts& facts, failures::FailureLog& log) {
    for (const RankRecord* record : in_order_of_ends(facts.ranks)) {
        if (record->error.empty() || record->restart > 0) continue;
        log.begin_file(fmt::format("error file of rank {}", *record->rank));
        for (const std::string& line : lines_of_error_file(record->error))
            log.add(fmt::format("[rank{}]: {}", *record->rank, line));
    }
}

failures::RankProcess process_of(const RankRecord& record) {
    failures::RankProcess process;
    process.rank = *record.rank;
    process.host = record.host;
    process.pid = record.pid;
    process.attempt = record.restart;
    process.end_s = record.ended_after_s;
    if (record.wait_status && WIFSIGNALED(*record.wait_status))
        process.signal = WTERMSIG(*record.wait_status);
    if (record.wait_status && WIFEXITED(*record.wait_status))
        process.code = WEXITSTATUS(*record.wait_status);
    return process;
}

/// The ranks as shims and kernel told them.
void add_processes(const RunFacts& facts, failures::Evidence& evidence) {
    for (const RankRecord& record : facts.ranks) {
        if (!record.rank || !record.confident) continue;
        evidence.processes.push_back(process_of(record));
        if (!facts.machine.gpus.empty()) evidence.processes.back().local_rank = record.local_rank;
        evidence.attempts = std::max(evidence.attempts, record.restart);
        if (record.world_size) evidence.ranks_started = record.world_size;
    }
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

std::string signal_name(int number) {
    const char* name = sigabbrev_np(number);
    return name == nullptr ? fmt::format("signal {}", number) : fmt::format("SIG{}", name);
}

std::optional<failures::Verdict> verdict_of_death(const RunFacts& facts, const RunEnd& end) {
    if (!facts.exit.signal) return std::nullopt;
    const int signal = *facts.exit.signal;
    std::string evidence = fmt::format("the command ended by {}", signal_name(signal));
    if (end.signal && end.signal->number == signal && !end.signal->sender.empty())
        evidence += ", which came from " + end.signal->sender;
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

/// A signal that came to toporun, or to its terminal, shortly before the end. Launchers end their
/// ranks with it, with SIGKILL some time later, and with a status of their own. Likely where
/// somebody was killed.
std::optional<failures::Verdict> verdict_of_signal(const RunFacts& facts, const RunEnd& end) {
    constexpr double kLongestKillWait = 60;  // Slurm's KillWait and torchrun's grace are 30 s
    if (!end.signal || end.signal->before_end_s > kLongestKillWait) return std::nullopt;
    const RunEnd::Signal& signal = *end.signal;
    const bool key = signal.by_key && signal.number == SIGINT;
    const std::string what = key ? "Ctrl-C" : signal_name(signal.number);
    const std::string from = signal.sender.empty() ? "" : " from " + signal.sender;
    failures::Verdict verdict = verdict_of_class(
        "signal-external",
        fmt::format("{} came{}{} before the end", what,
                    signal.count == 1 ? "" : fmt::format(" {} times", signal.count), from),
        fmt::format("{:.1f} s between the {} and the end", signal.before_end_s,
                    signal.count == 1 ? "signal" : "last signal"),
        failures::Confidence::possible);  // the command may have dealt with it
    verdict.from_status_only = true;
    if (key) verdict.advice.clear();
    verdict.node = facts.machine.hostname;
    return verdict;
}

bool has_killed_rank(const RunFacts& facts) {
    return std::any_of(facts.ranks.begin(), facts.ranks.end(), [](const RankRecord& record) {
        return record.wait_status && WIFSIGNALED(*record.wait_status);
    });
}

}  // namespace

std::optional<failures::Verdict> failure_of_run(const RunFacts& facts,
                                                const std::string& log_directory,
                                                const RunEnd& end) {
    auto signal = verdict_of_signal(facts, end);
    // Hydra (MPICH 4.0) that is told to end kills its ranks and ends with 0 now and then.
    if (facts.exit.status.value_or(0) == 0 && !(signal && has_killed_rank(facts)))
        return std::nullopt;
    const auto counter = verdict_of_counter(facts, end);
    const auto explains_kill = [&] {
        signal->confidence = failures::Confidence::likely;
        return signal;
    };
    failures::FailureLog log;
    read_own_logs(log_directory, log);
    read_error_files(facts, log);
    failures::Evidence evidence = log.evidence();
    add_processes(facts, evidence);
    if (auto verdict = failures::judge(evidence, failures::Catalogue::builtin())) {
        const bool names_cause = verdict->confidence != failures::Confidence::unknown;
        // A rank that vanished without a word, and a kill by the kernel: the same one.
        if (names_cause && counter && verdict->cause == "unknown-kill") {
            verdict->cause = counter->cause;
            verdict->severity = counter->severity;
            verdict->title = counter->title;
            verdict->advice = counter->advice;
            verdict->remarks.push_back(counter->what + ": " + counter->evidence);
        }
        if (signal && verdict->cause == signal->cause) verdict->remarks.push_back(signal->what);
        const bool killed = verdict->cause == "unknown-kill";
        if (killed && signal) return explains_kill();
        if (killed && verdict->advice.size() > 2) verdict->advice.resize(2);
        if (names_cause) return verdict;
    }
    if (counter) return counter;
    const auto death = verdict_of_death(facts, end);
    if (signal && death && death->cause == "unknown-kill") return explains_kill();
    return death || !signal ? death : signal;
}

std::optional<failures::Verdict> failure_of_node(RunFacts facts, const std::string& log_directory,
                                                 const RunEnd& end) {
    const bool failed =
        std::any_of(facts.ranks.begin(), facts.ranks.end(),
                    [](const RankRecord& record) { return record.wait_status.value_or(0) != 0; });
    facts.exit.status = failed ? 1 : 0;
    return failure_of_run(facts, log_directory, end);
}

}  // namespace toporun::launcher
