#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/report.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kLines = 10;  // of all, with the one for the report's path
constexpr std::size_t kDifferences = 2;

std::string unknown_use_reason(const RunFacts& facts) {
    std::string reason = facts.plan.takes_log ? std::string("no rank could write NCCL's log")
                                              : facts.plan.log_reason;
    if (!facts.log.notes.empty()) reason = facts.log.notes.front();
    if (facts.job.other_hosts && facts.ranks.empty()) reason = "no rank was seen on this host";
    return reason.empty() ? "its log was not taken" : reason;
}

std::string warning_text(const RunFacts& facts) {
    const LogWarning& first = facts.log.warnings.front();
    const std::string who =
        first.rank ? rank_text(facts, *first.rank) : fmt::format("process {}", first.pid);
    const std::string more = facts.log.warning_count > 1
                                 ? fmt::format(" ({} warnings in all)", facts.log.warning_count)
                                 : std::string();
    return fmt::format("NCCL warned on {}: {}{}", who, first.text, more);
}

void add_findings(const RunFacts& facts, std::size_t room, std::vector<std::string>& lines) {
    std::size_t added = 0;
    for (const env::Finding& finding : differences(facts)) {
        // The share line already says why there is no figure.
        if (finding.id == "profiler-not-loaded" || added == std::min(kDifferences, room)) continue;
        const bool note = finding.severity == env::Severity::note;
        lines.push_back(
            fmt::format("{}{} ({})", note ? "" : "warning: ", finding.what, finding.evidence));
        ++added;
    }
}

/// A line of a terminal's reach; log texts may be long.
std::string shortened(std::string line) {
    constexpr std::size_t kLongest = 240;
    line = printable(line);
    if (line.size() <= kLongest) return line;
    std::size_t end = kLongest;
    while (end > 0 && (static_cast<unsigned char>(line[end]) & 0xc0) == 0x80) --end;
    return line.substr(0, end) + "...";
}

std::string without_label(const std::string& line) {
    constexpr std::string_view kWarning = "warning: ";
    return line.starts_with(kWarning) ? line.substr(kWarning.size()) : line;
}

}  // namespace

std::optional<std::string> live_warning(const RunFacts& facts) {
    constexpr double kWindowSeconds = 60;  // longer than what a start costs
    if (!share_above_limit(facts) || facts.measured.window_seconds < kWindowSeconds)
        return std::nullopt;
    return shortened(share_text(facts));
}

std::vector<std::string> closing_lines(const RunFacts& facts, std::size_t others) {
    const NcclUse use = nccl_use(facts);
    std::string end = end_text(facts);
    const bool told = facts.failure && !facts.failure->from_status_only;
    const std::vector<std::string> left = left_lines(facts);
    const std::size_t elsewhere = others + left.size() + (facts.report_path.empty() ? 0 : 1);
    std::vector<std::string> lines;
    const auto room = [&] {
        const std::size_t used = lines.size() + elsewhere;
        return used < kLines ? kLines - used : 0;
    };
    if (use == NcclUse::no_sign && !told) {
        lines = {end + "; no sign of NCCL"};
        lines.insert(lines.end(), left.begin(), left.end());
        std::transform(lines.begin(), lines.end(), lines.begin(), shortened);
        return lines;
    }
    if (told) lines = {failure_text(*facts.failure), "evidence: " + facts.failure->evidence};
    if (use == NcclUse::no_sign) {
        lines.push_back(end + "; no sign of NCCL");
    } else if (use == NcclUse::unknown) {
        end += "; what NCCL did is unknown: " + unknown_use_reason(facts);
        lines.push_back(end);
    } else {
        lines.push_back(end);
        lines.push_back(facts.warned_of_share ? without_label(share_text(facts))
                                              : share_text(facts));
        if (const auto last = last_rank_text(facts)) lines.push_back(*last);
        const bool warned = !facts.log.warnings.empty();
        const std::size_t free_lines = room();
        add_findings(facts, free_lines > 0 && warned ? free_lines - 1 : free_lines, lines);
        if (warned && room() > 0) lines.push_back(warning_text(facts));
    }
    for (const std::string& step : next_steps(facts))
        if (room() > 0) lines.push_back("next: " + step);
    lines.insert(lines.begin() + (told ? 3 : 1), left.begin(), left.end());
    std::transform(lines.begin(), lines.end(), lines.begin(), shortened);
    // The path whole: it is there to be copied.
    if (!facts.report_path.empty()) lines.push_back("report: " + printable(facts.report_path));
    return lines;
}

}  // namespace toporun::launcher
