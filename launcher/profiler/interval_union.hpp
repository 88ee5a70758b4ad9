#pragma once

#include <cstddef>
#include <cstdint>
#include <map>

namespace toporun::profiler {

/// Length of the union of many intervals in bounded memory. Intervals may come in any order within
/// the latest kOpen disjoint ones; what reaches back further counts only as far as it lies after
/// the fold.
class IntervalUnion {
  public:
    static constexpr std::size_t kOpen = 256;

    /// Adds [start, stop); nothing when stop <= start.
    void add(std::uint64_t start, std::uint64_t stop);

    bool empty() const { return last_ == 0; }
    double covered() const;  ///< length of the union
    double window() const;   ///< first start to last stop, 0 when empty

  private:
    void fold_oldest();

    std::map<std::uint64_t, std::uint64_t> open_;  // start -> stop, disjoint
    double folded_ = 0;                            // length of what lies before horizon_
    std::uint64_t horizon_ = 0;
    std::uint64_t first_ = UINT64_MAX;
    std::uint64_t last_ = 0;
};

}  // namespace toporun::profiler
