#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "env/job.hpp"
#include "env/plan.hpp"
#include "launcher/failures/evidence.hpp"
#include "launcher/failures/verdict.hpp"
#include "launcher/log/model.hpp"
#include "launcher/profiler/in_flight.hpp"
#include "launcher/shim/plan_file.hpp"

namespace toporun::launcher {

/// The command's own end.
struct ExitStatus {
    std::optional<int> status;  ///< exit status as a shell shows it; empty = unknown
    std::optional<int> signal;  ///< the signal that ended it
};

/// A process of the command that still ran when the command had ended.
struct LeftProcess {
    int pid = 0;
    std::string name;  ///< /proc/PID/comm, untrusted
    /// GPUs that it computes on, by NVML's index; nothing when that is unknown.
    std::optional<std::vector<int>> gpus;
    std::optional<int> ended_by;  ///< the signal by which --reap ended it
};

/// Everything a report is drawn from. Plain data: the report functions read no file and no clock.
struct RunFacts {
    std::string tool_version;          ///< toporun's own
    std::vector<std::string> logs;     ///< files of a run that toporun did not start; then only
                                       ///< `log` is known
    std::vector<std::string> command;  ///< as typed; masked by whoever renders it
    env::Job job;
    std::string rewrite = "export-only";  ///< "env", "inserted", "export-only"
    std::string rewrite_note;             ///< why no shim runs, "" when one does
    detect::Machine machine;
    env::Plan plan;
    std::string run_directory;  ///< as to be shown to the user; "" = there is none
    std::string report_path;    ///< report.txt as to be shown; "" = none was written
    std::string start_utc;      ///< "2026-03-01T12:00:00Z"
    std::optional<double> duration_s;
    ExitStatus exit;
    std::vector<failures::LineFinding> line_findings;  ///< faults that lines of logs tell
    std::map<std::string, std::string> interfaces;     ///< address by name, as NCCL announced them
    std::optional<failures::Verdict> failure;          ///< the first cause, where the run failed
    LogSummary log;                                    ///< what NCCL wrote
    profiler::Measured measured;                       ///< what the profiler plugin recorded
    std::vector<RankRecord> ranks;                     ///< what the rank shims wrote
    std::vector<LeftProcess> left;                     ///< what of the command ran on after its end
    std::vector<std::string> warnings;  ///< of the run itself: "observer ended by signal 9"
    std::vector<std::string> notes;     ///< what is missing and why
    bool warned_of_share = false;       ///< said while the run went on: not a warning again
    double comm_limit = 0.30;           ///< in-flight share above which the report warns, 0 to 1
};

}  // namespace toporun::launcher
