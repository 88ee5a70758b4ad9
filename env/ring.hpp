#pragma once

#include <span>
#include <vector>

/// Rings over a few GPUs: pure arithmetic on a dense matrix of rates, row-major, `count` x `count`,
/// symmetric, any unit, 0 on the diagonal and where there is no way.
namespace toporun::env {

/// Up to here rings and sets of GPUs are searched exactly; beyond by bounded heuristics.
inline constexpr int kMostExactGpus = 16;

/// Whether a ring over all exists in which every neighbours' rate is at least `least`. At most
/// kMostExactGpus; two are a ring of one pair.
bool has_ring(std::span<const int> rates, int count, int least);

/// The rate of the slowest neighbours in the best ring over all, which is the bandwidth of a ring
/// collective; 0 when it is below `floor` or there is none. Exact up to kMostExactGpus, beyond that
/// of the ring that the nearest-neighbour rule finds, a lower bound.
int ring_rate(std::span<const int> rates, int count, int floor = 1);

/// The least that joins any part of them with the rest (Stoer-Wagner): what trees over different
/// links carry together at most, and can (Edmonds). 0 when they are not all joined.
int smallest_cut(std::span<const int> rates, int count);

/// The ring from 0 that always goes on to the fastest unvisited one, the lowest among equals.
std::vector<int> nearest_neighbour_ring(std::span<const int> rates, int count);

}  // namespace toporun::env
