#include "launcher/log/host_names.hpp"

#include <algorithm>
#include <utility>

namespace toporun::launcher {
namespace {

constexpr std::size_t kMostNamedProcesses = 1 << 12;
constexpr std::size_t kMostOfProcess = 8;
constexpr std::size_t kMostOfAll = 1 << 10;
constexpr std::uint64_t kOften = 3;
constexpr std::uint64_t kTimesMore = 4;

/// Backwards: what ends with a name stands beside it then.
std::string backwards(std::string_view name) {
    return {name.rbegin(), name.rend()};
}

}  // namespace

void HostNames::add(Counts& counts, std::string_view name, std::size_t most) {
    std::string key = backwards(name);
    const auto found = counts.find(key);
    if (found != counts.end())
        ++found->second;
    else if (counts.size() < most)
        counts.emplace(std::move(key), 1);
}

void HostNames::count(std::int64_t pid, std::string_view name) {
    add(of_all_, name, kMostOfAll);
    const auto known = of_process_.find(pid);
    if (known != of_process_.end())
        add(known->second, name, kMostOfProcess);
    else if (of_process_.size() < kMostNamedProcesses)
        add(of_process_[pid], name, kMostOfProcess);
}

/// Calls `each` with the entries of which one is the end of the other, itself too; ends where it
/// returns false.
template <class Each>
void HostNames::for_related(const Counts& counts, const std::string& key, const Each& each) {
    for (std::size_t size = 1; size < key.size(); ++size) {
        const auto shorter = counts.find(std::string_view(key).substr(0, size));
        if (shorter != counts.end() && !each(*shorter)) return;
    }
    for (auto at = counts.lower_bound(key); at != counts.end() && at->first.starts_with(key); ++at)
        if (!each(*at)) return;
}

bool HostNames::is_right(const Counts& counts, const Counts::value_type& one) {
    if (one.second < kOften) return false;
    bool rival = false;
    for_related(counts, one.first, [&](const Counts::value_type& other) {
        rival = other.first != one.first && one.second < kTimesMore * other.second;
        return !rival;
    });
    return !rival;
}

/// The one right name that the printed one is or may be a part of, or more than it.
std::optional<std::string> HostNames::choose(const Counts& counts, std::string_view name) {
    std::optional<std::string> chosen;
    bool several = false;
    for_related(counts, backwards(name), [&](const Counts::value_type& one) {
        if (!is_right(counts, one)) return true;
        several = chosen.has_value();
        chosen = backwards(one.first);
        return !several;
    });
    return several ? std::nullopt : chosen;
}

std::optional<std::string> HostNames::right(std::int64_t pid, std::string_view name) const {
    const auto known = of_process_.find(pid);
    if (known == of_process_.end()) return choose(of_all_, name);
    const Counts& own = known->second;
    const bool any = std::any_of(own.begin(), own.end(),
                                 [&](const Counts::value_type& one) { return is_right(own, one); });
    if (!any) return choose(of_all_, name);
    auto chosen = choose(own, name);
    // Many containers have a process of the same number: not all their names stand here.
    return chosen || own.size() < kMostOfProcess ? chosen : choose(of_all_, name);
}

}  // namespace toporun::launcher
