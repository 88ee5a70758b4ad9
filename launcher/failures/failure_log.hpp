#pragma once

#include <array>
#include <bitset>
#include <deque>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "detect/nccl_log/line.hpp"
#include "launcher/failures/evidence.hpp"
#include "launcher/failures/labels.hpp"
#include "launcher/failures/verdict.hpp"

namespace toporun::launcher::failures {

/// Collects what lines of logs say about a failure, in bounded memory, and judges it.
class FailureLog {
  public:
    explicit FailureLog(const Catalogue& catalogue = Catalogue::builtin());
    FailureLog(FailureLog&&) = default;
    FailureLog(const FailureLog&) = delete;

    /// The lines that follow are of this file.
    void begin_file(const std::string& name);
    /// One line. `nccl`: the same line as NCCL's, null when it is none.
    void add(std::string_view line, const detect::nccl_log::Line* nccl = nullptr);

    /// A record of which the lines before held pieces.
    void add_repaired(std::string_view line);

    // The short ways of LogScan. They do what add() does, for lines without an anchor of the
    // catalogue.

    /// No block of lines is open that any line may end, no event that lines may show to have been
    /// dealt with, and no word is known to be a host.
    bool is_idle() const {
        return open_blocks_ == 0 && open_streams_ == 0 && pdsh_hosts_.empty() && labels_.empty();
    }
    /// True for a line whose prefixes tell of no rank that is not known yet. While is_idle() only.
    /// `goes_on`: `line` is the beginning of one, and this is true whatever follows and whatever
    /// the digits are, but for those behind `[`.
    bool tells_no_rank(std::string_view line, bool goes_on = false) const;
    /// Lines without an anchor that tell of no rank.
    void pass(std::uint64_t lines);
    /// The same for a record of NCCL's, of the process as process_of() gave it.
    void pass_record(const detect::nccl_log::Line& nccl, NcclProcess& process);
    /// What is known of the record's process, as long as the FailureLog; null when there are too
    /// many.
    NcclProcess* process_of(const detect::nccl_log::Record& record);

    const Catalogue& catalogue() const { return catalogue_; }
    const Evidence& evidence() const { return evidence_; }
    /// The first cause; nothing when no line tells of a failure.
    std::optional<Verdict> verdict() const;

  private:
    /// What a stream of lines is in the middle of.
    struct Stream {
        enum class Block { none, traceback, table, missing_ranks, box, stack } block = Block::none;
        // traceback
        std::string frame;   ///< innermost of the user's own
        bool agent = false;  ///< of a launcher written in Python
        bool exit_barrier = false;
        bool chained = false;              ///< the exception is a consequence of the one before
        bool joining = false;              ///< of init_process_group
        std::optional<std::size_t> outer;  ///< exception that quotes the one to come
        std::optional<int> inner_rank;     ///< local rank of that one
        bool framed = false;               ///< the first frame was read
        bool main = false;                 ///< and is that of the main program
        // table
        bool first_observed = false;
        std::optional<TableRow> row;
        bool recorded = false;  ///< the row's own traceback is read
        // lines that add to an event
        std::size_t lines_since = 0;
        std::vector<std::pair<std::string, std::size_t>> recent;  ///< line id, event
        // signs that it goes on
        std::vector<std::size_t> open;  ///< events that these would clear
        std::uint64_t shape = 0;        ///< of the latest line of the training loop
        std::uint64_t numbers = 0;
    };

    void consider(std::string_view line, const detect::nccl_log::Line* nccl);
    Stream& stream_of(const Origin& origin);
    void see(const Origin& origin);
    void add_nccl(const detect::nccl_log::Line& line, NcclProcess& process);
    void add_findings(std::string_view text, std::string_view raw);
    void add_interfaces(const std::vector<detect::nccl_log::Interface>& interfaces);
    void add_old_interface(std::string_view message);
    void add_message(const PrefixedLine& line, std::string_view raw, Stream& stream);
    bool in_table(const PrefixedLine& line, std::string_view raw, Stream& stream);
    bool in_recorded(const PrefixedLine& line, std::string_view raw, Stream& stream);
    bool in_stack(const PrefixedLine& line, Stream& stream);
    bool in_box(const PrefixedLine& line, std::string_view raw, Stream& stream);
    void open(Stream& stream, Stream::Block block);
    void strip_label(PrefixedLine& line);
    void learn_label(const PrefixedLine& line);
    void add_frame(std::string_view message, Stream& stream);
    void warn(const detect::nccl_log::Record& record, std::string_view raw);
    void add_trail(const detect::nccl_log::Record& record, int code);
    bool in_traceback(const PrefixedLine& line, std::string_view raw, Stream& stream);
    void add_exception(const PrefixedLine& line, std::string_view raw, Stream& stream);
    void end_row(Stream& stream);
    void take(const Catalogue::Match& match, const Origin& origin, std::string_view raw,
              Stream& stream, bool of_nccl = false);
    bool continues_exception(const Catalogue::Match& match, std::string_view raw, Stream& stream);
    void begin_run();
    void see_rank(int rank);
    bool take_special(const Catalogue::Match& match, const Origin& origin, std::string_view raw);
    void add_work(const Catalogue::Match& match, const Origin& origin, std::string_view raw);
    bool in_missing_ranks(const PrefixedLine& line, Stream& stream);
    void watch(std::size_t position, bool of_nccl, Stream& stream);
    void see_progress(const PrefixedLine& line);
    void forget_open();
    void add_agent(const Catalogue::Match& match, const Origin& origin);
    static void fill(Event& event, const Captures& captures, const KnownLine& line);
    static void fill_from_kernel(Event& event, std::string_view raw);
    void fill_from_before(Event& event);
    static bool add_to(Event& event, const Captures& captures, const KnownLine& line);
    static std::string shortened(std::string_view text);
    Event event_of(const Origin& origin, std::string_view raw) const;
    std::size_t keep(Event event);

    const Catalogue& catalogue_;
    Evidence evidence_;
    std::unordered_map<std::string, Stream> streams_;  ///< of the present file
    std::map<std::string, std::size_t> kept_;          ///< event by stream and line
    std::set<std::string, std::less<>> pdsh_hosts_;
    Labels labels_;
    std::optional<Event> warned_;  ///< NCCL's latest warning
    std::optional<Event>
        named_before_;  ///< the latest line that names node or rank of what follows
    std::int64_t warned_tid_ = 0;
    std::vector<std::uint16_t> candidates_;
    /// By the low bits of the process id: a node's ranks take turns.
    std::array<std::map<std::pair<std::string, std::int64_t>, NcclProcess>::value_type*, 64>
        recent_{};
    std::bitset<1024> known_ranks_;  ///< the low ones of evidence_.ranks_seen
    std::string store_;
    Place place_;
    bool closing_ = false;        ///< of the present file
    bool run_over_ = false;       ///< a launcher or scheduler has said so in the present file
    std::set<int> ranks_of_run_;  ///< that NCCL named since the latest start of the ranks
    std::size_t open_blocks_ = 0;
    std::size_t open_streams_ = 0;  ///< that have events to be cleared
    std::uint64_t open_until_ = 0;  ///< order of the line up to which they are watched
    std::map<std::string, std::vector<std::size_t>> work_of_;  ///< by stream and rank in the group
};

/// The judgement alone, on evidence however it was got.
std::optional<Verdict> judge(const Evidence& evidence, const Catalogue& catalogue);

}  // namespace toporun::launcher::failures
