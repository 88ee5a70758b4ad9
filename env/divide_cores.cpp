#include <algorithm>
#include <functional>
#include <map>
#include <tuple>

#include "env/cores.hpp"

namespace toporun::env {
namespace {

using Cores = std::vector<detect::Core>;

int first_pu(const detect::Core& core) {
    return core.pus.empty() ? -1 : core.pus.indices().front();
}

/// Cores in the order in which neighbours share most.
void sort_by_place(Cores& cores) {
    std::sort(cores.begin(), cores.end(), [](const detect::Core& a, const detect::Core& b) {
        return std::tuple(a.package, a.numa_node.value_or(-1), a.l3.value_or(-1), first_pu(a)) <
               std::tuple(b.package, b.numa_node.value_or(-1), b.l3.value_or(-1), first_pu(b));
    });
}

/// `cores` in runs that share the key; sorted cores give one run per key.
template <class Key>
std::vector<Cores> groups(const Cores& cores, Key&& key) {
    std::vector<Cores> out;
    for (const detect::Core& core : cores) {
        if (out.empty() || key(out.back().back()) != key(core)) out.emplace_back();
        out.back().push_back(core);
    }
    return out;
}

/// Whole groups are worth an uneven share up to a quarter.
bool balanced(const std::vector<Cores>& shares) {
    const auto [least, most] =
        std::minmax_element(shares.begin(), shares.end(),
                            [](const Cores& a, const Cores& b) { return a.size() < b.size(); });
    return least->size() * 4 >= most->size() * 3;
}

std::vector<Cores> merge_groups(const std::vector<Cores>& parts, std::size_t ranks) {
    std::vector<Cores> shares(ranks);
    const std::size_t each = parts.size() / ranks;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        Cores& share = shares[i / each];
        share.insert(share.end(), parts[i].begin(), parts[i].end());
    }
    return shares;
}

/// Neighbouring cores, those with as many PUs at a time: cores of one PU and SMT cores (Intel's
/// hybrid processors, a mask that cuts siblings) differ in what they are worth. The ranks that get
/// one more of the one kind come last for the next.
std::vector<Cores> neighbours(const Cores& cores, std::size_t ranks) {
    std::vector<Cores> shares(ranks);
    std::map<int, Cores, std::greater<>> kinds;
    for (const detect::Core& core : cores) kinds[core.pus.count()].push_back(core);
    std::size_t first = 0;
    for (const auto& [pus, kind] : kinds) {
        const std::size_t more = kind.size() % ranks;
        auto next = kind.begin();
        for (std::size_t rank = 0; rank < ranks; ++rank) {
            const bool one_more = (rank + ranks - first) % ranks < more;
            const auto size = static_cast<std::ptrdiff_t>(kind.size() / ranks + (one_more ? 1 : 0));
            shares[rank].insert(shares[rank].end(), next, next + size);
            next += size;
        }
        first = (first + more) % ranks;
    }
    return shares;
}

enum class Level { numa, cache, core };

std::vector<Cores> divide(const Cores& cores, std::size_t ranks, Level level) {
    if (level == Level::core) return neighbours(cores, ranks);
    const Level next = level == Level::numa ? Level::cache : Level::core;
    const std::vector<Cores> parts =
        level == Level::numa
            ? groups(cores, [](const detect::Core& c) { return std::pair(c.package, c.numa_node); })
            : groups(cores, [](const detect::Core& c) {
                  return std::tuple(c.package, c.numa_node, c.l3);
              });
    if (parts.size() % ranks == 0) {
        std::vector<Cores> shares = merge_groups(parts, ranks);
        if (balanced(shares)) return shares;
    } else if (ranks % parts.size() == 0 && balanced(parts)) {
        std::vector<Cores> shares;
        for (const Cores& part : parts)
            for (Cores& share : divide(part, ranks / parts.size(), next))
                shares.push_back(std::move(share));
        return shares;
    }
    return divide(cores, ranks, next);
}

}  // namespace

std::vector<Cores> divide_cores(Cores cores, int ranks) {
    if (ranks < 1 || cores.size() < static_cast<std::size_t>(ranks)) return {};
    sort_by_place(cores);
    return divide(cores, static_cast<std::size_t>(ranks), Level::numa);
}

}  // namespace toporun::env
