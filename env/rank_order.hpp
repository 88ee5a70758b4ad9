#pragma once

#include <span>
#include <vector>

#include "env/pair_rates.hpp"

namespace toporun::env {

/// An order of GPUs, rank 0 first, and what its neighbours exchange (tenths of GB/s). NCCL orders
/// the ring inside a host by itself; the order matters to frameworks whose groups are neighbouring
/// ranks (tensor and pipeline parallelism).
struct RankOrder {
    std::vector<int> gpus;  ///< positions in Machine::gpus
    int ring = 0;           ///< the slowest neighbours, the last and the first among them
    long long sum = 0;      ///< of all neighbours
    long long pairs = 0;    ///< of ranks 0 and 1, 2 and 3, ...
};

/// `gpus` in the order given.
RankOrder order_as_given(const PairRates& rates, std::span<const int> gpus);

/// The best order of `gpus`, the first of which stays rank 0: fastest slowest neighbours (the
/// bottleneck Hamiltonian cycle), then sum, then pairs, then the earlier in `gpus` first. Exact up
/// to kMostExactGpus; beyond that the better of the order given and the nearest-neighbour rule.
RankOrder best_order(const PairRates& rates, std::span<const int> gpus);

}  // namespace toporun::env
