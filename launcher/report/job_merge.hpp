#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/report/json_values.hpp"
#include "launcher/report/node_facts.hpp"

/// Many reports into one, in JSON and text. For node_report.cpp only: node_report.hpp is the door.
namespace toporun::launcher {

/// What one toporun of a job said.
struct JobTask {
    int number = 0;
    bool ended = false;        ///< else the report is from before its command's end
    Json report;               ///< toporun.report/1, whole
    std::string text;          ///< report.txt without the failure; of a node's first task only
    std::string failure_text;  ///< "" = it did not fail, or nothing is known
};

struct JobNode {
    int number = 0;
    int of_nodes = 0;                ///< 0 = unknown
    int tasks = 0;                   ///< toporuns on it; 0 = unknown
    std::optional<NodeFacts> facts;  ///< from before the start
    std::vector<JobTask> reports;    ///< by number
    int tasks_ended() const;
    bool ended() const { return tasks > 0 && tasks_ended() >= tasks; }
};

struct Job {
    std::vector<JobNode> nodes;  ///< by number
    std::vector<env::Finding> differences;
    int unreadable = 0;  ///< files that could not be read

    /// The report that stands for the job where one must: of the first task that has one.
    const JobTask* base() const;
    /// How many nodes there are, as far as anybody knows.
    int node_count() const;
    int ended_count() const;
};

/// The name of a node in lines and JSON.
std::string job_node_name(const JobNode& node);

/// toporun.report/1 of the whole job. Throws Json::exception when a report is not of that schema.
Json merged_report(const Job& job);

/// report.txt of the whole job: the first task's, with the failure that came first and what the
/// nodes have to say.
std::string merged_text(const Job& job, const Json& merged);

/// For stderr, at most two: nodes that ended otherwise than the first, nodes that are missing.
std::vector<std::string> job_lines(const Job& job, const Json& merged);

}  // namespace toporun::launcher
