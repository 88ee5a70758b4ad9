#include "launcher/report/node_report.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "launcher/report/job_merge.hpp"
#include "launcher/report/judge.hpp"
#include "launcher/report/report.hpp"
#include "launcher/report/report_lines.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kNodeSchema = "toporun.node/1";

std::string failure_lines(const RunFacts& facts) {
    ReportLines lines;
    add_failure_lines(facts, lines);
    return lines.take();
}

/// What is told by the first task of a node for all.
constexpr const char* kOnceANode[] = {"machine", "settings",   "pairs",  "placement",
                                      "command", "next_steps", "replay", "logs"};

/// `later` without what it says as `first` does, and without what one task tells for all.
Json without_repeats(Json later, const Json& first) {
    for (const char* key : kOnceANode) later.erase(key);
    for (const auto& [key, value] : first.items())
        if (later.contains(key) && later.at(key) == value) later.erase(key);
    return later;
}

// --- reading
// --------------------------------------------------------------------------------------

/// Throws Json::exception for another form.
void read_node_file(const Json& file, std::map<int, JobNode>& nodes) {
    if (file.at("schema") != kNodeSchema) throw Json::other_error::create(501, "schema", &file);
    JobNode& node = nodes[file.at("node").get<int>()];
    node.number = file.at("node").get<int>();
    node.of_nodes = file.at("nodes").is_number() ? file.at("nodes").get<int>() : 0;
    node.tasks = std::max(node.tasks, file.at("tasks").get<int>());
    if (const auto facts = parse_node_facts(file.at("facts").get<std::string>()))
        node.facts = *facts;
    Json first = Json::object();
    for (const Json& entry : file.at("reports")) {
        JobTask task;
        task.number = entry.at("task").get<int>();
        task.ended = entry.at("ended").get<bool>();
        task.report = first;
        task.report.update(entry.at("report"));
        if (node.reports.empty()) {
            first = task.report;
            for (const char* key : kOnceANode) first.erase(key);
        }
        task.text = entry.value("text", std::string());
        task.failure_text = entry.value("failure_text", std::string());
        node.reports.push_back(std::move(task));
    }
}

/// Of a task that is in several files its last word counts.
void take_task(JobTask task, std::vector<JobTask>& reports) {
    const auto known = std::find_if(reports.begin(), reports.end(), [&](const JobTask& other) {
        return other.number == task.number;
    });
    if (known == reports.end())
        reports.push_back(std::move(task));
    else if (task.ended || !known->ended)
        *known = std::move(task);
}

/// A damaged file must not damage the report: each is read by itself first.
void take_node(const std::string& text, std::map<int, JobNode>& nodes, Job& job) {
    if (text.empty()) return;  // it has just started, or its last file has taken the place
    if (const auto facts = parse_node_facts(text)) {
        JobNode& node = nodes[facts->head.node];
        node.number = facts->head.node;
        node.facts = *facts;
        return;
    }
    try {
        std::map<int, JobNode> one;
        read_node_file(Json::parse(text), one);
        if (one.empty() || one.begin()->second.reports.empty()) return;
        JobNode& read = one.begin()->second;
        JobNode& node = nodes[read.number];
        std::vector<JobTask> reports = std::move(node.reports);
        for (JobTask& task : read.reports) take_task(std::move(task), reports);
        if (!read.facts) read.facts = node.facts;
        node = std::move(read);
        node.reports = std::move(reports);
        std::stable_sort(node.reports.begin(), node.reports.end(),
                         [](const JobTask& a, const JobTask& b) { return a.number < b.number; });
    } catch (const Json::exception&) {
        ++job.unreadable;
    }
}

/// Takes away the reports that are of another shape under the right schema.
void drop_other_shapes(Job& job) {
    for (JobNode& node : job.nodes) {
        Job alone;
        alone.nodes.push_back(node);
        if (alone.base() == nullptr) continue;
        try {
            merged_text(alone, merged_report(alone));
        } catch (const Json::exception&) {
            ++job.unreadable;
            node.reports.clear();
        }
    }
}

/// Only the job's first report is printed whole; of the other nodes a thousand may be held.
void keep_small(std::map<int, JobNode>& nodes) {
    const JobTask* base = nullptr;
    for (auto& [number, node] : nodes)
        for (const JobTask& task : node.reports)
            if (base == nullptr || task.number < base->number) base = &task;
    for (auto& [number, node] : nodes) {
        for (JobTask& task : node.reports) {
            if (&task == base) continue;
            for (const char* key : {"pairs", "placement"}) task.report.erase(key);
            const auto machine = task.report.find("machine");
            if (machine != task.report.end() && machine->is_object() && machine->size() > 1)
                *machine = Json{{"hostname", machine->value("hostname", Json())}};
            task.text.clear();
        }
    }
}

