#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "env/job.hpp"
#include "env/plan.hpp"
#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// How the command was changed: "env" (variables only, through PYTHON_EXEC), "inserted" (the shim
/// stands before the program word), "export-only".
struct Rewrite {
    std::string kind = "export-only";
    std::string note;  ///< why no more than that was possible, "" when nothing
};

/// The command's own end.
struct ExitStatus {
    std::optional<int> status;  ///< exit status as a shell shows it; empty = unknown
    std::optional<int> signal;  ///< the signal that ended it
};

/// One line of the rank shim: what a rank was given.
struct RankRecord {
    std::optional<int> rank;
    std::optional<int> local_rank;
    std::string host;
    std::int64_t pid = 0;
    std::string cpus;  ///< affinity after binding, list form; "" = unknown
    int restart = 0;
    std::string note;  ///< what the shim could not do
};

/// Everything a report is drawn from. Plain data: the report functions read no file and no clock.
struct RunFacts {
    std::string tool_version;          ///< toporun's own
    std::vector<std::string> command;  ///< as typed; masked by whoever renders it
    env::Job job;
    Rewrite rewrite;
    detect::Machine machine;
    env::Plan plan;
    std::string run_directory;  ///< as to be shown to the user; "" = there is none
    std::string report_path;    ///< report.txt as to be shown; "" = none was written
    std::string start_utc;      ///< "2026-03-01T12:00:00Z"
    std::optional<double> duration_s;
    ExitStatus exit;
    LogSummary log;
    std::vector<RankRecord> ranks;
    std::vector<std::string> warnings;  ///< of the run itself: "observer ended by signal 9"
    std::vector<std::string> notes;     ///< what is missing and why
    double comm_limit = 0.30;           ///< in-flight share above which the report warns, 0 to 1
};

}  // namespace toporun::launcher
