#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "launcher/command/job_place.hpp"

/// Where a run leaves its files: the run directory for the user, and one private directory per node
/// while the job runs.
namespace toporun::launcher {

struct RunDirectory {
    std::string path;    ///< "" = none could be made
    std::string shown;   ///< as shown to the user: relative when below the working directory
    std::string note;    ///< why it is not where the user would expect it; "" = it is
    bool named = false;  ///< by --run-dir: `latest` does not point at it
    int run = 1;         ///< which command of its task this is, where tasks share the directory
};

inline constexpr const char* kPlanFile = "plan.toml";

/// Makes `<working directory>/toporun/<command>-<id>`; falls back to `$XDG_STATE_HOME/toporun/`
/// (else ~/.local/state/toporun). `wanted` (--run-dir, TOPORUN_DIR) replaces the whole path and has
/// no fall-back. The id is `<job>.<step>[.r<restart>]` in SLURM, else UTC time and four random
/// letters. An existing directory of the same job step is no error: the nodes of the step share it;
/// the commands of a batch script get one each, and so does a second command of a task that shares
/// the step with others (`place`): `-2` behind the id. Links below the working directory are not
/// followed and directories of other users not used. Never throws: see `note`.
RunDirectory make_run_directory(const std::string& command, const std::string& wanted,
                                const std::map<std::string, std::string>& environment,
                                const JobPlace& place = {});

/// Points `latest` beside the run directory at it. Something of that name that is no link stays.
void point_latest(const std::string& run_directory);

/// Removes the run directory of a command that never started, if it holds nothing but our plan.
void discard_run_directory(const std::string& run_directory);

/// The same, with the task's place in the run; a directory that the user named stays.
void withdraw_run(const RunDirectory& directory, const JobPlace& place);

/// TOPORUN_DIR when it is set; else `toporun/latest` below the working directory, else that of the
/// state directory; "" = neither.
std::string newest_run(const std::map<std::string, std::string>& environment);

/// The id that make_run_directory() uses, and the directory's name made of printable file-name
/// characters only.
std::string run_name(const std::string& command,
                     const std::map<std::string, std::string>& environment,
                     const std::string& utc_compact, const std::string& letters);

struct PrivateDirectory {
    std::string path;  ///< "" = none could be made
    std::string note;  ///< why, then
};

/// A fresh 0700 directory in the first usable of SLURM_TMPDIR, TMPDIR, /tmp; /dev/shm only with
/// 1 GiB free and 20 times `need_bytes`. Usable: it can be written and has `need_bytes` free.
PrivateDirectory make_private_directory(const std::map<std::string, std::string>& environment,
                                        std::uint64_t need_bytes);

/// Removes a private directory: its files, then itself. Links are removed, never followed.
void remove_private_directory(const std::string& path);

/// Four random lower-case letters.
std::string random_letters();

/// "20260301-120000" and "2026-03-01T12:00:00Z" of a UTC time in seconds since 1970.
std::string utc_compact(std::int64_t seconds);
std::string utc_iso(std::int64_t seconds);

}  // namespace toporun::launcher
