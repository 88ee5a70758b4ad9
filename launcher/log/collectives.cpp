#include "launcher/log/collectives.hpp"

#include <algorithm>
#include <bit>

namespace toporun::launcher {
namespace {

using namespace detect::nccl_log;

constexpr std::size_t kCallers = 1 << 15;
constexpr int kOwnOp =
    5;  // from there on operations of the program, NCCL src/include/collectives.h

/// 1 + log2 of the size class, 0 for no size.
std::size_t size_index(std::uint64_t size) {
    return size == 0 ? 0 : static_cast<std::size_t>(std::bit_width(size - 1)) + 1;
}

std::uint64_t class_of(std::size_t index) {
    constexpr std::size_t kLargest = 64;  // its power of two has no 64 bits
    return index == 0 ? 0 : std::uint64_t{1} << (std::min(index, kLargest) - 1);
}

}  // namespace

std::size_t CollectiveCounts::Hash::operator()(const Key& key) const {
    constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;  // Fibonacci hashing, Knuth TAOCP 6.4
    std::uint64_t hash = (key.pointer ^ key.process) * kMix;
    hash ^= hash >> 32;
    return static_cast<std::size_t>((hash + key.process) * kMix);
}

CollectiveCounts::Member* CollectiveCounts::member_of(const Key& key) {
    Recent& recent = recent_[Hash()(key) % recent_.size()];
    if (recent.key == key) return &members_[recent.member];
    const auto found = at_.find(key);
    if (found != at_.end()) {
        recent = {key, found->second};
        return &members_[found->second];
    }
    if (members_.size() >= kCallers) return nullptr;
    at_.emplace(key, members_.size());
    members_.emplace_back();
    members_.back().process = key.process;
    return &members_.back();
}

void CollectiveCounts::name(std::size_t process, std::uint64_t pointer, const std::string& group) {
    const Key key{process, pointer};
    if (const auto found = at_.find(key); found != at_.end()) {
        if (members_[found->second].group == group) return;
        at_.erase(found);
        recent_.fill({});
    }
    if (Member* member = member_of(key)) member->group = group;
}

bool CollectiveCounts::add(std::optional<std::size_t> process, const Collective& call) {
    const std::uint64_t size = size_bytes(call).value_or(0);
    Sum& sum = sums_[static_cast<std::size_t>(call.function)][size_index(size)];
    ++sum.count;
    sum.bytes += size;
    if (size > 0) add_range(call, size);
    Member* member = process ? member_of({*process, call.communicator}) : nullptr;
    if (member == nullptr) return false;
    member->ranks = call.ranks;
    ++member->count[static_cast<std::size_t>(call.function)];
    member->bytes += size;
    return true;
}

void CollectiveCounts::add_range(const Collective& call, std::uint64_t size) {
    constexpr std::size_t kMostRanges = 64;
    constexpr unsigned kByte = 8;
    // Operations beyond the built-in ones have an index of their own each.
    const auto op = static_cast<std::uint64_t>(std::clamp(call.op, 0, kOwnOp));
    std::uint64_t key = static_cast<std::uint64_t>(call.ranks.value_or(0));
    key = key << kByte | static_cast<std::uint8_t>(call.function);
    key = key << kByte | static_cast<std::uint8_t>(call.datatype);
    key = key << kByte | op;
    if (last_range_ >= ranges_.size() || ranges_[last_range_].key != key) {
        const auto found = std::find_if(ranges_.begin(), ranges_.end(),
                                        [&](const Range& range) { return range.key == key; });
        if (found == ranges_.end() && ranges_.size() >= kMostRanges) return;
        last_range_ = static_cast<std::size_t>(found - ranges_.begin());
        if (found == ranges_.end()) {
            ranges_.emplace_back();
            ranges_.back().key = key;
            ranges_.back().least = size_index(size);
            ranges_.back().row.function = call.function;
            ranges_.back().row.datatype = call.datatype;
            ranges_.back().row.op = static_cast<int>(op);
            ranges_.back().row.ranks = call.ranks;
        }
    }
    Range& range = ranges_[last_range_];
    range.least = std::min(range.least, size_index(size));
    range.most = std::max(range.most, size_index(size));
    ++range.row.count;
    range.row.bytes += size;
}

std::vector<LogCallRange> CollectiveCounts::ranges() const {
    std::vector<LogCallRange> result;
    for (const Range& range : ranges_) {
        result.push_back(range.row);
        result.back().least = class_of(range.least);
        result.back().most = class_of(range.most);
    }
    return result;
}

std::vector<LogCollective> CollectiveCounts::rows() const {
    std::vector<LogCollective> result;
    for (std::size_t i = 0; i < sums_.size(); ++i) {
        for (std::size_t j = 0; j < kSizes; ++j) {
            const Sum& sum = sums_[i][j];
            if (sum.count == 0) continue;
            result.push_back({std::string(function_name(static_cast<Function>(i))), class_of(j),
                              sum.count, sum.bytes});
        }
    }
    return result;
}

}  // namespace toporun::launcher
