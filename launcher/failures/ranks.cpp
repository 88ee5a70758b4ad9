#include <algorithm>

#include "base/text.hpp"
#include "launcher/failures/judge.hpp"

namespace toporun::launcher::failures {

std::string numbers_text(const std::vector<int>& numbers) {
    constexpr std::size_t kShown = 8;
    std::vector<std::string> words;
    for (std::size_t i = 0; i < std::min(numbers.size(), kShown); ++i)
        words.push_back(std::to_string(numbers[i]));
    std::string text = join(words, ", ");
    if (numbers.size() > kShown)
        text += " and " + std::to_string(numbers.size() - kShown) + " more";
    return text;
}

Ranks::Ranks(const Evidence& evidence) : evidence_(evidence) {
    for (const TableRow& row : evidence.table) {
        if (row.rank && row.local_rank)
            offset_.emplace(row.place.file, *row.rank - *row.local_rank);
        if (!row.host.empty()) host_by_file_.emplace(row.place.file, row.host);
        if (!row.rank) continue;
        known_.insert(*row.rank);
        if (row.pid) by_pid_.emplace(*row.pid, *row.rank);
        if (!row.host.empty()) host_by_rank_.emplace(*row.rank, row.host);
    }
    for (const Event& event : evidence.events)
        if (event.origin.rank && event.origin.local_rank)
            offset_.emplace(event.place.file, *event.origin.rank - *event.origin.local_rank);
    for (const auto& [process, facts] : evidence.nccl) {
        if (!facts.rank) continue;
        known_.insert(*facts.rank);
        host_by_rank_.emplace(*facts.rank, process.first);
        by_pid_.emplace(process.second, *facts.rank);
    }
    for (const RankProcess& process : evidence.processes) {
        known_.insert(process.rank);
        by_pid_.emplace(process.pid, process.rank);
        if (!process.host.empty()) host_by_rank_.emplace(process.rank, process.host);
    }
    known_.insert(evidence.ranks_seen.begin(), evidence.ranks_seen.end());
    for (const int local : evidence.local_ranks_seen)
        if (offset_.size() <= 1)
            known_.insert(local + (offset_.empty() ? 0 : offset_.begin()->second));
    // The ranks of one agent are counted through: those in its table and those it had to end.
    if (offset_.size() == 1 && !evidence.table.empty()) {
        const int first = offset_.begin()->second;
        const std::size_t size = evidence.table.size() + evidence.closing.size();
        for (std::size_t local = 0; local < std::min<std::size_t>(size, 1024); ++local)
            known_.insert(first + static_cast<int>(local));
    }
    heard_ = known_;
    if (evidence.world_size && *evidence.world_size <= 65536)
        for (int rank = 0; rank < *evidence.world_size; ++rank) known_.insert(rank);
}

std::optional<int> Ranks::by_local_rank(int local_rank, int file) const {
    if (const auto known = offset_.find(file); known != offset_.end())
        return local_rank + known->second;
    // No table: with one file there is one node, unless its lines come from several.
    if (evidence_.files.size() == 1 && !evidence_.slurm_agents) return local_rank;
    return std::nullopt;
}

std::optional<int> Ranks::of(const TableRow& row) const {
    return row.rank;
}

std::optional<int> Ranks::of(const Event& event) const {
    if (event.ranks.size() == 1) return event.ranks.front();
    return of(event.origin, event.place.file);
}

std::optional<int> Ranks::of(const Origin& origin, int file) const {
    if (origin.rank) return origin.rank;
    if (origin.pid) {
        const auto process = evidence_.nccl.find({origin.host, *origin.pid});
        if (process != evidence_.nccl.end() && process->second.rank) return process->second.rank;
        if (const auto known = by_pid_.find(*origin.pid); known != by_pid_.end())
            return known->second;
    }
    if (origin.local_rank) return by_local_rank(*origin.local_rank, file);
    if (origin.task && !evidence_.slurm_agents) return origin.task;
    return std::nullopt;
}

std::string Ranks::host_of(const Event& event, const std::optional<int>& rank) const {
    if (!event.node.empty()) return event.node;
    if (!event.origin.host.empty()) return event.origin.host;
    if (rank)
        if (const auto known = host_by_rank_.find(*rank); known != host_by_rank_.end())
            return known->second;
    const auto known = host_by_file_.find(event.place.file);
    return known == host_by_file_.end() ? std::string() : known->second;
}

const NcclProcess* Ranks::local(const std::string& host, int local_rank) const {
    std::map<int, const NcclProcess*> of_host;
    for (const auto& [process, facts] : evidence_.nccl)
        if (process.first == host && facts.rank) of_host.emplace(*facts.rank, &facts);
    if (local_rank < 0 || static_cast<std::size_t>(local_rank) >= of_host.size()) return nullptr;
    return std::next(of_host.begin(), local_rank)->second;
}

std::optional<int> Ranks::device_of(int rank) const {
    for (const auto& entry : evidence_.nccl)
        if (entry.second.rank == rank) return entry.second.device;
    for (const TableRow& row : evidence_.table)
        if (row.rank == rank) return row.local_rank;
    for (const RankProcess& process : evidence_.processes)
        if (process.rank == rank) return process.local_rank;
    return std::nullopt;
}

}  // namespace toporun::launcher::failures
