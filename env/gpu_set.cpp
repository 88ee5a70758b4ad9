#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>

#include "env/gpu_choice.hpp"
#include "env/ring.hpp"

namespace toporun::env {
namespace {

int nearest_adapter(const detect::Machine& machine, std::size_t gpu) {
    if (gpu >= machine.gpu_nic_paths.size()) return -1;
    const auto& paths = machine.gpu_nic_paths[gpu];
    int nearest = -1;
    for (std::size_t i = 0; i < paths.size() && i < machine.nics.size(); ++i) {
        if (!paths[i] || !detect::rdma_usable(machine.nics[i])) continue;
        if (nearest < 0 || *paths[i] < *paths[static_cast<std::size_t>(nearest)])
            nearest = static_cast<int>(i);
    }
    return nearest;
}

/// How many different values the GPUs have, unknown ones left out.
int different(const std::vector<int>& of, std::span<const int> gpus) {
    int count = 0;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        const int value = of[static_cast<std::size_t>(gpus[i])];
        const bool seen =
            std::any_of(gpus.begin(), gpus.begin() + static_cast<std::ptrdiff_t>(i),
                        [&](int gpu) { return of[static_cast<std::size_t>(gpu)] == value; });
        if (value >= 0 && !seen) ++count;
    }
    return count;
}

/// Everything but the pace, which takes longest.
GpuSet judge_cheaply(const PairRates& rates, const GpuPlaces& places, std::span<const int> gpus) {
    GpuSet set;
    set.gpus.assign(gpus.begin(), gpus.end());
    for (std::size_t i = 0; i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j) set.sum += rates.direct(gpus[i], gpus[j]);
    set.adapters = different(places.adapter, gpus);
    set.numa_nodes = different(places.numa_node, gpus);
    return set;
}

/// 0 when it is below `floor`.
int pace_of(const PairRates& rates, std::span<const int> gpus, int floor) {
    const int count = static_cast<int>(gpus.size());
    const int cut = rates.has_links() ? smallest_cut(rates.links_among(gpus), count) : 0;
    const int ring = ring_rate(rates.among(gpus), count, std::max(floor, cut + 1));
    return ring > 0 ? ring : cut >= floor ? cut : 0;
}

/// Takes sets one after the other and keeps the best, the first among equals.
class BestSet {
  public:
    BestSet(const PairRates& rates, const GpuPlaces& places, bool several_nodes)
        : rates_(rates), places_(places), several_nodes_(several_nodes) {}

    void consider(std::span<const int> gpus) {
        GpuSet set = judge_cheaply(rates_, places_, gpus);
        set.pace = pace_of(rates_, gpus, floor_for(set));
        if (set.pace > 0) best_ = std::move(set);
    }

    /// The least pace with which a set of this worth wins: with an equal pace by the rest, which
    /// is known already.
    int floor_for(GpuSet& set) const {
        if (!best_) return 1;
        set.pace = best_->pace;
        return is_better_set(set, *best_, several_nodes_) ? set.pace : set.pace + 1;
    }

    const std::optional<GpuSet>& best() const { return best_; }

  private:
    const PairRates& rates_;
    const GpuPlaces& places_;
    bool several_nodes_;
    std::optional<GpuSet> best_;
};

/// All sets of `count` candidates, kMostExactGpus at most, in lexicographic order. Most are passed
/// over by a bound alone: no ring is faster than the second-fastest way of any of its members, no
/// cut larger than the links of any of them.
class ExactSearch {
  public:
    ExactSearch(const PairRates& rates, const GpuPlaces& places, std::span<const int> candidates,
                int count, bool several_nodes)
        : rates_(rates),
          candidates_(candidates),
          count_(count),
          several_nodes_(several_nodes),
          fastest_(rates.among(candidates)),
          links_(rates.links_among(candidates)),
          best_(rates, places, several_nodes) {}

    std::optional<GpuSet> search() {
        extend(0, 0, 0);
        return best_.best();
    }

  private:
    using Mask = std::uint32_t;  ///< of positions in the candidates

    void extend(int from, Mask chosen, long long sum) {
        const int left = count_ - std::popcount(chosen);
        if (left == 0) return visit(chosen, sum);
        for (int next = from; next + left <= static_cast<int>(candidates_.size()); ++next) {
            long long more = sum;
            for (Mask rest = chosen; rest != 0; rest &= rest - 1)
                more += rates_.direct(gpu_at(std::countr_zero(rest)), gpu_at(next));
            extend(next + 1, chosen | Mask{1} << next, more);
        }
    }

    void visit(Mask chosen, long long sum) {
        if (best_.best()) {
            const int pace = best_.best()->pace;
            if (pace != bound_for_) bound(pace);
            const bool may_tie = several_nodes_ || sum >= best_.best()->sum;
            if (!may_reach(chosen, may_tie ? at_pace_ : above_pace_, may_tie ? pace : pace + 1))
                return;
        }
        gpus_.clear();
        for (Mask rest = chosen; rest != 0; rest &= rest - 1)
            gpus_.push_back(gpu_at(std::countr_zero(rest)));
        best_.consider(gpus_);
    }

