#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/profiler/collective.hpp"

namespace toporun::profiler {

/// How much a figure can be trusted. Printed beside it, always.
enum class Label { measured, bounded, estimated, unknown };
std::string_view label_text(Label label);  ///< "measured", "bounded", "estimated", "unknown"

/// One rank of this node. Shares are of the rank's own window, 0 to 1.
struct RankInFlight {
    RankKey key;
    double in_flight = 0;
    std::optional<double> transfer;  ///< with `waiting` together `in_flight`
    std::optional<double> waiting;
    double window_seconds = 0;     ///< first start to last stop, warm-up left out
    std::uint64_t operations = 0;  ///< all of them, warm-up too
};

/// All operations of one function and size class, over the ranks of this node, warm-up too.
struct OperationRow {
    std::string function;  ///< "AllReduce"
    /// Sizes in (size_class / 2, size_class] bytes, a power of two; 0 = size unknown.
    std::uint64_t size_class = 0;
    std::uint64_t count = 0;  ///< over all ranks
    std::uint64_t bytes = 0;  ///< sum of the sizes as nccl-tests counts them
    /// Mean over the operations, weighted by time, from the shortest duration over the ranks where
    /// the operation was matched, else from the rank's own. Fused operations count their shared
    /// time each.
    std::optional<double> busbw_gbytes_per_s;
};

/// The rank that the others wait for most often.
struct LastRank {
    RankKey key;
    double share = 0;           ///< of the matched operations in which some rank waited, 0 to 1
    double behind_seconds = 0;  ///< mean excess of the other ranks in those operations
};

/// What the profiler records of the ranks of one node say. Everything empty when there is no
/// record.
struct Measured {
    /// Of `in_flight`: measured; bounded when records were lost or stamps dropped; unknown without
    /// any.
    Label label = Label::unknown;
    std::optional<double> in_flight;           ///< mean over the ranks by window length, 0 to 1
    std::optional<double> in_flight_smallest;  ///< over the ranks
    std::optional<double> in_flight_largest;
    /// Of `transfer` and `waiting`: bounded as well when ranks of a communicator are on other nodes
    /// or did not report, or when more than a tenth of the time has no match (sends and receives).
    Label parts_label = Label::unknown;
    std::optional<double> transfer;  ///< mean over the ranks; transfer + waiting = in_flight
    std::optional<double> waiting;
    double window_seconds = 0;        ///< mean over the ranks
    bool warm_up_left_out = false;    ///< the first operations of each rank are not in the shares
    std::uint64_t operations = 0;     ///< over all ranks, warm-up too
    std::uint64_t implausible = 0;    ///< left out: stop not after start, or absurdly long
    std::uint64_t lost = 0;           ///< overwritten before they were read
    std::vector<RankInFlight> ranks;  ///< by rank, restart, pid
    std::vector<OperationRow> rows;   ///< by bytes, largest first
    std::optional<LastRank> last;
    std::vector<std::string> notes;  ///< one line each
};

/// Accumulates operations of the ranks of one node in bounded memory, whatever their number: a few
/// KiB a rank and 4096 operations that wait for their match. Pure: no clock, no file.
class InFlight {
  public:
    InFlight();
    ~InFlight();
    InFlight(InFlight&&) noexcept;
    InFlight& operator=(InFlight&&) noexcept;

    /// Says that the rank takes part in the communicator. Repeats are ignored. Needed for the
    /// transfer and waiting parts only; may come before or after the first operations.
    void member(const RankKey& rank, const Communicator& communicator);

    /// One complete operation of a rank, in about the order of launch.
    void add(const RankKey& rank, const Collective& collective);

    /// `count` operations of the rank that were never read.
    void lost(const RankKey& rank, std::uint64_t count);

    /// Everything so far. May be called at any time and again.
    Measured measured() const;

  private:
    struct State;
    std::unique_ptr<State> state_;
};

}  // namespace toporun::profiler
