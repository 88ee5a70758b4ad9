#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/failures/evidence.hpp"

/// The steps of the judgement, each on what the one before has left.
namespace toporun::launcher::failures {

/// Which rank an event, a row or a process belongs to, by everything that was seen.
class Ranks {
  public:
    explicit Ranks(const Evidence& evidence);
    std::optional<int> of(const Event& event) const;
    std::optional<int> of(const Origin& origin, int file) const;
    std::optional<int> of(const TableRow& row) const;
    /// The host of an event, as named by the line, its prefix or the table of its file.
    std::string host_of(const Event& event, const std::optional<int>& rank) const;
    /// Every rank that is known to have taken part.
    const std::set<int>& known() const { return known_; }
    /// Those that printed a line or had a process, without what the number of ranks alone says.
    const std::set<int>& heard() const { return heard_; }
    /// The number of ranks of the job, where something tells it.
    std::optional<int> size() const { return evidence_.world_size; }
    /// The process of NCCL that is the `local_rank`-th of its host.
    const NcclProcess* local(const std::string& host, int local_rank) const;
    std::optional<int> device_of(int rank) const;

  private:
    std::optional<int> by_local_rank(int local_rank, const Origin& origin, int file) const;
    std::optional<int> of_nccl(const Event& event) const;

    const Evidence& evidence_;
    /// Global minus local rank, by file and Slurm task (-1: not told).
    std::map<std::pair<int, int>, int> offset_;
    std::map<std::pair<int, int>, std::string> host_by_task_;  ///< by file and Slurm task
    std::map<std::int64_t, int> by_pid_;
    std::map<std::pair<std::string, std::int64_t>, int> by_host_and_pid_;
    std::multimap<std::string, std::pair<std::string, int>> by_bus_;  ///< host and rank by GPU
    std::map<int, std::string> host_by_rank_;
    std::map<int, std::string> host_by_file_;
    std::set<int> known_;
    std::set<int> heard_;
};

/// What exit statuses say: rows of torchrun's table and launchers' lines without a class of their
/// own become events with one (failures by status: shells and launchers, 128 + signal).
std::vector<Event> with_statuses(const Evidence& evidence, const Catalogue& catalogue,
                                 const Ranks& ranks);

/// The end of the rank's process that ended first, with the class of its status: exact in time,
/// unlike what launchers say. Ends after it are consequences, or the launcher's doing.
std::vector<Event> end_events(const Evidence& evidence, const Catalogue& catalogue,
                              const Ranks& ranks);

/// Gives an event with a signal or an exit code the class and the role that this has by itself.
void judge_status(Event& event, const Evidence& evidence, const Catalogue& catalogue,
                  const Ranks& ranks);

/// An adapter gave up after its retries, or a connection was refused: a peer that died looks the
/// same as a bad link or a firewall.
inline bool gave_up_on_peer(const Event& event) {
    return event.line_id == "ib-retry" || event.line_id == "refused";
}

/// Events that were dealt with become noise: the program went on after them, or ended well.
void clear_handled(std::vector<Event>& events, const Evidence& evidence);

/// Roles by circumstance: endings that came after a failure, quotations, kernel lines about others.
void weigh(std::vector<Event>& events, const Evidence& evidence, const Ranks& ranks);

/// Who did not come: counters of process groups, mismatched collectives, ranks missing from the
/// time-outs, closed connections that name the dead.
std::vector<Event> lag_events(const std::vector<Event>& events, const Evidence& evidence,
                              const Catalogue& catalogue, const Ranks& ranks);

/// The time-outs of PyTorch's process groups, of each start of the ranks that has some: a rank that
/// is behind, works that do not match, a rank that is missing, or communication that stopped.
std::vector<Event> judge_time_outs(const std::vector<Event>& events, const Evidence& evidence,
                                   const Catalogue& catalogue, const Ranks& ranks);

/// "0, 2, 4", of many the first eight.
std::string numbers_text(const std::vector<int>& numbers);

}  // namespace toporun::launcher::failures
