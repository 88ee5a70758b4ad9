#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "detect/nccl_log/line.hpp"

namespace toporun::launcher {

/// Sorts out one stream into which several processes wrote pieces of lines: what a pipe makes of
/// their buffers. A piece begins where its writer's last one ended, so that within a line
///
///   * a record that starts inside another leaves the other open: its rest comes later;
///   * a line of one process before a line of another one that is open may end in that one's rest,
///     and then is neither's;
///   * a line without a record before a line of a process that is open is that process's rest.
///
/// Nothing is guessed: what may be mixed is counted, not read. Without an open record every line is
/// taken at once.
class TornLines {
  public:
    using Take = std::function<void(const detect::nccl_log::Line&)>;
    /// `take` gets every line that is whole or was put together again, in the stream's order.
    explicit TornLines(Take take) : take_(std::move(take)) {}

    /// A plain line (nccl_log::plain_line()) and what it says.
    void add(std::string_view text, detect::nccl_log::Line& line);
    /// True, and the record counted, when it may be taken as it is: nothing is torn so far, and its
    /// process is known.
    bool at_once(const detect::nccl_log::Record& record);
    /// False while a line without a record may be the rest of one.
    bool may_pass() const { return !holding_; }
    /// A line without a record, while may_pass().
    void pass() { any_bare_ = true; }
    /// Nothing was torn so far.
    bool is_whole() const { return !any_torn_ && !holding_ && doubtful_.empty(); }
    /// The stream ends here.
    void finish();

    std::uint64_t lost() const { return lost_; }          ///< records that may be mixed, left out
    std::uint64_t repaired() const { return repaired_; }  ///< records put together again

  private:
    struct Process {
        std::string host;
        std::int64_t pid = 0;
        bool operator==(const Process&) const = default;
    };
    struct Open {
        Process process;
        std::string head;  ///< "" when it is not known where the record ends
    };

    struct Host {
        std::string name;
        int seen = 0;
        std::string other;  ///< the last other name
    };

    bool put_host_right(std::string_view text, detect::nccl_log::Line& line);
    void add_record(std::string_view text, detect::nccl_log::Line& line);
    void open_heads(std::string_view text, const Process& last);
    void open(Process process, std::string head);
    bool close_held(const Process& next);
    bool in_pieces() const;
    void take_text(const std::string& text, bool torn);
    void take_held();

    Take take_;
    std::unordered_map<std::int64_t, Host> hosts_;  ///< by process id; "" for several
    std::array<const std::pair<const std::int64_t, Host>*, 64> sure_{};  ///< of hosts_, by low bits
    std::set<std::string, std::less<>> names_;  ///< of hosts, the first ones
    /// The first record of a process on a host whose name ends in another's: `1.2node-a` may be
    /// node-a. Kept until the process's next record tells.
    struct Doubtful {
        std::string host;
        std::string rest;
    };
    std::map<std::int64_t, Doubtful> doubtful_;
    std::vector<Open> open_;
    bool any_torn_ = false;
    bool any_bare_ = false;  ///< since the last record
    Process last_;           ///< its writer
    // The last record, as long as it may be mixed.
    bool holding_ = false;
    Process held_process_;
    std::string held_;
    bool held_torn_ = false;
    std::string rest_;  ///< the line without a record that followed it
    bool has_rest_ = false;
    std::uint64_t records_ = 0;
    std::uint64_t turns_ = 0;  ///< changes of the writer
    std::uint64_t lost_ = 0;
    std::uint64_t repaired_ = 0;
};

}  // namespace toporun::launcher