std::vector<env::Finding> differences_of(const Job& job) {
    std::vector<NodeHead> heads;
    std::vector<NodeFacts> facts;
    for (const JobNode& node : job.nodes) {
        if (!node.facts) continue;
        heads.push_back(node.facts->head);
        facts.push_back(*node.facts);
    }
    return node_differences(group_nodes(heads, facts));
}

/// What the ranks really loaded says more than what was found before the start.
void add_mixed_versions(Job& job) {
    std::map<std::string, std::vector<std::string>> nodes_by_version;
    for (const JobNode& node : job.nodes)
        for (const JobTask& task : node.reports)
            for (const Json& version : task.report.at("nccl").at("versions")) {
                auto& nodes = nodes_by_version[version.get<std::string>()];
                if (nodes.empty() || nodes.back() != job_node_name(node))
                    nodes.push_back(job_node_name(node));
            }
    if (nodes_by_version.size() < 2) return;
    std::vector<std::string> parts;
    for (const auto& [version, nodes] : nodes_by_version)
        parts.push_back(fmt::format("{} on {}{}", version, nodes.front(),
                                    nodes.size() > 1
                                        ? fmt::format(" and {} more nodes", nodes.size() - 1)
                                        : std::string()));
    env::Finding finding;
    finding.id = "nccl-versions-mixed";
    finding.severity = env::Severity::broken;
    finding.what =
        printable(fmt::format("ranks use different NCCL versions: {}", join(parts, ", ")));
    finding.evidence = "version lines of NCCL's logs";
    finding.effect = "versions are not made to work together: hangs and wrong sizes";
    finding.fix = "use one container image or environment on every node";
    std::erase_if(job.differences,
                  [](const env::Finding& found) { return found.id == "nodes-differ-nccl"; });
    job.differences.insert(job.differences.begin(), std::move(finding));
}

}  // namespace

std::string task_report(const RunFacts& facts, const JobPlace& place, bool ended) {
    const std::string failure = failure_lines(facts);
    std::string text = report_text(facts);
    if (text.starts_with(failure)) text.erase(0, failure.size());
    if (text.starts_with('\n')) text.erase(0, 1);
    return dumped({{"task", place.task},
                   {"local_task", place.local_task},
                   {"ended", ended},
                   {"text", text},
                   {"failure_text", failure},
                   {"report", report_object(facts)}});
}

std::string node_file(const NodeFacts& facts, const JobPlace& place,
                      std::span<const std::string> task_reports) {
    std::vector<Json> tasks;
    for (const std::string& text : task_reports) {
        Json task = Json::parse(text, nullptr, false);
        if (task.is_object() && task.contains("report") && task.contains("task"))
            tasks.push_back(std::move(task));
    }
    std::stable_sort(tasks.begin(), tasks.end(), [](const Json& a, const Json& b) {
        return a.value("task", 0) < b.value("task", 0);
    });
    Json reports = Json::array();
    for (Json& task : tasks) {
        if (!reports.empty()) {
            task.erase("text");
            task["report"] = without_repeats(std::move(task["report"]), reports[0]["report"]);
        }
        reports.push_back(std::move(task));
    }
    return dumped({{"schema", kNodeSchema},
                   {"node", place.node},
                   {"nodes", or_null(place.nodes)},
                   {"name", facts.head.name},
                   {"job", place.job},
                   {"tasks", place.local_tasks},
                   {"facts", node_facts_text(facts)},
                   {"reports", reports}});
}

std::optional<JobReport> merge_nodes(std::span<const std::string> texts) {
    return merge_nodes(texts.size(), [&](std::size_t i) { return texts[i]; });
}

std::optional<JobReport> merge_nodes(std::size_t count,
                                     const std::function<std::string(std::size_t)>& text_of) {
    constexpr std::size_t kHeldWhole = 16;
    Job job;
    std::map<int, JobNode> nodes;
    for (std::size_t i = 0; i < count; ++i) {
        take_node(text_of(i), nodes, job);
        if (i % kHeldWhole == 0) keep_small(nodes);
    }
    for (auto& [number, node] : nodes) job.nodes.push_back(std::move(node));
    if (job.base() == nullptr) return std::nullopt;
    for (bool again = false;; again = true) {
        try {
            job.differences = differences_of(job);
            add_mixed_versions(job);
            const Json merged = merged_report(job);
            return JobReport{dumped(merged), merged_text(job, merged), job_lines(job, merged)};
        } catch (const Json::exception&) {
            if (again) return std::nullopt;
            drop_other_shapes(job);
            if (job.base() == nullptr) return std::nullopt;
        }
    }
}

}  // namespace toporun::launcher
