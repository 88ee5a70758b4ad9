#include "env/rank_order.hpp"

#include <algorithm>
#include <bit>
#include <cstdint>
#include <tuple>

#include "env/ring.hpp"

namespace toporun::env {
namespace {

/// Sum first, pairs second, in one number: sums of 16 rates stay below 2^20 * 16.
constexpr std::int64_t kSum = std::int64_t{1} << 32;
constexpr std::int64_t kNone = -1;

/// The best ring over all from position 0 with every rate at least `least`: dynamic programming
/// over the set that is visited (bits for 1, 2, ...) and the last of it, from the full set down.
class OrderSearch {
  public:
    OrderSearch(std::span<const int> rates, int count, int least)
        : rates_(rates), count_(count), least_(least), sets_(1U << (count - 1)) {
        best_.assign(static_cast<std::size_t>(sets_) * static_cast<std::size_t>(count_), kNone);
        for (std::uint32_t set = sets_ - 1; set > 0; --set)
            for (int last = 1; last < count_; ++last)
                if ((set >> (last - 1) & 1U) != 0) best_[place(set, last)] = rest_after(set, last);
    }

    /// The lowest positions first wherever the choice is free.
    std::vector<int> order() const {
        std::vector<int> ring = {0};
        for (std::uint32_t set = 0; set != sets_ - 1;) {
            const int last = ring.back();
            std::int64_t best = kNone;
            int next = -1;
            for (int to = 1; to < count_; ++to) {
                const std::int64_t value = step(set, last, to);
                if (value > best) best = value, next = to;
            }
            ring.push_back(next);
            set |= 1U << (next - 1);
        }
        return ring;
    }

  private:
    std::size_t place(std::uint32_t set, int last) const {
        return static_cast<std::size_t>(set) * static_cast<std::size_t>(count_) +
               static_cast<std::size_t>(last);
    }
    int rate(int a, int b) const { return rates_[static_cast<std::size_t>(a * count_ + b)]; }

    /// Going on from `last` to `to`, and the best from there; kNone when that is no way.
    std::int64_t step(std::uint32_t set, int last, int to) const {
        if ((set >> (to - 1) & 1U) != 0 || rate(last, to) < least_) return kNone;
        const std::int64_t rest = best_[place(set | 1U << (to - 1), to)];
        if (rest == kNone) return kNone;
        const bool pair = std::popcount(set) % 2 == 0;  // ranks 2i and 2i + 1
        return rest + rate(last, to) * (kSum + (pair ? 1 : 0));
    }

    std::int64_t rest_after(std::uint32_t set, int last) const {
        if (set == sets_ - 1) return rate(last, 0) < least_ ? kNone : rate(last, 0) * kSum;
        std::int64_t best = kNone;
        for (int to = 1; to < count_; ++to) best = std::max(best, step(set, last, to));
        return best;
    }

    std::span<const int> rates_;
    int count_;
    int least_;
    std::uint32_t sets_;
    std::vector<std::int64_t> best_;
};

bool better(const RankOrder& a, const RankOrder& b) {
    return std::tie(a.ring, a.sum, a.pairs) > std::tie(b.ring, b.sum, b.pairs);
}

}  // namespace

RankOrder order_as_given(const PairRates& rates, std::span<const int> gpus) {
    RankOrder order;
    order.gpus.assign(gpus.begin(), gpus.end());
    const std::size_t count = gpus.size();
    if (count < 2) return order;
    const std::vector<int> matrix = rates.among(gpus);
    const std::size_t steps = count == 2 ? 1 : count;
    for (std::size_t i = 0; i < steps; ++i) {
        const int rate = matrix[i * count + (i + 1) % count];
        order.ring = i == 0 ? rate : std::min(order.ring, rate);
        order.sum += rate;
        if (i % 2 == 0 && i + 1 < count) order.pairs += rate;
    }
    return order;
}

RankOrder best_order(const PairRates& rates, std::span<const int> gpus) {
    RankOrder given = order_as_given(rates, gpus);
    const int count = static_cast<int>(gpus.size());
    if (count < 3) return given;
    const std::vector<int> matrix = rates.among(gpus);
    const int fastest = *std::max_element(matrix.begin(), matrix.end());
    if (given.ring == fastest) return given;  // nothing can be faster
    std::vector<int> positions;
    if (count > kMostExactGpus) {
        positions = nearest_neighbour_ring(matrix, count);
    } else {
        const int ring = ring_rate(matrix, count);
        if (ring == 0) return given;
        positions = OrderSearch(matrix, count, ring).order();
    }
    std::vector<int> ordered;
    for (const int position : positions)
        ordered.push_back(gpus[static_cast<std::size_t>(position)]);
    RankOrder best = order_as_given(rates, ordered);
    return better(best, given) ? best : given;
}

}  // namespace toporun::env
