#include "launcher/log/host_names.hpp"

#include <algorithm>

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostNamedProcesses = 1 << 12;
constexpr std::size_t kMostOfProcess = 8;
constexpr std::size_t kMostOfAll = 1 << 10;
constexpr std::uint64_t kOften = 3;
constexpr std::uint64_t kTimesMore = 4;

/// One is the end of the other.
bool are_related(std::string_view a, std::string_view b) {
    return a.ends_with(b) || b.ends_with(a);
}

}  // namespace

void HostNames::add(Counts& counts, std::string_view name, std::size_t most) {
    const auto found = counts.find(name);
    if (found != counts.end())
        ++found->second;
    else if (counts.size() < most)
        counts.emplace(name, 1);
}

void HostNames::count(std::int64_t pid, std::string_view name) {
    add(of_all_, name, kMostOfAll);
    const auto known = of_process_.find(pid);
    if (known != of_process_.end())
        add(known->second, name, kMostOfProcess);
    else if (of_process_.size() < kMostNamedProcesses)
        of_process_[pid].emplace(name, 1);
}

std::vector<std::string_view> HostNames::right_ones(const Counts& counts) {
    std::vector<std::string_view> names;
    for (const auto& one : counts) {
        if (one.second < kOften) continue;
        const auto is_rival = [&](const auto& other) {
            return other.first != one.first && are_related(other.first, one.first) &&
                   one.second < kTimesMore * other.second;
        };
        if (std::none_of(counts.begin(), counts.end(), is_rival)) names.emplace_back(one.first);
    }
    return names;
}

/// The one of `names` that the printed name is or may be a part of, or more than it.
std::optional<std::string> HostNames::choose(const std::vector<std::string_view>& names,
                                             std::string_view name) {
    std::optional<std::string> chosen;
    for (const std::string_view right : names) {
        if (!are_related(right, name)) continue;
        if (chosen) return std::nullopt;
        chosen = right;
    }
    return chosen;
}

std::optional<std::string> HostNames::right(std::int64_t pid, std::string_view name) const {
    if (const auto known = of_process_.find(pid); known != of_process_.end()) {
        const std::vector<std::string_view> own = right_ones(known->second);
        if (!own.empty()) return choose(own, name);
    }
    return choose(right_ones(of_all_), name);
}

}  // namespace toporun::launcher
