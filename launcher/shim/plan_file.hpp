#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/cpu_set.hpp"
#include "env/job.hpp"
#include "env/plan.hpp"

namespace toporun::launcher {

/// The text of the file that toporun-shim reads (TOPORUN_SHIM_PLAN): CPUs of each local rank when
/// the plan binds, and the variables that are set per rank. `allowed`: the CPUs this node's toporun
/// may use. `records_file`: where each shim appends its line; "" = no records.
///
///     toporun-shim 1
///     launcher openmpi
///     records /tmp/toporun-ab12cd/ranks
///     allowed 0-7
///     local_size 2
///     cpus 0 0-3
///     cpus 1 4-7
///     memory 0 0
///     memory 1 1
///     inherited SLURM_STEP_ID 0
///     unset PET_NPROC_PER_NODE 2
///     expect NCCL_P2P_LEVEL NVL
///     set OMP_NUM_THREADS 3
///     rank RANK {rank}
///     log_directory /tmp/toporun-ab12cd
///     log NCCL_DEBUG INFO
///
/// `memory`: local rank and the NUMA node that its memory comes from as long as there is some.
/// `unset` takes a variable away that has this value.
/// Values are the rest of the line, `\\` and `\n` escaped; `{rank}`, `{local_rank}`,
/// `{world_size}`,
/// `{local_size}` and `{restart}` are filled in by the shim. `rank` lines are set only in one rank
/// of several that knows its place, and where none of them is set to something else. `log` lines
/// are set together or not at all; `take-log` in their place replaces what the worker's environment
/// has of the three.
/// `host NAME`: where the launcher reaches other hosts too, the one that the plan is for; it is
/// then that of the kernel (uname). `node NAME`: Slurm's name of that node; a rank with another one
/// (SLURMD_NODENAME) makes a plan of its own. What is exported for every rank are `set` lines
/// there. `expect NAME VALUE`: what is exported for every rank; set where it did not arrive,
/// recorded where it arrived with another value. `inherited NAME VALUE`: a rank variable that was
/// set before the launcher started, from `environment`.
std::string shim_plan_text(const env::Job& job, const env::Plan& plan,
                           const detect::CpuSet& allowed, const std::string& records_file,
                           const std::map<std::string, std::string>& environment = {});

/// One line that a shim wrote. Numbers that it did not find out are empty.
struct RankRecord {
    std::optional<int> rank;
    std::optional<int> local_rank;
    std::optional<int> local_size;
    std::optional<int> world_size;
    int restart = 0;
    std::string launcher;    ///< whose variables told the rank: torchrun, openmpi, ...; none
    bool confident = false;  ///< that set of variables is complete and agrees with itself
    std::string host;
    int pid = 0;
    detect::CpuSet cpus;  ///< what the program starts with
    /// The mask was smaller than the node's before the shim looked at it: a launcher has bound.
    bool narrowed = false;
    /// bound: by the shim; kept: the mask was as planned already. Else not bound, and why:
    /// not-planned, local-size (another number of ranks than planned), no-overlap, narrowed (the
    /// mask holds a part of the planned CPUs), unknown-rank, unknown-mask, refused.
    std::string bind;
    /// preferred: the node of the plan; user: there was a policy already; refused; not-planned.
    std::string memory;
    /// set; user: the worker's environment had one of the three; unwritable: the directory;
    /// not-planned.
    std::string log;
    std::vector<std::string> set;      ///< names of the variables that the shim set
    std::vector<std::string> missing;  ///< exported by toporun, not handed on; set by the shim
    std::vector<std::string> differs;  ///< exported by toporun, arrived with another value
    std::string error_file;            ///< where torchrun's error handler writes; "" = nowhere

    // What the observer saw of the process's end.
    std::optional<int> wait_status;       ///< of waitpid(2)
    std::optional<double> ended_after_s;  ///< since the command's start
    std::string error;                    ///< what the error file held
};

/// The record in one line; nothing for a line that is torn or not a record.
std::optional<RankRecord> parse_rank_record(std::string_view line);

/// Every whole record of the file, in its order. Lines that are none are left out.
std::vector<RankRecord> parse_rank_records(std::string_view text);

}  // namespace toporun::launcher
