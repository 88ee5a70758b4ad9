#pragma once

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "launcher/command/job_place.hpp"
#include "launcher/process/run_files.hpp"
#include "launcher/report/node_report.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// What the name of a node's file tells: `node-<number>-<letters>` and its ending; of one task
/// alone also `-<its number on the node>-<how many there are>`.
struct NodeFileName {
    enum class Kind {
        start,  ///< .start: the facts, while the node runs
        part,   ///< .part: some of its tasks have ended
        whole,  ///< .json: all of them
    };
    int node = 0;
    std::string letters;  ///< the same on all nodes of one run
    Kind kind = Kind::start;
    std::optional<int> alone;  ///< the one task whose report it is: it could not meet the others
    int tasks = 0;             ///< of the node, then
};
/// Nothing for other files.
std::optional<NodeFileName> parse_node_file_name(const std::string& name);

/// Four letters that all toporuns of a step find by themselves; `run` counts the commands of one
/// task, from 1.
std::string run_letters(const JobPlace& place, int run);

/// Takes this task's place in run number `run` of the directory, once: false for a command after
/// or beside the one that has it. Others of its node and step find the same run by the same rule.
bool claim_run(const std::string& run_directory, const JobPlace& place, int run);
/// Gives it back for a command that did not start.
void release_run(const std::string& run_directory, const JobPlace& place, int run);

/// Takes a number for a node that a launcher reached by itself: `place.node` where it is not 0,
/// else the first from 1 on that no other node of the run has. Nothing where the directory cannot
/// be written to, or all are taken.
std::optional<int> claim_node(const std::string& run_directory, const JobPlace& place);

/// The report of the run whose nodes have left the newest files in the directory, from all of them:
/// also while it runs, and after nodes that ended late. Nothing where no node file is.
std::optional<JobReport> report_of_nodes(const std::string& run_directory);

/// What became of the reports of a run that has ended.
struct WrittenEnd {
    std::string fault;               ///< what could not be written; "" = nothing
    std::vector<std::string> lines;  ///< what the nodes' ends come to, where this one has read them
};

/// What the nodes of a job step leave in the run directory that they share: one file a node. The
/// toporuns of a node meet in a directory of their own on the node. Nobody waits for anybody: who
/// ends last writes the report of all, and where nobody knows that, `toporun report` does.
class NodeFiles {
  public:
    /// `patience`: how long another task of the node may keep this one from writing. 0 = it will
    /// write for both; more for who writes in place of an observer that was ended.
    NodeFiles(RunFiles& files, JobPlace place, int run, std::chrono::milliseconds patience = {});

    /// The node's facts, of its first task only. Returns "" or what could not be written.
    std::string write_start(const RunFacts& facts);

    /// The node's file with this task's report, and report.json and report.txt where this is the
    /// last of all, the leader or the first. Sets facts.report_path.
    WrittenEnd write_end(RunFacts& facts);

    /// The same before the command has ended, for the case that nothing can be written later.
    std::string write_early(RunFacts& facts);

    /// The names of this run's node files.
    std::vector<std::string> names() const;

  private:
    /// What became of the node's file.
    struct Written {
        std::string text;    ///< what it holds, as far as this task knows
        bool whole = false;  ///< all tasks of the node are in it
        bool wrote = false;  ///< by this task; else by another one that has the turn
        std::string fault;
    };

    bool all_ended() const;
    Written write_node(const RunFacts& facts, bool ended);
    Written write_alone(const NodeFacts& node, const std::string& report, bool ended);
    WrittenEnd write_report(RunFacts& facts, const std::optional<JobReport>& report);
    std::string write_first_report(RunFacts& facts, const std::string& own);
    WrittenEnd write_last_report(RunFacts& facts, const std::string& own);
    std::optional<JobReport> merge_all(const std::string& own) const;

    RunFiles& files_;
    JobPlace place_;
    std::string letters_;
    std::chrono::milliseconds patience_;
};

}  // namespace toporun::launcher
