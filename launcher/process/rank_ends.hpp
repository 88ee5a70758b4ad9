#pragma once

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/descriptors.hpp"
#include "launcher/shim/plan_file.hpp"

struct pollfd;

namespace toporun::launcher {

/// How and when the processes of this node's ranks end, which launchers do not tell: the shims
/// record their process ids, the kernel tells the end of each (pidfd). The status is read while the
/// launcher has not taken it yet, or from Linux 6.15 on also afterwards (PIDFD_INFO_EXIT); else it
/// stays unknown. What torchrun's error handler wrote is read at the same time.
class RankEnds {
  public:
    /// `records_file`: what the shims append to; "" = there are none. It is made here.
    explicit RankEnds(const std::string& records_file);

    /// Times count from now; only processes below `supervisor` are watched.
    void start(pid_t supervisor);

    /// Adds what wakes up when a rank has started or ended.
    void add_waits(std::vector<pollfd>& waits) const;

    /// Takes note of new ranks and of ends.
    void look();

    /// How many ranks have started and ended, and whether one of them still runs.
    std::size_t started() const { return records_; }
    std::size_t ended() const;
    bool running() const;

    /// Adds what is known to the records of the same process and restart.
    void fill(std::vector<RankRecord>& records) const;

  private:
    struct Rank {
        int pid = 0;
        int restart = 0;
        std::uint64_t start_ticks = 0;
        Descriptor fd;
        std::string error_file;
        std::optional<int> wait_status;
        std::optional<double> ended_after_s;
        std::string error;  ///< what the error file held
    };
    void read_records();
    void note_end(Rank& rank, double seconds);

    Descriptor file_;
    Descriptor notify_;
    std::string rest_;  ///< of a record that is still being written
    std::vector<Rank> ranks_;
    std::size_t records_ = 0;
    pid_t supervisor_ = -1;
    std::chrono::steady_clock::time_point started_{};
};

}  // namespace toporun::launcher
