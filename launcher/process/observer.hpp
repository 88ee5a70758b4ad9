#pragma once

#include <sys/types.h>

#include <functional>
#include <string>

#include "launcher/command/job_place.hpp"
#include "launcher/report/run_facts.hpp"

/// The observer: a process of its own beside the command. It follows the run's files, warns while
/// it runs, witnesses signals for the supervisor and writes the report. The training does not
/// notice when it dies.
namespace toporun::launcher {

struct ObserverTask {
    RunFacts facts;                 ///< known before the start; the observer adds the rest
    std::string private_directory;  ///< removed at the end; "" = none
    int held = -1;                  ///< hold_directory() of that; the observer holds it too
    std::string run_directory;      ///< absolute; "" = none
    JobPlace place;                 ///< among those that share the run directory
    int run = 1;                    ///< RunDirectory::run
    bool move_latest = false;       ///< `latest` is to point at the run directory
    bool own_directory = true;      ///< a report that is there already is this run's, or replaced
    bool quiet = false;
    std::string nvml_library;  ///< asked which GPUs are used by what is left
    bool reap = false;         ///< ends what of the command is left
    double report_wait_s = 2;  ///< after the command's end: how long somebody waits for the report
    bool silent = false;       ///< keeps no copy of stderr: may outlive toporun
};

struct Observer {
    pid_t pid = -1;
    int link = -1;  ///< supervisor's end
};

/// Forks the observer. It keeps no inherited descriptor but a close-on-exec copy of stderr. Throws
/// Error when it cannot be had; the run then goes on without.
Observer start_observer(const ObserverTask& task);

enum class ReportState {
    written,  ///< the observer finished
    late,     ///< it did not within the time; it has been ended
    lost,     ///< it died before
};

/// Tells the observer how the command ended and waits for the report: `wait_s` seconds at most,
/// whatever state the observer is in, and no longer once `interrupted` says so.
ReportState finish_observer(Observer& observer, int wait_status, double wait_s,
                            const std::function<bool()>& interrupted);

/// Another observer for a run whose first one was lost or late: reads what the run has left and
/// writes the report after `seconds` of run time, without anybody waiting for it.
void report_later(ObserverTask task, int wait_status, double seconds);

/// As finish_observer() for a command that could not be started: nothing is reported.
void dismiss_observer(Observer& observer);

}  // namespace toporun::launcher
