#include "env/ring.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

namespace toporun::env {
namespace {

int at(std::span<const int> rates, int count, int a, int b) {
    return rates[static_cast<std::size_t>(a * count + b)];
}

/// For each one the others at `least` or faster, as a bit mask.
std::array<std::uint32_t, kMostExactGpus> neighbours(std::span<const int> rates, int count,
                                                     int least) {
    std::array<std::uint32_t, kMostExactGpus> found{};
    for (int a = 0; a < count; ++a)
        for (int b = 0; b < count; ++b)
            if (a != b && at(rates, count, a, b) >= least)
                found[static_cast<std::size_t>(a)] |= 1U << b;
    return found;
}

/// Dynamic programming over sets: ends[set] holds where a path can end that starts at 0 and visits
/// 0 and the set. The bits of a set stand for 1, 2, ...
bool search_ring(const std::array<std::uint32_t, kMostExactGpus>& near, int count) {
    const std::uint32_t sets = 1U << (count - 1);
    std::vector<std::uint32_t> ends(sets, 0);
    for (std::uint32_t set = 1; set < sets; ++set) {
        if (std::has_single_bit(set)) {
            ends[set] = (set << 1) & near[0];
            continue;
        }
        for (std::uint32_t rest = set; rest != 0; rest &= rest - 1) {
            const int last = std::countr_zero(rest) + 1;
            if ((ends[set & ~(1U << (last - 1))] & near[static_cast<std::size_t>(last)]) != 0)
                ends[set] |= 1U << last;
        }
    }
    return (ends[sets - 1] & near[0]) != 0;
}

int slowest_of_ring(std::span<const int> rates, int count, const std::vector<int>& ring) {
    int slowest = at(rates, count, ring.back(), ring.front());
    for (std::size_t i = 1; i < ring.size(); ++i)
        slowest = std::min(slowest, at(rates, count, ring[i - 1], ring[i]));
    return slowest;
}

/// No ring is faster than the second-fastest link of any of its members.
int upper_bound_of_ring(std::span<const int> rates, int count) {
    int bound = -1;
    for (int a = 0; a < count; ++a) {
        int first = 0, second = 0;
        for (int b = 0; b < count; ++b) {
            const int rate = a == b ? 0 : at(rates, count, a, b);
            if (rate > first)
                second = first, first = rate;
            else
                second = std::max(second, rate);
        }
        bound = bound < 0 ? second : std::min(bound, second);
    }
    return std::max(bound, 0);
}

}  // namespace

bool has_ring(std::span<const int> rates, int count, int least) {
    if (count < 2) return false;
    if (count == 2) return at(rates, count, 0, 1) >= least;
    const auto near = neighbours(rates, count, least);
    bool dense = true;  // Dirac: half of the others at each is enough
    for (int a = 0; a < count; ++a) {
        const int degree = std::popcount(near[static_cast<std::size_t>(a)]);
        if (degree < 2) return false;
        dense = dense && 2 * degree >= count;
    }
    if (dense) return true;
    std::uint32_t reached = 1;
    for (std::uint32_t fresh = 1; fresh != 0;) {
        std::uint32_t next = 0;
        for (; fresh != 0; fresh &= fresh - 1)
            next |= near[static_cast<std::size_t>(std::countr_zero(fresh))];
        fresh = next & ~reached;
        reached |= next;
    }
    if (std::popcount(reached) != count) return false;
    return search_ring(near, count);
}

int ring_rate(std::span<const int> rates, int count, int floor) {
    if (count < 2) return 0;
    if (count > kMostExactGpus) {
        const int rate = slowest_of_ring(rates, count, nearest_neighbour_ring(rates, count));
        return rate >= floor ? rate : 0;
    }
    if (count == 2) return rates[1] >= floor ? rates[1] : 0;
    const int bound = upper_bound_of_ring(rates, count);
    if (bound < floor) return 0;
    std::vector<int> levels;
    for (const int rate : rates)
        if (rate >= std::max(floor, 1) && rate <= bound) levels.push_back(rate);
    std::sort(levels.begin(), levels.end());
    levels.erase(std::unique(levels.begin(), levels.end()), levels.end());
    if (levels.empty() || !has_ring(rates, count, levels.front())) return 0;
    std::size_t good = 0, bad = levels.size();
    if (has_ring(rates, count, levels.back())) return levels.back();
    for (--bad; bad - good > 1;) {
        const std::size_t middle = (good + bad) / 2;
        (has_ring(rates, count, levels[middle]) ? good : bad) = middle;
    }
    return levels[good];
}

int smallest_cut(std::span<const int> rates, int count) {
    if (count < 2) return 0;
    const auto size = static_cast<std::size_t>(count);
    std::vector<int> weight(rates.begin(), rates.end());
    std::vector<std::size_t> left(size);
    for (std::size_t i = 0; i < size; ++i) left[i] = i;
    int smallest = -1;
    while (left.size() > 1) {
        // The most tightly joined one next; the last one's tie is a cut, and it joins the one
        // before.
        std::vector<int> tie(size, 0);
        std::vector<std::size_t> rest = left;
        std::size_t before = rest.front(), last = rest.front();
        while (!rest.empty()) {
            const auto next = std::max_element(rest.begin(), rest.end(),
                                               [&](auto a, auto b) { return tie[a] < tie[b]; });
            before = last;
            last = *next;
            rest.erase(next);
            for (const std::size_t other : rest) tie[other] += weight[last * size + other];
        }
        smallest = smallest < 0 ? tie[last] : std::min(smallest, tie[last]);
        for (const std::size_t other : left) {
            weight[before * size + other] += weight[last * size + other];
            weight[other * size + before] = weight[before * size + other];
        }
        std::erase(left, last);
    }
    return smallest;
}

std::vector<int> nearest_neighbour_ring(std::span<const int> rates, int count) {
    std::vector<int> ring = {0};
    std::vector<bool> used(static_cast<std::size_t>(count), false);
    used[0] = true;
    while (static_cast<int>(ring.size()) < count) {
        int next = -1;
        for (int b = 0; b < count; ++b) {
            if (used[static_cast<std::size_t>(b)]) continue;
            if (next < 0 || at(rates, count, ring.back(), b) > at(rates, count, ring.back(), next))
                next = b;
        }
        ring.push_back(next);
        used[static_cast<std::size_t>(next)] = true;
    }
    return ring;
}

}  // namespace toporun::env
