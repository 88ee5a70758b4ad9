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

namespace {

constexpr int kNoTask = -1;

std::string_view without_domain(std::string_view host) {
    return host.substr(0, host.find('.'));
}

}  // namespace

Ranks::Ranks(const Evidence& evidence) : evidence_(evidence) {
    for (const AgentRanks& agent : evidence.agents)  // of several starts the last
        offset_.insert_or_assign(std::pair(agent.file, agent.task.value_or(kNoTask)), agent.first);
    for (const TableRow& row : evidence.table) {
        if (row.rank && row.local_rank)
            offset_.emplace(std::pair(row.place.file, row.task.value_or(kNoTask)),
                            *row.rank - *row.local_rank);
        if (!row.host.empty()) host_by_file_.emplace(row.place.file, row.host);
        if (!row.rank) continue;
        known_.insert(*row.rank);
        if (row.pid) by_pid_.emplace(*row.pid, *row.rank);
        if (!row.host.empty()) host_by_rank_.emplace(*row.rank, row.host);
    }
    for (const Event& event : evidence.events) {
        if (event.origin.rank && event.origin.local_rank)
            offset_.emplace(std::pair(event.place.file, event.origin.task.value_or(kNoTask)),
                            *event.origin.rank - *event.origin.local_rank);
        if (event.by_task && !event.node.empty())
            for (const int task : event.ranks)
                host_by_task_.emplace(std::pair(event.place.file, task), event.node);
    }
    for (const auto& [process, facts] : evidence.nccl) {
        if (!facts.rank) continue;
        known_.insert(*facts.rank);
        host_by_rank_.emplace(*facts.rank, process.first);
        const std::string host(without_domain(process.first));
        by_host_and_pid_.emplace(std::pair(host, process.second), *facts.rank);
        if (const auto bus = detect::nccl_log::bus_id_text(facts.bus_id))
            by_bus_.emplace(bus->substr(0, bus->find('.')), std::pair(host, *facts.rank));
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

std::optional<int> Ranks::by_local_rank(int local_rank, const Origin& origin, int file) const {
    const auto own = offset_.find(std::pair(file, origin.task.value_or(kNoTask)));
    if (own != offset_.end()) return local_rank + own->second;
    std::set<int> offsets;
    for (auto at = offset_.lower_bound(std::pair(file, kNoTask));
         at != offset_.end() && at->first.first == file; ++at)
        offsets.insert(at->second);
    if (offsets.size() == 1 && !origin.task) return local_rank + *offsets.begin();
    // With one file there is one node, unless its lines come from several.
    if (evidence_.files.size() != 1 || !offsets.empty()) return std::nullopt;
    const bool several = evidence_.slurm_agents || evidence_.several_agents ||
                         (origin.task && evidence_.several_tasks);
    return several ? std::nullopt : std::optional(local_rank);
}

/// The rank of NCCL whose GPU the event names, or whose host and process. The kernel's numbers of
/// processes are not those in a container: the GPU counts first.
std::optional<int> Ranks::of_nccl(const Event& event) const {
    const std::string host(without_domain(event.node));
    if (event.bus.empty()) {
        if (host.empty() || !event.origin.pid) return std::nullopt;
        const auto known = by_host_and_pid_.find({host, *event.origin.pid});
        return known == by_host_and_pid_.end() ? std::nullopt : std::optional(known->second);
    }
    std::set<int> found;  // without a host that of several nodes is meant
    for (auto [at, end] = by_bus_.equal_range(event.bus); at != end; ++at)
        if (host.empty() || at->second.first == host) found.insert(at->second.second);
    return found.size() == 1 ? std::optional(*found.begin()) : std::nullopt;
}

std::optional<int> Ranks::of(const TableRow& row) const {
    return row.rank;
}

std::optional<int> Ranks::of(const Event& event) const {
    if (event.ranks.size() == 1) return event.ranks.front();
    if (const std::optional<int> rank = of_nccl(event)) return rank;
    // An agent that is not the one whose table is here.
    if (event.line_id == "agent-failed" && !by_pid_.contains(event.origin.pid.value_or(0)) &&
        evidence_.agents.empty() && !evidence_.table.empty())
        return std::nullopt;
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
    if (origin.local_rank) return by_local_rank(*origin.local_rank, origin, file);
    if (origin.task && !evidence_.slurm_agents) return origin.task;
    return std::nullopt;
}

std::string Ranks::host_of(const Event& event, const std::optional<int>& rank) const {
    if (!event.node.empty()) return event.node;
    if (!event.origin.host.empty()) return event.origin.host;
    if (rank)
        if (const auto known = host_by_rank_.find(*rank); known != host_by_rank_.end())
            return known->second;
    if (event.origin.task)
        if (const auto known = host_by_task_.find(std::pair(event.place.file, *event.origin.task));
            known != host_by_task_.end())
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
