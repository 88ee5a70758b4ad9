#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/log/host_names.hpp"

namespace toporun::launcher {

/// Parts of a call (collective.hpp), which stand in no other line.
inline constexpr std::string_view kPartsOfCalls[] = {"[nranks=", " recvbuff ", " datatype ",
                                                     ": opCount "};

/// Sorts out one stream into which several processes wrote pieces of lines: what a pipe makes of
/// their buffers. A piece begins where its writer's last one ended, and a record that another one's
/// text breaks off goes on with the writer's next piece. So
///
///   * a record is whole when the next line begins with a record of the same process: of a broken
///     one the rest would stand between the two. A line without a record between them is such a
///     rest unless it cannot be the end of a record;
///   * any other record may end in the rest of somebody else's. It is taken when the stream is of
///     whole lines otherwise, and counted as lost when it is of pieces;
///   * of a record that a second one breaks off in the same line the rest stands before its
///     writer's next record. The two are joined when one reading only makes a record;
///   * the name of a record's host may have another one's text before it, or stand there in part.
///     The record waits until the right name is known (HostNames), and is lost when it never is.
///
/// Whether whole lines or pieces are written shows after some changes of the writer; so long lines
/// are kept. Without a torn line every line is taken.
class TornLines {
  public:
    using Take = std::function<void(const detect::nccl_log::Line&)>;
    /// `take` gets every line that is whole or was put together again, in the stream's order.
    explicit TornLines(Take take) : take_(std::move(take)) {}

    /// A plain line (nccl_log::plain_line()) and what it says.
    void add(std::string_view text, detect::nccl_log::Line& line);
    /// True, and the record counted, when it may be taken as it is: nothing is torn so far, and its
    /// process is known.
    bool at_once(const detect::nccl_log::Line& line);
    /// False while a line without a record and without a part of a call may tell something: as the
    /// rest of one that is held.
    bool may_pass() const {
        return state_ == State::whole || !holding_ || (rests_ > 1 && rests_may_end_);
    }
    /// Whole lines are written, as far as is known.
    bool is_whole() const { return state_ == State::whole && doubtful_.empty(); }
    /// The texts of the records that were put together again since the last call, the first ones.
    std::vector<std::string> take_repaired() { return std::exchange(repaired_lines_, {}); }
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
    Process first_writer(std::string_view text, const Process& last) const;
    bool is_broken(const detect::nccl_log::Line& line);
    static bool has_odd_value(const detect::nccl_log::Line& line);
    bool is_doubtful(const detect::nccl_log::Line& line);
    void see_tear();
    void see_turn();
    bool in_pieces() const;
    void open_heads(std::string_view text, const Process& last, bool sure);
    void open(Process process, std::string head);
    void close_held(const Process& next);
    bool repair(const std::string& head);
    void emit(std::string_view text, bool torn, bool sure, bool beside_open = false);
    void decide();
    void settle();
    void take_text(std::string_view text, bool torn);
    bool is_named(std::string_view text) const;
    void wait(std::string_view text, bool torn);
    void take_waiting();
    void give_up_waiting();

    /// How the stream is written.
    enum class State {
        open,   ///< not known yet: what may be mixed is queued
        whole,  ///< whole lines
        torn,   ///< tears were seen lately
    };
    struct Queued {
        std::string text;
        bool torn = false;
        bool sure = false;
        bool beside_open = false;  ///< may end in the rest of a record that was seen broken off
    };

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
    State state_ = State::open;
    std::vector<Queued> queue_;
    std::size_t queued_ = 0;  ///< bytes
    HostNames host_names_;
    std::vector<Queued> waiting_;  ///< for the name of their host
    std::size_t waiting_bytes_ = 0;
    std::size_t since_waiting_ = 0;  ///< records since the last look at them
    bool any_torn_ = false;
    Process last_;  ///< the writer of the last record
    // The last record, as long as it may be mixed.
    bool holding_ = false;
    Process held_process_;
    std::string held_;
    bool held_torn_ = false;
    bool held_broken_ = false;
    bool held_odd_ = false;       ///< has_odd_value()
    std::string rest_;            ///< the last line without a record behind it
    std::size_t rests_ = 0;       ///< how many there are
    bool rests_may_end_ = false;  ///< one of them may end with the end of a record
    bool usual_calls_ = false;    ///< calls end with their stream here
    std::uint64_t records_ = 0;   ///< of late
    std::uint64_t turns_ = 0;     ///< changes of the writer, of late
    std::uint64_t tears_ = 0;     ///< that showed, of late
    std::vector<std::string> repaired_lines_;
    std::uint64_t lost_ = 0;
    std::uint64_t repaired_ = 0;
};

}  // namespace toporun::launcher
