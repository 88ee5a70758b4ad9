#include <fmt/format.h>
#include <sys/wait.h>

#include <cstring>

#include "base/text.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/report_lines.hpp"

/// How ranks ended, and what of the command was left.
namespace toporun::launcher {
namespace {

constexpr std::size_t kNamedProcesses = 8;  // processes in one line

std::string gpus_text(const LeftProcess& process) {
    if (!process.gpus) return ", GPU unknown";
    if (process.gpus->empty()) return "";
    std::vector<std::string> numbers;
    for (const int gpu : *process.gpus) numbers.push_back(std::to_string(gpu));
    return ", GPU " + join(numbers, " and ");
}

std::string signal_text(int signal) {
    const char* name = sigabbrev_np(signal);
    return name == nullptr ? fmt::format("signal {}", signal) : fmt::format("SIG{}", name);
}

std::string left_list(const std::vector<LeftProcess>& left, bool ended) {
    std::string text;
    std::size_t count = 0;
    for (const LeftProcess& process : left) {
        if (process.ended_by.has_value() != ended) continue;
        if (++count > kNamedProcesses) continue;
        text += fmt::format("{}{} ({}{}{})", text.empty() ? "" : ", ", process.pid,
                            printable(process.name), gpus_text(process),
                            process.ended_by ? ", " + signal_text(*process.ended_by) : "");
    }
    if (count > kNamedProcesses) text += fmt::format(" and {} more", count - kNamedProcesses);
    return text;
}

}  // namespace

std::vector<std::string> left_lines(const RunFacts& facts) {
    std::vector<std::string> lines;
    if (const std::string ended = left_list(facts.left, true); !ended.empty())
        lines.push_back("left by the command and ended: " + ended);
    const bool reaped = !lines.empty();
    if (const std::string running = left_list(facts.left, false); !running.empty())
        lines.push_back(fmt::format("still running after the command's end: {}{}", running,
                                    reaped ? "" : "; --reap ends what is left"));
    return lines;
}

std::string rank_end_text(const RankRecord& record) {
    std::string text;
    if (record.wait_status && WIFSIGNALED(*record.wait_status))
        text = "by " + signal_text(WTERMSIG(*record.wait_status));
    else if (record.wait_status)
        text = fmt::format("with {}", WEXITSTATUS(*record.wait_status));
    else if (record.ended_after_s)
        text = "with an unknown status";
    if (text.empty()) return text;
    text.insert(0, "ended ");
    if (record.ended_after_s) text += " after " + duration_text(*record.ended_after_s);
    return text;
}

}  // namespace toporun::launcher
