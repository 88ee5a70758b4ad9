#pragma once

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/failures/anchors.hpp"
#include "launcher/failures/failure_log.hpp"
#include "launcher/failures/line_heads.hpp"
#include "launcher/log/stream.hpp"

namespace toporun::launcher::failures {

/// One stream of log text for a model and for the failures, at the speed of a search: of most lines
/// it is known after one look that they tell nothing, and NCCL's records of processes that are
/// known go to the model straight away. Everything else takes the long way: the results are the
/// same.
class LogScan {
  public:
    LogScan(LogModel& model, FailureLog& failures);

    /// Whole lines as of read_log_blocks().
    void add(std::string_view lines, bool cut);

  private:
    /// A record prefix `node-a:7:7 [0] NCCL INFO ` that was read before.
    struct Prefix {
        std::string text;
        detect::nccl_log::Record record;  ///< its host is the beginning of `text`
        NcclProcess* process = nullptr;   ///< of the failures
        std::size_t number = 0;           ///< the process's in the model
        detect::nccl_log::CallEnd end;
    };

    /// Where the next anchor of the block is, from `begin` on.
    std::size_t next_anchor(std::size_t begin) {
        if (anchor_ < begin) anchor_ = std::min(anchors_.find(block_, begin), block_.size());
        return anchor_;
    }
    /// Whether the line at `begin` of the block begins as one of which tells_no_rank() is known.
    bool has_known_head(std::size_t begin) const {
        return block_.size() - begin >= LineHeads::kBytes && heads_.contains(block_.data() + begin);
    }
    bool may_pass(std::string_view line);
    bool tells_no_rank(std::string_view line);
    std::string_view line_at(std::size_t i) const;
    std::size_t pass_lines(std::size_t i);
    /// Whether the next line is a record, as far as the last ones tell: then that is tried first.
    bool among_records() const { return records_ > 1; }
    void note(bool record) { records_ = record ? std::min(records_ + 1, 8) : records_ / 2; }
    void add_line(std::string_view line);
    const detect::nccl_log::Line& add_slowly(std::string_view line);
    bool add_record(std::string_view line);
    void remember(std::string_view line, const detect::nccl_log::Record& record);
    bool read_call(std::string_view message, detect::nccl_log::CallEnd& end);
    Prefix& prefix_before(const char* message);

    FailureLog& failures_;
    LogStream stream_;
    LineHeads heads_;
    Anchors anchors_;  ///< of the catalogue, and what NCCL's own lines hold
    std::vector<Prefix> prefixes_ = std::vector<Prefix>(1024);
    detect::nccl_log::Line line_;
    std::vector<std::uint32_t> ends_;  ///< of the block's lines
    std::string_view block_;           ///< that is read
    std::size_t anchor_ = 0;           ///< the next anchor in it that is known of
    std::size_t last_at_ = 0;          ///< where the message of the last record began in its line
    int records_ = 8;                  ///< how many there were of late, up to 8
    std::uint64_t passed_ = 0;         ///< lines that the failures do not know of yet
};

}  // namespace toporun::launcher::failures
