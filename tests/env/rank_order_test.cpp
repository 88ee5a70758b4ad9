#include "env/rank_order.hpp"

#include <numeric>
#include <tuple>

#include "brute_force.hpp"
#include "env/ring.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
using toporun::env::PairRates;
using toporun::env::RankOrder;

std::optional<PairRates> rates_of(const Machine& machine) {
    static const toporun::profiles::Knowledge knowledge;
    static const toporun::env::UserEnvironment nobody;
    static const toporun::env::Options how;
    const toporun::env::Job made = job(static_cast<int>(machine.gpus.size()));
    toporun::env::Inputs inputs{made, machine, nobody, how, knowledge, nullptr, {}, false, {}, {}};
    inputs.nccl = toporun::detect::nccl_version_code(machine.software.nccl_version);
    inputs.rccl = toporun::env::is_rccl(machine);
    toporun::env::find_visible_gpus(inputs);
    return toporun::env::estimate_pair_rates(inputs, static_cast<int>(machine.gpus.size()));
}

std::tuple<int, long long, long long> worth(const RankOrder& order) {
    return {order.ring, order.sum, order.pairs};
}

/// Every order that starts with the first one.
void compare_all_orders(const PairRates& rates, std::vector<int> gpus) {
    const RankOrder found = best_order(rates, gpus);
    RankOrder best = order_as_given(rates, gpus);
    std::vector<int> order = gpus;
    while (std::next_permutation(order.begin() + 1, order.end())) {
        const RankOrder other = order_as_given(rates, order);
        if (worth(other) > worth(best)) best = other;
    }
    CHECK(worth(found) == worth(best));
    CHECK(found.gpus.front() == gpus.front());
    CHECK(std::is_permutation(found.gpus.begin(), found.gpus.end(), gpus.begin(), gpus.end()));
}

TEST_CASE("the order of ranks equals brute force on every saved topology for every number") {
    int compared = 0;
    for (const auto& [name, machine] : saved_topologies()) {
        CAPTURE(name);
        const int size = static_cast<int>(machine.gpus.size());
        const auto rates = rates_of(machine);
        if (!rates || size > toporun::env::kMostExactGpus) continue;
        for (int count = 2; count <= std::min(size, 8); ++count) {
            CAPTURE(count);
            std::vector<int> gpus(static_cast<std::size_t>(count));
            std::iota(gpus.begin(), gpus.end(), 0);
            compare_all_orders(*rates, gpus);
            std::iota(gpus.begin(), gpus.end(), size - count);
            compare_all_orders(*rates, gpus);
            ++compared;
        }
        std::vector<int> all(static_cast<std::size_t>(size));
        std::iota(all.begin(), all.end(), 0);
        if (size > 2) CHECK(best_order(*rates, all).ring == brute_ring(rates->among(all), size));
    }
    CHECK(compared >= 30);
    if (!std::filesystem::is_directory(std::filesystem::path(TOPORUN_SHARED) / "rig"))
        MESSAGE("skipped: the shared topologies are not there");
}

TEST_CASE("orders of random rates equal brute force") {
    unsigned state = 4711;
    const auto random = [&](unsigned below) {
        state = state * 1664525U + 1013904223U;
        return static_cast<int>((state >> 16) % below);
    };
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        const int size = 2 + random(6);
        PairRates rates(size);
        for (int a = 0; a < size; ++a)
            for (int b = a + 1; b < size; ++b) rates.set(a, b, 1 + 10 * random(5));
        std::vector<int> gpus(static_cast<std::size_t>(size));
        std::iota(gpus.begin(), gpus.end(), 0);
        compare_all_orders(rates, gpus);
    }
}

TEST_CASE("rings and cuts of small graphs") {
    struct Row {
        std::string name;
        int count;
        Matrix rates;
        int ring, cut;
    };
    const std::vector<Row> rows = {
        {"one", 1, {0}, 0, 0},
        {"a pair", 2, {0, 7, 7, 0}, 7, 7},
        {"a triangle", 3, {0, 1, 2, 1, 0, 3, 2, 3, 0}, 1, 3},
        {"a line has no ring", 3, {0, 5, 0, 5, 0, 5, 0, 5, 0}, 0, 5},
        {"two pairs apart", 4, {0, 9, 0, 0, 9, 0, 0, 0, 0, 0, 0, 9, 0, 0, 9, 0}, 0, 0},
        {"a square", 4, {0, 4, 0, 4, 4, 0, 4, 0, 0, 4, 0, 4, 4, 0, 4, 0}, 4, 8},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(toporun::env::ring_rate(row.rates, row.count) == row.ring);
        CHECK(toporun::env::smallest_cut(row.rates, row.count) == row.cut);
        CHECK(toporun::env::ring_rate(row.rates, row.count, row.ring + 1) == 0);
    }
}

TEST_CASE("a ring of more than sixteen is found by the nearest neighbour") {
    const int size = 20;
    Matrix rates(static_cast<std::size_t>(size * size), 1);
    for (int i = 0; i < size; ++i) {
        const int next = (i + 3) % size;
        rates[static_cast<std::size_t>(i * size + next)] = 9;
        rates[static_cast<std::size_t>(next * size + i)] = 9;
        rates[static_cast<std::size_t>(i * size + i)] = 0;
    }
    CHECK(toporun::env::ring_rate(rates, size) == 9);
    PairRates pairs(size);
    for (int a = 0; a < size; ++a)
        for (int b = a + 1; b < size; ++b)
            pairs.set(a, b, rates[static_cast<std::size_t>(a * size + b)]);
    std::vector<int> gpus(static_cast<std::size_t>(size));
    std::iota(gpus.begin(), gpus.end(), 0);
    CHECK(best_order(pairs, gpus).ring == 9);
    CHECK(best_order(pairs, gpus).gpus[1] == 3);
}

}  // namespace
