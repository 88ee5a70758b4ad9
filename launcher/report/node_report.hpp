#pragma once

#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "launcher/report/node_facts.hpp"

/// The files by which the nodes of a job tell how it went, and the one report made of them. Pure:
/// texts in, texts out.
namespace toporun::launcher {

/// What one toporun of a node has to tell: its report as JSON and as text. `ended`: its command
/// has.
std::string task_report(const RunFacts& facts, const JobPlace& place, bool ended);

/// The node's file, schema toporun.node/1 (docs/report.md): its facts and the reports of its tasks,
/// of which at least one must be there. What a later task says as the first one is left out.
std::string node_file(const NodeFacts& facts, const JobPlace& place,
                      std::span<const std::string> task_reports);

/// The report of the whole job.
struct JobReport {
    std::string json;                ///< toporun.report/1 with nodes
    std::string text;                ///< report.txt
    std::vector<std::string> lines;  ///< what the nodes' differences and ends come to, for stderr
};

/// From what nodes left: files of node_file() and, of nodes that have not ended, node_facts_text(),
/// in any order. Texts of another form are counted and left out. Nothing when no node has ended.
std::optional<JobReport> merge_nodes(std::span<const std::string> texts);
/// The same for more texts than should be held at once: `text_of` is asked for each once.
std::optional<JobReport> merge_nodes(std::size_t count,
                                     const std::function<std::string(std::size_t)>& text_of);

}  // namespace toporun::launcher
