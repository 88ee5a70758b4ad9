#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/plan.hpp"
#include "launcher/report/run_facts.hpp"

/// What the facts of a run mean. The texts hold names from logs and machines as they are: whoever
/// prints them makes them printable.
namespace toporun::launcher {

enum class NcclUse {
    started,
    no_sign,  ///< its log would have been seen, unless somebody dropped the variables on the way
    unknown,  ///< nothing of toporun's was in a place to see it
};
NcclUse nccl_use(const RunFacts& facts);

/// "12 min 03 s", "3.25 s", "2 h 04 min 09 s".
std::string duration_text(double seconds);

/// "ended with 0 after 12 min 03 s", "ended by SIGTERM after 3.25 s".
std::string end_text(const RunFacts& facts);

/// The in-flight share with its label, or why it is unknown. Starts with "warning: " above the
/// limit: "warning: collectives in flight 34 % of the time (measured, limit 30 %): transfer 11 %,
/// ...".
std::string share_text(const RunFacts& facts);
/// A part of the time as share_text() rounds it, so that equal figures look equal: "53 %".
std::string share_percent(const RunFacts& facts, double share);
bool share_above_limit(const RunFacts& facts);

/// What of the command still ran after its end, and what --reap ended: "still running after the
/// command's end: 4711 (python3, GPU 1)". Nothing when there was nothing.
std::vector<std::string> left_lines(const RunFacts& facts);

/// "ended by SIGSEGV after 3.25 s"; "" where it was not seen.
std::string rank_end_text(const RankRecord& record);

/// "first cause: rank 1 (node-a, GPU 1): ... [host-oom-kill, certain]".
std::string failure_text(const failures::Verdict& failure);

/// "rank 5 (node-a, GPU 5)".
std::string rank_text(const RunFacts& facts, int rank);

/// The rank that the others wait for, when waiting is worth a line and it is mostly the same rank.
std::optional<std::string> last_rank_text(const RunFacts& facts);

/// Where NCCL did otherwise than planned, each with its cause as far as the log shows it.
std::vector<env::Finding> differences(const RunFacts& facts);

/// What lines of logs tell of faults, and what a log alone says of a run that toporun did not
/// start: interfaces that reach nobody, torn lines.
std::vector<env::Finding> log_findings(const RunFacts& facts);

/// Commands of nccl-tests that run the collectives of the log over their range of sizes, one a
/// function, to measure what the fabric gives by itself. Sizes as nccl-tests counts them.
std::vector<std::string> replay_commands(const LogSummary& log);

/// What to do next, the most promising first, one to three. Gains are "bounded".
std::vector<std::string> next_steps(const RunFacts& facts);

/// Does NCCL_SOCKET_IFNAME=`value` allow the interface? (`^` inverts, `=` is exact, else prefixes;
/// NCCL src/misc/socket.cc)
bool interface_allowed(const std::string& value, const std::string& name);

}  // namespace toporun::launcher
