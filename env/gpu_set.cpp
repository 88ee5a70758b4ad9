#include <algorithm>
#include <numeric>
#include <set>

#include "env/gpu_choice.hpp"
#include "env/ring.hpp"

namespace toporun::env {
namespace {

int nearest_adapter(const detect::Machine& machine, std::size_t gpu) {
    if (gpu >= machine.gpu_nic_paths.size()) return -1;
    const auto& paths = machine.gpu_nic_paths[gpu];
    int nearest = -1;
    for (std::size_t i = 0; i < paths.size() && i < machine.nics.size(); ++i) {
        const detect::Nic& nic = machine.nics[i];
        if (!paths[i] || !nic.rdma_device || nic.state == "down" || nic.port_state == "down")
            continue;
        if (nearest < 0 || *paths[i] < *paths[static_cast<std::size_t>(nearest)])
            nearest = static_cast<int>(i);
    }
    return nearest;
}

int different(const std::vector<int>& of, std::span<const int> gpus) {
    std::set<int> found;
    for (const int gpu : gpus)
        if (of[static_cast<std::size_t>(gpu)] >= 0) found.insert(of[static_cast<std::size_t>(gpu)]);
    return static_cast<int>(found.size());
}

/// Everything but the pace, which takes longest.
GpuSet judge_cheaply(const PairRates& rates, const GpuPlaces& places, std::span<const int> gpus) {
    GpuSet set;
    set.gpus.assign(gpus.begin(), gpus.end());
    const std::vector<int> direct = rates.direct_among(gpus);
    set.sum = std::accumulate(direct.begin(), direct.end(), 0LL) / 2;
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

/// The sets of `count` candidates one after the other, in lexicographic order.
template <class Visit>
void each_set(std::span<const int> candidates, int count, Visit&& visit) {
    const int size = static_cast<int>(candidates.size());
    std::vector<int> chosen(static_cast<std::size_t>(count));
    std::iota(chosen.begin(), chosen.end(), 0);
    std::vector<int> gpus(chosen.size());
    while (true) {
        for (std::size_t i = 0; i < chosen.size(); ++i)
            gpus[i] = candidates[static_cast<std::size_t>(chosen[i])];
        visit(gpus);
        int at = count - 1;
        while (at >= 0 && chosen[static_cast<std::size_t>(at)] == size - count + at) --at;
        if (at < 0) return;
        ++chosen[static_cast<std::size_t>(at)];
        for (int i = at + 1; i < count; ++i)
            chosen[static_cast<std::size_t>(i)] = chosen[static_cast<std::size_t>(i - 1)] + 1;
    }
}

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
    std::optional<GpuSet> best;
    const auto consider = [&](std::span<const int> gpus) {
        GpuSet set = judge_cheaply(rates, places, gpus);
        // With an equal pace it must win by the rest, which is known already.
        const int beaten = best ? best->pace : 0;
        set.pace = beaten;
        const bool wins_ties = !best || is_better_set(set, *best, several_nodes);
        set.pace = pace_of(rates, gpus, std::max(1, wins_ties ? beaten : beaten + 1));
        if (set.pace > 0) best = std::move(set);
    };
    if (candidates.size() <= static_cast<std::size_t>(kMostExactGpus)) {
        each_set(candidates, count, consider);
    } else {
        consider(candidates.first(static_cast<std::size_t>(count)));
        for (std::size_t seed = 0; seed < candidates.size(); ++seed)
            consider(grow_set(rates, candidates, static_cast<int>(seed), count));
    }
    return best;
}

}  // namespace toporun::env
