#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "launcher/report/job_merge.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/report_lines.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kNodeRows = 16;  // of a table; report.json has all

std::string ranks_text(const Json& ranks) {
    if (ranks.empty()) return {};
    const int first = ranks.front().get<int>();
    const int last = ranks.back().get<int>();
    if (last == first) return fmt::format(", rank {}", first);
    const bool all = last - first + 1 == static_cast<int>(ranks.size());
    return all ? fmt::format(", ranks {} to {}", first, last)
               : fmt::format(", {} ranks from {} to {}", ranks.size(), first, last);
}

std::string settings_text(const Json& settings) {
    std::string text;
    for (const Json& setting : settings)
        text +=
            fmt::format("; {}{}", setting.at("name").get<std::string>(),
                        setting.at("value").is_string() ? "=" + setting["value"].get<std::string>()
                                                        : std::string(" left alone"));
    return text;
}

std::string node_line(const Json& node) {
    std::string text =
        fmt::format("node {}, {}", node.at("node").get<int>(), node.at("name").get<std::string>());
    const Json& host = node.at("host");
    if (host.is_string() && host != node["name"])
        text += fmt::format(" ({})", host.get<std::string>());
    text += ranks_text(node.at("ranks"));
    const auto ended = node.at("tasks_ended").get<int>();
    if (node.at("host").is_null()) return text + ": not ended";
    const Json& tasks = node.at("tasks");
    if (tasks.is_number() && tasks > 1)
        text += fmt::format(", {} of {} tasks", ended, tasks.get<int>());
    text += node.at("status").is_number()
                ? fmt::format(": ended with {}", node["status"].get<int>())
                : std::string(ended == 0 ? ": not ended" : ": ended with an unknown status");
    if (node.at("duration_s").is_number())
        text += " after " + duration_text(node["duration_s"].get<double>());
    const Json& share = node.at("in_flight_share");
    if (share.at("value").is_number())
        text += fmt::format("; collectives in flight {:.0f} % ({})",
                            share["value"].get<double>() * 100, share["label"].get<std::string>());
    return text + settings_text(node.at("other_settings"));
}

/// Those that ended with a status, or not at all, before the others.
std::vector<const Json*> node_rows(const Json& merged) {
    std::vector<const Json*> rows;
    for (const Json& node : merged.at("node_reports")) rows.push_back(&node);
    if (rows.size() > kNodeRows)
        std::stable_partition(rows.begin(), rows.end(),
                              [](const Json* node) { return node->at("status") != 0; });
    return rows;
}

void add_nodes(const Job& job, const Json& merged, ReportLines& text) {
    text.heading("Nodes");
    const Json& status = merged.at("exit").at("status");
    text.line(fmt::format("{} of {} nodes ended, highest status {}", job.ended_count(),
                          job.node_count(),
                          status.is_number() ? std::to_string(status.get<int>()) : "unknown"));
    const std::vector<const Json*> rows = node_rows(merged);
    for (std::size_t i = 0; i < std::min(kNodeRows, rows.size()); ++i)
        text.line(node_line(*rows[i]));
    if (rows.size() > kNodeRows)
        text.line(fmt::format("{} more in report.json", rows.size() - kNodeRows));
    const std::size_t nodes_with_facts = static_cast<std::size_t>(
        std::count_if(job.nodes.begin(), job.nodes.end(),
                      [](const JobNode& node) { return node.facts.has_value(); }));
    if (job.differences.empty() && nodes_with_facts > 1)
        text.line(
            fmt::format("{} nodes agree: NCCL, driver, GPUs, interfaces, MTU, RDMA devices, "
                        "choices",
                        nodes_with_facts));
    for (const env::Finding& finding : job.differences) {
        text.line(fmt::format("{} [{}]: {}", env::severity_text(finding.severity), finding.id,
                              finding.what));
        text.detail("effect", finding.effect);
        text.detail("fix", finding.fix);
    }
}

/// Findings, warnings and notes that the first report does not have.
void add_of_other_nodes(const Job& job, const Json& merged, ReportLines& text) {
    std::vector<std::string> lines;
    const Json& base = job.base()->report;
    const auto in_base = [&](const Json& finding) {
        return std::any_of(
            base.at("findings").begin(), base.at("findings").end(), [&](const Json& known) {
                return known.at("id") == finding.at("id") && known.at("what") == finding.at("what");
            });
    };
    for (const Json& finding : merged.at("findings")) {
        if (!finding.at("nodes").is_array() || in_base(finding)) continue;
        lines.push_back(fmt::format("{} [{}] on {}: {}", finding.at("severity").get<std::string>(),
                                    finding.at("id").get<std::string>(),
                                    finding["nodes"].front().get<std::string>(),
                                    finding.at("what").get<std::string>()));
        if (finding["nodes"].size() > 1)
            lines.back() += fmt::format(" (and {} more nodes)", finding["nodes"].size() - 1);
    }
    for (const char* name : {"warnings", "notes"})
        for (std::size_t i = base.at(name).size(); i < merged.at(name).size(); ++i)
            lines.push_back(merged[name][i].get<std::string>());
    add_list_lines("Other nodes", lines, text);
}

/// A text of a node's file, which anybody may have changed since.
std::string safe_lines(const std::string& text) {
    std::vector<std::string> lines = split(text, '\n');
    for (std::string& line : lines) line = printable(line);
    return join(lines, "\n");
}

}  // namespace

std::string merged_text(const Job& job, const Json& merged) {
    std::string failure;
    const Json& cause = merged.at("exit").at("first_failure");
    for (const JobNode& node : job.nodes)
        for (const JobTask& task : node.reports)
            if (failure.empty() && cause.is_object() &&
                task.report.at("exit").at("first_failure") == cause)
                failure = task.failure_text;
    ReportLines lines;
    add_nodes(job, merged, lines);
    add_of_other_nodes(job, merged, lines);
    std::string text = failure.empty() ? "" : safe_lines(failure) + "\n";
    text += safe_lines(job.base()->text);
    // Before the last line, which names toporun.
    const std::size_t last = text.rfind("\ntoporun ");
    text.insert(last == std::string::npos ? text.size() : last, "\n" + lines.take());
    return text;
}

std::vector<std::string> job_lines(const Job& job, const Json& merged) {
    std::vector<std::string> lines;
    const Json& first_status = job.base()->report.at("exit").at("status");
    std::vector<std::string> others;
    for (const Json& node : merged.at("node_reports")) {
        const Json& status = node.at("status");
        if (status.is_number() && status != first_status)
            others.push_back(fmt::format("{} ended with {}", node.at("name").get<std::string>(),
                                         status.get<int>()));
    }
    if (!others.empty())
        lines.push_back(others.front() +
                        (others.size() > 1
                             ? fmt::format(", {} more nodes with another status", others.size() - 1)
                             : std::string()));
    return lines;
}

}  // namespace toporun::launcher
