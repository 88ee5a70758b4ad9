#include "launcher/report/job_merge.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <ctime>
#include <map>
#include <optional>
#include <set>

namespace toporun::launcher {
namespace {

/// A task with the node that it ran on.
struct TaskRow {
    const JobNode* node = nullptr;
    const JobTask* task = nullptr;
};

/// By the number of the task.
std::vector<TaskRow> rows_of(const Job& job) {
    std::vector<TaskRow> rows;
    for (const JobNode& node : job.nodes)
        for (const JobTask& task : node.reports) rows.push_back({&node, &task});
    std::stable_sort(rows.begin(), rows.end(), [](const TaskRow& a, const TaskRow& b) {
        return a.task->number < b.task->number;
    });
    return rows;
}

int status_of(const Json& report) {
    const Json& status = report.at("exit").at("status");
    return status.is_number() ? status.get<int>() : -1;
}

/// Elements of `more` that `list` does not have yet.
void unite(Json& list, const Json& more) {
    std::set<std::string> known;
    for (const Json& element : list) known.insert(element.dump());
    for (const Json& element : more)
        if (known.insert(element.dump()).second) list.push_back(element);
}

/// By number, of the last start. A number that several tasks have in that start is of worlds of
/// their own, as with torchrun --standalone: each is kept.
Json all_ranks(const std::vector<TaskRow>& rows) {
    struct Known {
        int restart = -1;
        std::map<int, Json> by_task;
    };
    std::map<int, Known> ranks;
    for (const TaskRow& row : rows) {
        for (Json rank : row.task->report.at("ranks")) {
            rank["node"] = row.node->number;
            Known& known = ranks[rank.at("rank").get<int>()];
            const int restart = rank.at("restart").is_number() ? rank["restart"].get<int>() : -1;
            if (restart < known.restart) continue;
            if (restart > known.restart) known = {restart, {}};
            known.by_task[row.task->number] = std::move(rank);
        }
    }
    Json list = Json::array();
    for (auto& [number, known] : ranks)
        for (auto& [task, rank] : known.by_task) list.push_back(std::move(rank));
    return list;
}

/// "" = each rank number is there once.
std::string repeated_ranks_text(const Json& ranks) {
    std::set<int> seen, repeated;
    for (const Json& rank : ranks) {
        const int number = rank.at("rank").get<int>();
        if (!seen.insert(number).second) repeated.insert(number);
    }
    if (repeated.empty()) return {};
    return fmt::format(
        "rank {} is there more than once: the launchers of this step started worlds of their own, "
        "and what is added up here is of all of them",
        *repeated.begin());
}

/// The mean over the reports that know the share, each weighing as many ranks as it measured.
Json mean_share(const std::vector<TaskRow>& rows, const char* name) {
    double sum = 0, weight = 0;
    Json label = "unknown";
    for (const TaskRow& row : rows) {
        const Json& share = row.task->report.at("communication").at(name);
        if (!share.at("value").is_number()) continue;
        double ranks = 0;
        for (const Json& rank : row.task->report.at("ranks"))
            if (rank.at("in_flight_share").is_number()) ++ranks;
        ranks = std::max(ranks, 1.0);
        if (weight == 0) label = share.at("label");
        sum += share["value"].get<double>() * ranks;
        weight += ranks;
    }
    return {{"value", weight > 0 ? Json(sum / weight) : Json(nullptr)}, {"label", label}};
}

Json all_communication(const std::vector<TaskRow>& rows) {
    Json merged = rows.front().task->report.at("communication");
    for (const char* name : {"in_flight_share", "transfer_share", "waiting_share"})
        merged[name] = mean_share(rows, name);
    for (const char* name : {"operations", "lost"}) {
        std::uint64_t sum = 0;
        for (const TaskRow& row : rows)
            sum += row.task->report.at("communication").at(name).get<std::uint64_t>();
        merged[name] = sum;
    }
    return merged;
}

/// Rows of equal function and size added up; bandwidths weighed by count.
Json all_collectives(const std::vector<TaskRow>& rows) {
    Json merged = Json::array();
    std::map<std::string, std::size_t> places;
    std::vector<double> measured;
    for (const TaskRow& row : rows) {
        for (const Json& one : row.task->report.at("collectives")) {
            const std::string key = one.at("function").dump() + one.at("size_class").dump();
            const double count = one.at("count").get<double>();
            const Json& busbw = one.at("busbw_gbytes_per_s");
            const auto [place, added] = places.emplace(key, merged.size());
            if (added) {
                merged.push_back(one);
                measured.push_back(busbw.is_number() ? count : 0);
                continue;
            }
            Json& known = merged[place->second];
            for (const char* name : {"count", "bytes"})
                known[name] = known[name].get<std::uint64_t>() + one.at(name).get<std::uint64_t>();
            if (!busbw.is_number()) continue;
            double& weight = measured[place->second];
            const double before =
                weight > 0 ? known["busbw_gbytes_per_s"].get<double>() * weight : 0;
            weight += count;
            known["busbw_gbytes_per_s"] = (before + busbw.get<double>() * count) / weight;
        }
    }
    return merged;
}

/// What NCCL did, from the logs of all nodes.
Json all_nccl(const std::vector<TaskRow>& rows) {
    Json merged;
    for (const TaskRow& row : rows) {
        const Json& nccl = row.task->report.at("nccl");
        if (!nccl.at("started").is_boolean()) continue;
        if (merged.is_null()) {
            merged = nccl;
            continue;
        }
        for (const char* name : {"versions", "networks", "interfaces", "bootstrap_interfaces",
                                 "data_interfaces", "rdma_devices", "transports", "warnings"})
            unite(merged.at(name), nccl.at(name));
        merged["warning_count"] = merged.at("warning_count").get<std::uint64_t>() +
                                  nccl.at("warning_count").get<std::uint64_t>();
        for (const char* name : {"lines", "unknown_lines", "torn_lines", "cut_lines"})
            merged.at("log")[name] = merged.at("log").at(name).get<std::uint64_t>() +
                                     nccl.at("log").at(name).get<std::uint64_t>();
    }
    return merged.is_null() ? rows.front().task->report.at("nccl") : merged;
}

/// Texts of all reports; those that the first one does not have are marked with their node.
Json all_texts(const std::vector<TaskRow>& rows, const char* name) {
    Json merged = rows.front().task->report.at(name);
    std::set<std::string> known;
    for (const Json& text : merged) known.insert(text.get<std::string>());
    for (const TaskRow& row : rows)
        for (const Json& text : row.task->report.at(name))
            if (known.insert(text.get<std::string>()).second)
                merged.push_back(
                    fmt::format("{}: {}", job_node_name(*row.node), text.get<std::string>()));
    return merged;
}

/// Each kind of finding once, with the nodes that have it.
Json all_findings(const Job& job, const std::vector<TaskRow>& rows) {
    Json merged = findings_array(job.differences);
    for (Json& finding : merged) finding["nodes"] = nullptr;
    std::map<std::string, std::size_t> places;
    for (const TaskRow& row : rows) {
        for (const Json& finding : row.task->report.at("findings")) {
            const std::string key = finding.at("id").dump() + finding.at("what").dump();
            const auto [place, added] = places.emplace(key, merged.size());
            if (added) {
                merged.push_back(finding);
                merged.back()["nodes"] = Json::array();
            }
            unite(merged[place->second]["nodes"], Json::array({job_node_name(*row.node)}));
        }
    }
    return merged;
}

/// When the rank that `failure` names ended, seconds since 1970 by its node's clock; nothing where
/// no single rank is named or its end was not seen.
std::optional<double> end_time(const Json& report, const Json& failure) {
    const Json& start = report.at("start_utc");
    if (!start.is_string() || !failure.at("rank").is_number()) return std::nullopt;
    std::tm parts{};
    if (::strptime(start.get<std::string>().c_str(), "%Y-%m-%dT%H:%M:%SZ", &parts) == nullptr)
        return std::nullopt;
    for (const Json& rank : report.at("ranks")) {
        const Json& after = rank.at("ended_after_s");
        const bool named = rank.at("rank") == failure["rank"] &&
                           (!failure.at("pid").is_number() || rank.at("pid") == failure["pid"]);
        if (named && after.is_number())
            return static_cast<double>(::timegm(&parts)) + after.get<double>();
    }
    return std::nullopt;
}

/// The first cause that is surest; between equals the rank that ended first, where the nodes'
/// clocks tell (start_utc has whole seconds), else that of the first task.
const TaskRow* first_failure(const std::vector<TaskRow>& rows) {
    static constexpr const char* kConfidence[] = {"unknown", "possible", "likely", "certain"};
    const TaskRow* best = nullptr;
    std::ptrdiff_t best_value = -1;
    std::optional<double> best_end;
    for (const TaskRow& row : rows) {
        const Json& failure = row.task->report.at("exit").at("first_failure");
        if (!failure.is_object()) continue;
        const std::string confidence = failure.at("confidence").get<std::string>();
        std::ptrdiff_t value =
            std::find(std::begin(kConfidence), std::end(kConfidence), confidence) -
            std::begin(kConfidence);
        // An end from outside is what the others got because of the one that failed.
        if (failure.at("severity") == "external") value -= 8;
        const std::optional<double> end = end_time(row.task->report, failure);
        const bool earlier = value == best_value && end && best_end && *end + 1 < *best_end;
        if (best != nullptr && value <= best_value && !earlier) continue;
        best = &row;
        best_value = value;
        best_end = end;
    }
    return best;
}

/// As srun ends: with the highest status of a task.
Json all_exits(const std::vector<TaskRow>& rows) {
    const TaskRow* worst = &rows.front();
    for (const TaskRow& row : rows)
        if (status_of(row.task->report) > status_of(worst->task->report)) worst = &row;
    Json merged = worst->task->report.at("exit");
    const TaskRow* failure = first_failure(rows);
    merged["left"] = Json::array();
    for (const TaskRow& row : rows)
        for (Json process : row.task->report.at("exit").at("left")) {
            process["node"] = row.node->number;
            merged["left"].push_back(std::move(process));
        }
    merged["first_failure"] =
        failure == nullptr ? Json(nullptr) : failure->task->report.at("exit").at("first_failure");
    return merged;
}

/// Settings whose value is another than the first report's.
Json other_settings(const Json& report, const Json& base) {
    std::map<std::string, Json> values;
    for (const Json& setting : base.at("settings"))
        values[setting.at("name").get<std::string>()] = setting.at("value");
    Json list = Json::array();
    for (const Json& setting : report.at("settings")) {
        if (setting.at("name") == "NCCL_DEBUG_FILE") continue;  // in the node's own directory
        const auto known = values.find(setting.at("name").get<std::string>());
        if (known == values.end() || known->second != setting.at("value"))
            list.push_back({{"name", setting["name"]}, {"value", setting["value"]}});
    }
    return list;
}

Json node_object(const JobNode& node, const Json& base) {
    Json object = {{"node", node.number},
                   {"name", job_node_name(node)},
                   {"tasks", node.tasks > 0 ? Json(node.tasks) : Json(nullptr)},
                   {"tasks_ended", node.tasks_ended()},
                   {"host", nullptr},
                   {"ranks", Json::array()},
                   {"status", nullptr},
                   {"duration_s", nullptr},
                   {"in_flight_share", {{"value", nullptr}, {"label", "unknown"}}},
                   {"other_settings", Json::array()}};
    if (node.reports.empty()) return object;
    std::vector<TaskRow> rows;
    for (const JobTask& task : node.reports) rows.push_back({&node, &task});
    const Json& first = node.reports.front().report;
    object["host"] = first.at("machine").at("hostname");
    for (const Json& rank : all_ranks(rows)) object["ranks"].push_back(rank.at("rank"));
    object["status"] = all_exits(rows).at("status");
    for (const TaskRow& row : rows) {
        const Json& seconds = row.task->report.at("duration_s");
        if (seconds.is_number() &&
            (object["duration_s"].is_null() || seconds > object["duration_s"]))
            object["duration_s"] = seconds;
    }
    object["in_flight_share"] = mean_share(rows, "in_flight_share");
    object["other_settings"] = other_settings(first, base);
    return object;
}

}  // namespace

int JobNode::tasks_ended() const {
    return static_cast<int>(std::count_if(reports.begin(), reports.end(),
                                          [](const JobTask& task) { return task.ended; }));
}

const JobTask* Job::base() const {
    const JobTask* first = nullptr;
    for (const JobNode& node : nodes)
        for (const JobTask& task : node.reports)
            if (first == nullptr || task.number < first->number) first = &task;
    return first;
}

int Job::node_count() const {
    int count = static_cast<int>(nodes.size());
    for (const JobNode& node : nodes) count = std::max({count, node.of_nodes, node.number + 1});
    return count;
}

int Job::ended_count() const {
    return static_cast<int>(std::count_if(nodes.begin(), nodes.end(),
                                          [](const JobNode& node) { return node.ended(); }));
}

std::string job_node_name(const JobNode& node) {
    return node.facts ? node.facts->head.name : fmt::format("node {}", node.number);
}

Json merged_report(const Job& job) {
    const std::vector<TaskRow> rows = rows_of(job);
    const Json& base = rows.front().task->report;
    Json merged = base;
    merged["exit"] = all_exits(rows);
    merged["communication"] = all_communication(rows);
    for (const TaskRow& row : rows) {
        const Json& seconds = row.task->report.at("duration_s");
        if (seconds.is_number() &&
            (!merged["duration_s"].is_number() || seconds > merged["duration_s"]))
            merged["duration_s"] = seconds;
    }
    merged["warnings"] = all_texts(rows, "warnings");
    merged["notes"] = all_texts(rows, "notes");
    const int missing = job.node_count() - job.ended_count();
    if (missing > 0)
        merged["notes"].push_back(fmt::format(
            "{} of {} nodes are not in this report, or not all of their tasks: they had "
            "not ended, or the run directory is not theirs too",
            missing, job.node_count()));
    if (job.unreadable > 0)
        merged["notes"].push_back(fmt::format("{} node files could not be read", job.unreadable));
    merged["findings"] = all_findings(job, rows);
    merged["nccl"] = all_nccl(rows);
    merged["collectives"] = all_collectives(rows);
    merged["ranks"] = all_ranks(rows);
    if (const std::string repeated = repeated_ranks_text(merged["ranks"]); !repeated.empty())
        merged["notes"].push_back(repeated);
    for (const TaskRow& row : rows) unite(merged["nodes"], row.task->report.at("nodes"));
    merged["node_count"] = job.node_count();
    merged["node_reports"] = Json::array();
    for (const JobNode& node : job.nodes) merged["node_reports"].push_back(node_object(node, base));
    return merged;
}

}  // namespace toporun::launcher
