#pragma once

#include <chrono>
#include <filesystem>
#include <map>
#include <optional>
#include <string>

#include "launcher/profiler/in_flight.hpp"
#include "launcher/profiler/ring_reader.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// What a run leaves in the node's private directory, read while it runs: profiler rings, NCCL
/// logs, rank records.
class RunWatch {
  public:
    explicit RunWatch(std::string private_directory);

    /// Reads the new profiler records, `most_turns` of profiler::kPollTurn a rank, which keeps up
    /// with an operation each 10 us when called each 160 ms; looks for new rings once a second.
    void poll(int most_turns = 8);

    /// A rank of this node is measured: then poll() is to be called more often than a ring of the
    /// fastest job wraps around.
    bool measuring() const { return !rings_.empty(); }

    /// The in-flight figures so far.
    profiler::Measured measured() const { return in_flight_.measured(); }

    /// Reads everything once more and fills the facts that come from files.
    void collect(RunFacts& facts);

  private:
    struct Ring {
        std::optional<profiler::RingReader> reader;  ///< empty: the file could not be read
        std::uint64_t lost = 0;
        std::size_t members = 0;
    };
    bool poll_ring(Ring& ring);  ///< true when there was more than one turn's records

    void find_rings();

    std::string directory_;
    std::chrono::steady_clock::time_point next_look_{};
    std::map<std::filesystem::path, Ring> rings_;
    profiler::InFlight in_flight_;
    std::vector<std::string> notes_;
};

/// Names of the files in a private directory.
inline constexpr const char* kRecordsFile = "ranks";
inline constexpr const char* kShimPlanFile = "shim.plan";

}  // namespace toporun::launcher
