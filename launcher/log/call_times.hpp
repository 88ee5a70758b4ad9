#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "detect/nccl_log/collective.hpp"

/// When collectives were called, of logs that have COLL lines with times, and how long they must
/// have taken by NCCL's own model.
namespace toporun::launcher {

/// Seconds of the first time stamp in `text`, the words before a record: `[2026-11-30 10:20:30]`,
/// `2026-11-30T10:20:30.123456789Z`, `2026-11-30 10:20:30,123`. From an epoch of its own; nothing
/// without date and time. `step` becomes the smallest difference that the stamp can show.
std::optional<double> stamp_seconds(std::string_view text, double& step);

/// Share of the time in which collectives are in flight.
struct FlightEstimate {
    double share = 0;  ///< 0 to 1, the mean of the ranks
    double low = 0;    ///< the error band
    double high = 0;
    double window_seconds = 0;  ///< mean of the ranks
    std::uint64_t calls = 0;
    int processes = 0;
};

/// Adds up the calls of each process, in bounded memory.
class CallTimes {
  public:
    /// Whole lines of a log. Those without a call or without a time are passed over: of a block
    /// whose first call has no time, all.
    void add_lines(std::string_view lines);
    /// With `gbytes_per_s` of bus bandwidth of a ring. Nothing when the log has too few calls with
    /// times, or they span less than ten steps of the stamps; when the stamps go back or one pause
    /// is most of their time (two runs, a clock that was set); when the calls could not have been
    /// made in it; and when more than a tenth are sends, receives or AlltoAll, which share a kernel
    /// and go other ways than a ring.
    std::optional<FlightEstimate> estimate(double gbytes_per_s) const;

  private:
    void add(std::string_view line);

    struct Process {
        double first = 0, last = 0;
        double step = 0;
        /// Sizes times the factor of the bus bandwidth, and calls, by communicator.
        struct Sum {
            double bus_bytes = 0;
            double best_bytes = 0;  ///< the same by the quickest way that NCCL may take
            double likely_latency = 0, most_latency = 0;  ///< s
            std::uint64_t calls = 0;
        };
        double previous = 0;
        double longest_gap = 0;  ///< between one call and the next
        bool goes_back = false;  ///< the stamps do, by seconds
        std::map<std::uint64_t, Sum> sums;
        std::uint64_t calls = 0;
        std::uint64_t unsized = 0;  ///< calls of unknown size or number of ranks, or no ring's
    };

    std::map<std::pair<std::string, std::int64_t>, Process> processes_;
};

/// Factor of the bus bandwidth (nccl-tests doc/PERFORMANCE.md): size x factor / bandwidth is the
/// time. Nothing for an unknown number of ranks.
std::optional<double> bus_factor(const detect::nccl_log::Collective& call);

}  // namespace toporun::launcher
