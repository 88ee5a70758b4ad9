#pragma once

#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <tuple>
#include <vector>

namespace toporun::profiler {

/// One rank's part in a collective.
struct Sample {
    std::size_t rank = 0;  ///< position in the caller's list of ranks
    double duration_ns = 0;
    bool steady = false;  ///< not in the rank's warm-up
};

/// The same collective on the ranks that have reported it so far.
struct Match {
    std::uint64_t communicator = 0;  ///< id
    std::uint64_t sequence = 0;
    std::uint8_t function = 0;
    int ranks = 0;  ///< of the communicator
    std::uint64_t size_class = 0;
    double bus_bytes = 0;         ///< of one rank: size times the factor of nccl-tests
    std::vector<Sample> samples;  ///< one a rank
};

/// Brings the records of one collective together over the ranks. The key is (communicator,
/// function, sequence). A replayed CUDA graph repeats a sequence: the n-th of one rank meets the
/// n-th of the others.
class Matching {
  public:
    static constexpr std::size_t kPending = 4096;

    /// Adds one sample to its match; `head` is used when it is the first. Returns what is over: the
    /// match when all of its ranks have reported, and the oldest one when too many wait.
    std::vector<Match> add(const Match& head, const Sample& sample);

    /// Those still waiting, oldest first.
    const std::list<Match>& pending() const { return pending_; }

  private:
    using Place = std::list<Match>::iterator;
    using Key = std::tuple<std::uint64_t, std::uint64_t, std::uint8_t>;

    Match take(Place place);

    std::list<Match> pending_;
    std::map<Key, std::vector<Place>> index_;  // of one key in order of age
};

}  // namespace toporun::profiler
