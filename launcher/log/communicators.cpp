#include "launcher/log/communicators.hpp"

#include <algorithm>

namespace toporun::launcher {
namespace {

using detect::nccl_log::Function;

/// A call of all ranks, not of two.
std::uint64_t collective_lines(const CollectiveCounts::Member& member) {
    std::uint64_t lines = 0;
    for (std::size_t i = 0; i < member.count.size(); ++i) {
        const Function function = static_cast<Function>(i);
        if (function != Function::send && function != Function::recv) lines += member.count[i];
    }
    return lines;
}

}  // namespace

CommunicatorTable::CommunicatorTable(const std::vector<LogMember>& members,
                                     const std::vector<std::string>& groups,
                                     const CollectiveCounts& calls) {
    for (const LogMember& member : members) {
        LogCommunicator& row = row_of(groups[member.group]).row;
        row.ranks = member.ranks;
        ++row.members;
        if (member.parent) row.parent = groups[*member.parent];
    }
    for (const CollectiveCounts::Member& member : calls.members()) {
        Row& row = row_of(member.group);
        row.callers.push_back(&member);
        if (!row.row.ranks) row.row.ranks = member.ranks;
    }
}

CommunicatorTable::Row& CommunicatorTable::row_of(const std::string& id) {
    const auto [found, added] = at_.try_emplace(id, rows_.size());
    if (added) {
        rows_.emplace_back();
        rows_.back().row.id = id;
    }
    return rows_[found->second];
}

std::vector<LogCommunicator> CommunicatorTable::rows() const {
    std::vector<LogCommunicator> result;
    for (const Row& known : rows_) {
        LogCommunicator row = known.row;
        std::optional<std::uint64_t> calls;
        bool equal = true;
        for (const CollectiveCounts::Member* member : known.callers) {
            for (const std::uint64_t count : member->count) row.count += count;
            row.bytes += member->bytes;
            const std::uint64_t lines = collective_lines(*member);
            equal = equal && calls.value_or(lines) == lines;
            calls = lines;
        }
        const bool whole = row.ranks && static_cast<int>(known.callers.size()) == *row.ranks;
        if (equal && whole) row.calls = calls;
        result.push_back(std::move(row));
    }
    return result;
}

}  // namespace toporun::launcher
