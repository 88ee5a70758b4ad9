#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/failures/catalogue.hpp"
#include "launcher/failures/kernel_line.hpp"
#include "launcher/failures/prefix.hpp"

/// What was seen in the logs of a run, before it is judged.
namespace toporun::launcher::failures {

/// Where a line stands.
struct Place {
    int file = 0;             ///< position in Evidence::files
    std::uint64_t line = 0;   ///< from 1
    std::uint64_t order = 0;  ///< over all files: only within one file does it tell what was first
};

struct Event {
    Role role = Role::noise;
    const Class* of = nullptr;
    std::string line_id;  ///< KnownLine::id
    Origin origin;
    std::vector<int> ranks;  ///< global ranks that the line names
    std::string node;        ///< that the line names
    std::optional<int> gpu;
    std::optional<int> signal;
    std::optional<int> code;
    std::string evidence;  ///< the line, as it stood
    std::string says;      ///< in other words
    std::string advice;
    std::string frame;  ///< "train.py line 24" of a traceback
    Place place;
    int attempt = 0;         ///< restarts before it
    bool general = false;    ///< what stands beside it tells more
    bool by_task = false;    ///< `ranks` are numbers of Slurm tasks
    bool of_kernel = false;  ///< a line of the kernel's log, which goes back for weeks
    std::string bus;         ///< PCI address of a GPU that the line names
    std::optional<LogTime> time;
    bool uncaught = false;  ///< an exception that ended its process, by its form
    bool of_main = false;   ///< an exception that began in the main program
    std::uint64_t went_on =
        0;                    ///< order of the line that shows its stream's training go on; 0: none
    std::string peer;         ///< who closed the connection, as the line tells
    std::uint64_t count = 1;  ///< equal lines of the same stream
    bool after_closing = false;  ///< the launcher had begun to end the ranks of this file
};

/// Whether a program that prints on afterwards has dealt with it: its own account, a lost
/// connection, or what a shell says of one of its children.
inline bool may_be_handled(const Event& event) {
    return event.role == Role::cause || event.role == Role::lag || event.role == Role::ambiguous ||
           event.role == Role::consequence ||
           (event.role == Role::hint && event.line_id.starts_with("shell-"));
}

/// A row of torchrun's table of failures.
struct TableRow {
    std::optional<int> rank;
    std::optional<int> local_rank;
    std::string host;
    std::optional<int> exit_code;  ///< negative: a signal
    std::optional<std::int64_t> pid;
    bool first_observed = false;  ///< torchrun's own "root cause"
    std::optional<int> task;      ///< of Slurm, whose label its lines have
    std::optional<LogTime> time;
    Place place;
    int attempt = 0;
};

/// The ranks that an agent of torchrun started, as it prints them at the rendezvous.
struct AgentRanks {
    int file = 0;
    std::optional<int> task;  ///< of Slurm, whose label its lines have
    int first = 0;            ///< global rank of local rank 0
};

/// What one rank of a process group told of its work.
struct WorkState {
    std::string group;              ///< process group, "" where no line of it says
    std::optional<int> group_rank;  ///< rank in it
    Origin origin;
    int attempt = 0;
    std::optional<std::int64_t> work;  ///< number of the work that did not end
    bool timed_out = false;            ///< so the watchdog says; else an error may have ended it
    std::optional<std::int64_t> enqueued;
    std::optional<std::int64_t> completed;
    std::string op;
    std::string sizes;
    std::optional<std::int64_t> ran_ms;
    std::optional<std::int64_t> limit_ms;
    std::string evidence;
    Place place;
};

/// A line that says that the run, or the program, ended well.
struct Success {
    Place place;
    int attempt = 0;
    bool launcher = false;  ///< the launcher's own words
};

/// NCCL's process: which rank it is and how its log ends.
struct NcclProcess {
    std::optional<int> rank;
    std::optional<int> device;
    std::string bus_id;
    bool ended = false;   ///< it took its communicators down itself
    bool failed = false;  ///< it saw an error: codes, warnings of closed connections
    Place last;
};

/// The process of a rank, as its shim recorded it, and its end, as the kernel told it.
struct RankProcess {
    int rank = 0;
    std::optional<int> local_rank;
    std::string host;
    std::int64_t pid = 0;
    int attempt = 0;
    std::optional<int> signal;    ///< that ended it
    std::optional<int> code;      ///< its exit status
    std::optional<double> end_s;  ///< when, in seconds since the start of the run; empty: not seen
};

/// A fault of a run that goes on, as a line tells it.
struct LineFinding {
    const KnownFinding* known = nullptr;
    std::string what;      ///< with what the line says
    std::string evidence;  ///< the first such line
    std::uint64_t count = 0;
};

struct Evidence {
    std::vector<std::string> files;
    std::vector<std::uint64_t> file_lines;  ///< lines of each
    std::vector<Event> events;
    std::vector<TableRow> table;
    std::map<std::int64_t, Place> closing;  ///< processes that an agent began to end
    std::vector<AgentRanks> agents;
    bool several_agents = false;  ///< torchrun of several nodes, as one of them says
    bool several_tasks = false;   ///< lines with labels of several Slurm tasks
    std::vector<WorkState> work;
    std::map<int, std::pair<std::string, Place>> fingerprints;  ///< collective each rank was in
    std::map<std::pair<std::string, std::int64_t>, NcclProcess> nccl;  ///< by host and process
    std::vector<RankProcess> processes;
    std::optional<int> ranks_started;  ///< of the job; where `processes` are fewer, others are away
    std::vector<LineFinding> findings;
    std::map<std::string, std::string> interfaces;  ///< address by name, as NCCL announced them
    std::map<std::string, std::string> variables;   ///< as NCCL saw them, the first value of each
    std::set<int> local_ranks_seen;
    std::set<int> ranks_seen;
    std::optional<int> world_size;
    std::set<detect::nccl_log::Transport> transports;  ///< of NCCL's connections
    std::vector<Success> successes;
    int attempts = 0;            ///< restarts
    bool slurm_agents = false;   ///< a Slurm task holds several ranks: its number is none
    std::uint64_t left_out = 0;  ///< events beyond the limit
};

}  // namespace toporun::launcher::failures
