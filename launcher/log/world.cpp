#include "launcher/log/world.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "detect/nccl_log/cursor.hpp"

namespace toporun::launcher {
namespace {

/// `device` is what a connection line prints in brackets: the bus id up to 2.18.1, else nvmlDev
/// (2.18.1 also prints cudaDev). True when nothing is known against it.
bool device_matches(const LogMember& member, std::uint64_t device) {
    if (!member.bus_id && !member.cuda_device && !member.nvml_device) return true;
    const auto is = [&](const std::optional<int>& index) {
        return index && detect::nccl_log::whole_hex(std::to_string(*index)) == device;
    };
    return member.bus_id == device || is(member.nvml_device) || is(member.cuda_device);
}

}  // namespace

World::World(const std::vector<LogMember>& members, const Processes& processes)
    : processes_(processes) {
    std::set<std::pair<std::size_t, int>> places;
    for (const Member& member : members) {
        places.emplace(member.process, member.cuda_device.value_or(-1));
        size_ = std::max(size_.value_or(0), member.ranks);
        memberships_[member.process].push_back(&member);
        by_group_.emplace(std::pair(member.group, member.rank), &member);
    }
    const auto is_part = [](const Member& member) { return member.split && !member.parent; };
    if (size_ && static_cast<int>(places.size()) > *size_ &&
        std::all_of(members.begin(), members.end(), is_part)) {
        size_.reset();
        least_ = static_cast<int>(places.size());
        return;
    }
    for (const Member& member : members) {
        if (member.ranks == size_) add_world_member(member);
    }
}

/// Several communicators may have all ranks. A later one on the same GPU is a restart or a second
/// communicator of the same ranks and gives the process; one on another GPU is another set of ranks
/// (a run without a world communicator), of which the first is shown.
void World::add_world_member(const Member& member) {
    const Member*& slot = world_[member.rank];
    const bool same_place =
        slot == nullptr || (processes_.host(slot->process) == processes_.host(member.process) &&
                            slot->bus_id == member.bus_id);
    if (!same_place) return;
    slot = &member;
    world_ranks_[member.process].insert(member.rank);
}

std::vector<LogRank> World::ranks() const {
    std::vector<LogRank> result;
    for (const auto& [number, member] : world_) {
        LogRank rank;
        rank.rank = number;
        rank.host = processes_.host(member->process);
        rank.pid = processes_.pid(member->process);
        if (member->bus_id)
            rank.pci =
                detect::nccl_log::bus_id_text(fmt::format("{:x}", *member->bus_id)).value_or("");
        rank.gpu_index = member->nvml_device ? member->nvml_device : member->cuda_device;
        rank.complete = member->complete;
        result.push_back(std::move(rank));
    }
    return result;
}

std::optional<int> World::rank_of(std::size_t process) const {
    const auto found = world_ranks_.find(process);
    if (found == world_ranks_.end() || found->second.size() != 1) return std::nullopt;
    return *found->second.begin();
}

bool World::is_world_pair(const LogPair& pair) const {
    const auto end_matches = [&](int rank, std::uint64_t device) {
        if (size_ && rank >= *size_) return false;
        const auto member = world_.find(rank);
        return member == world_.end() || device_matches(*member->second, device);
    };
    if (!end_matches(pair.from, pair.from_device) || !end_matches(pair.to, pair.to_device)) {
        return false;
    }
    if (!memberships_.contains(pair.process)) return true;  // its init lines are missing
    const auto own = world_ranks_.find(pair.process);
    return own != world_ranks_.end() &&
           (own->second.contains(pair.from) || own->second.contains(pair.to));
}

const World::Member* World::find(std::size_t group, int rank) const {
    const auto found = by_group_.find({group, rank});
    return found == by_group_.end() ? nullptr : found->second;
}

std::optional<int> World::to_global(const Member& member) const {
    const auto own = world_ranks_.find(member.process);
    if (own == world_ranks_.end()) return std::nullopt;
    for (const int rank : own->second) {  // several: one process with several GPUs
        const std::optional<int> device = world_.at(rank)->cuda_device;
        if (own->second.size() == 1 || device == member.cuda_device) return rank;
    }
    return std::nullopt;
}

std::optional<std::pair<int, int>> World::global_pair(const LogPair& pair) const {
    if (is_world_pair(pair)) return std::pair(pair.from, pair.to);
    const auto own = memberships_.find(pair.process);
    if (own == memberships_.end()) return std::nullopt;
    for (const Member* member : own->second) {
        if (member->rank != pair.from && member->rank != pair.to) continue;
        const Member* from = find(member->group, pair.from);
        const Member* to = find(member->group, pair.to);
        if (from == nullptr || to == nullptr || !device_matches(*from, pair.from_device) ||
            !device_matches(*to, pair.to_device)) {
            continue;
        }
        const std::optional<int> global_from = to_global(*from);
        const std::optional<int> global_to = to_global(*to);
        if (global_from && global_to) return std::pair(*global_from, *global_to);
    }
    return std::nullopt;
}

}  // namespace toporun::launcher
