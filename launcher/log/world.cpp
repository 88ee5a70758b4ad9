#include "launcher/log/world.hpp"

#include <algorithm>

namespace toporun::launcher {
namespace {

/// `device` is what a connection line prints in brackets: the bus id up to 2.18.1, else nvmlDev
/// (2.18.1 also prints cudaDev). True when nothing is known against it.
bool device_matches(const detect::nccl_log::Init& init, const std::string& device) {
    if (init.bus_id.empty() && !init.cuda_device && !init.nvml_device) return true;
    const auto is = [&](const std::optional<int>& index) {
        return index && std::to_string(*index) == device;
    };
    return init.bus_id == device || is(init.nvml_device) || is(init.cuda_device);
}

}  // namespace

World::World(const std::vector<LogModel::Member>& members) {
    for (const Member& member : members) {
        size_ = std::max(size_.value_or(0), member.init.ranks);
        memberships_[{member.host, member.pid}].push_back(&member);
        by_group_.emplace(std::pair(member.group, member.init.rank), &member);
    }
    for (const Member& member : members) {
        if (member.init.ranks == size_) add_world_member(member);
    }
}

/// Several communicators may have all ranks. A later one on the same GPU is a restart or a second
/// communicator of the same ranks and gives the process; one on another GPU is another set of ranks
/// (a run without a world communicator), of which the first is shown.
void World::add_world_member(const Member& member) {
    const Member*& slot = world_[member.init.rank];
    const bool same_place =
        slot == nullptr || (slot->host == member.host && slot->init.bus_id == member.init.bus_id);
    if (!same_place) return;
    slot = &member;
    world_ranks_[{member.host, member.pid}].insert(member.init.rank);
}

std::vector<LogRank> World::ranks() const {
    std::vector<LogRank> result;
    for (const auto& [number, member] : world_) {
        LogRank rank;
        rank.rank = number;
        rank.host = member->host;
        rank.pid = member->pid;
        rank.pci = detect::nccl_log::bus_id_text(member->init.bus_id).value_or("");
        rank.gpu_index =
            member->init.nvml_device ? member->init.nvml_device : member->init.cuda_device;
        rank.complete = member->complete;
        result.push_back(std::move(rank));
    }
    return result;
}

std::optional<int> World::rank_of(const std::string& host, std::int64_t pid) const {
    const auto found = world_ranks_.find({host, pid});
    if (found == world_ranks_.end() || found->second.size() != 1) return std::nullopt;
    return *found->second.begin();
}

bool World::is_world_pair(const LogModel::Pair& pair) const {
    const auto end_matches = [&](int rank, const std::string& device) {
        if (size_ && rank >= *size_) return false;
        const auto member = world_.find(rank);
        return member == world_.end() || device_matches(member->second->init, device);
    };
    if (!end_matches(pair.from, pair.from_device) || !end_matches(pair.to, pair.to_device)) {
        return false;
    }
    if (!memberships_.contains({pair.host, pair.pid})) return true;  // its init lines are missing
    const auto own = world_ranks_.find({pair.host, pair.pid});
    return own != world_ranks_.end() &&
           (own->second.contains(pair.from) || own->second.contains(pair.to));
}

const World::Member* World::find(const std::string& group, int rank) const {
    const auto found = by_group_.find({group, rank});
    return found == by_group_.end() ? nullptr : found->second;
}

std::optional<int> World::to_global(const Member& member) const {
    const auto own = world_ranks_.find({member.host, member.pid});
    if (own == world_ranks_.end()) return std::nullopt;
    for (const int rank : own->second) {  // several: one process with several GPUs
        const auto& init = world_.at(rank)->init;
        if (own->second.size() == 1 || init.cuda_device == member.init.cuda_device) return rank;
    }
    return std::nullopt;
}

std::optional<std::pair<int, int>> World::global_pair(const LogModel::Pair& pair) const {
    if (is_world_pair(pair)) return std::pair(pair.from, pair.to);
    const auto own = memberships_.find({pair.host, pair.pid});
    if (own == memberships_.end()) return std::nullopt;
    for (const Member* member : own->second) {
        if (member->init.rank != pair.from && member->init.rank != pair.to) continue;
        const Member* from = find(member->group, pair.from);
        const Member* to = find(member->group, pair.to);
        if (from == nullptr || to == nullptr || !device_matches(from->init, pair.from_device) ||
            !device_matches(to->init, pair.to_device)) {
            continue;
        }
        const std::optional<int> global_from = to_global(*from);
        const std::optional<int> global_to = to_global(*to);
        if (global_from && global_to) return std::pair(*global_from, *global_to);
    }
    return std::nullopt;
}

}  // namespace toporun::launcher