    /// Whether the bounds allow the set a pace of `least`; `near` holds who reaches whom with it.
    bool may_reach(Mask chosen, const std::array<Mask, kMostExactGpus>& near, int least) const {
        const int partners = count_ == 2 ? 1 : 2;
        bool ring = true, cut = !links_.empty();
        for (Mask rest = chosen; rest != 0 && (ring || cut); rest &= rest - 1) {
            const int gpu = std::countr_zero(rest);
            ring = ring && std::popcount(near[static_cast<std::size_t>(gpu)] & chosen) >= partners;
            cut = cut && links_within(gpu, chosen) >= least;
        }
        return ring || cut;
    }

    int links_within(int gpu, Mask chosen) const {
        int sum = 0;
        for (Mask rest = chosen; rest != 0; rest &= rest - 1)
            sum += links_[place(gpu, std::countr_zero(rest))];
        return sum;
    }

    void bound(int pace) {
        bound_for_ = pace;
        for (std::size_t a = 0; a < candidates_.size(); ++a) {
            at_pace_[a] = above_pace_[a] = 0;
            for (std::size_t b = 0; b < candidates_.size(); ++b) {
                const int rate = fastest_[place(static_cast<int>(a), static_cast<int>(b))];
                if (a != b && rate >= pace) at_pace_[a] |= Mask{1} << b;
                if (a != b && rate > pace) above_pace_[a] |= Mask{1} << b;
            }
        }
    }

    int gpu_at(int position) const { return candidates_[static_cast<std::size_t>(position)]; }
    std::size_t place(int a, int b) const {
        return static_cast<std::size_t>(a) * candidates_.size() + static_cast<std::size_t>(b);
    }

    const PairRates& rates_;
    std::span<const int> candidates_;
    int count_;
    bool several_nodes_;
    std::vector<int> fastest_;  ///< ways through any third candidate counted
    std::vector<int> links_;
    BestSet best_;
    std::vector<int> gpus_;
    int bound_for_ = 0;
    std::array<Mask, kMostExactGpus> at_pace_{}, above_pace_{};
};

/// The fastest set around one GPU: at each step the candidate whose slowest way to those that are
/// in is fastest, then the one with the most together.
std::vector<int> grow_set(const PairRates& rates, std::span<const int> candidates, int seed,
                          int count) {
    const std::vector<int> all = rates.among(candidates);
    const std::size_t size = candidates.size();
    std::vector<int> slowest(size, 0);
    std::vector<long long> together(size, 0);
    std::vector<bool> in(size, false);
    std::vector<int> gpus;
    for (int last = seed; true;) {
        in[static_cast<std::size_t>(last)] = true;
        gpus.push_back(candidates[static_cast<std::size_t>(last)]);
        if (static_cast<int>(gpus.size()) == count) break;
        int next = -1;
        for (std::size_t i = 0; i < size; ++i) {
            if (in[i]) continue;
            const int rate = all[static_cast<std::size_t>(last) * size + i];
            slowest[i] = gpus.size() == 1 ? rate : std::min(slowest[i], rate);
            together[i] += rate;
            if (next < 0 || slowest[i] > slowest[static_cast<std::size_t>(next)] ||
                (slowest[i] == slowest[static_cast<std::size_t>(next)] &&
                 together[i] > together[static_cast<std::size_t>(next)]))
                next = static_cast<int>(i);
        }
        last = next;
    }
    std::sort(gpus.begin(), gpus.end());
    return gpus;
}

}  // namespace

GpuPlaces gpu_places(const detect::Machine& machine) {
    GpuPlaces places;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        places.numa_node.push_back(machine.gpus[i].numa_node.value_or(-1));
        places.adapter.push_back(nearest_adapter(machine, i));
    }
    return places;
}

GpuSet judge_gpu_set(const PairRates& rates, const GpuPlaces& places, std::span<const int> gpus) {
    GpuSet set = judge_cheaply(rates, places, gpus);
    set.pace = pace_of(rates, gpus, 1);
    return set;
}

bool is_better_set(const GpuSet& a, const GpuSet& b, bool several_nodes) {
    if (a.pace != b.pace) return a.pace > b.pace;
    if (several_nodes && a.adapters != b.adapters) return a.adapters > b.adapters;
    if (a.sum != b.sum) return a.sum > b.sum;
    if (a.numa_nodes != b.numa_nodes) return a.numa_nodes < b.numa_nodes;
    return !several_nodes && a.adapters < b.adapters;
}

std::optional<GpuSet> best_gpu_set(const PairRates& rates, const GpuPlaces& places,
                                   std::span<const int> candidates, int count, bool several_nodes) {
    if (count < 2 || static_cast<std::size_t>(count) > candidates.size()) return std::nullopt;
    if (candidates.size() <= static_cast<std::size_t>(kMostExactGpus))
        return ExactSearch(rates, places, candidates, count, several_nodes).search();
    BestSet best(rates, places, several_nodes);
    best.consider(candidates.first(static_cast<std::size_t>(count)));
    for (std::size_t seed = 0; seed < candidates.size(); ++seed)
        best.consider(grow_set(rates, candidates, static_cast<int>(seed), count));
    return best.best();
}

}  // namespace toporun::env
