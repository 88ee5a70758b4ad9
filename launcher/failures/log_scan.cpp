#include "launcher/failures/log_scan.hpp"

#include <cctype>
#include <cstring>

#include "detect/nccl_log/events.hpp"
#include "launcher/failures/line_ends.hpp"

namespace toporun::launcher::failures {
namespace {

using namespace detect::nccl_log;

constexpr std::string_view kMark = "NCCL INFO ";
constexpr std::size_t kFarthestMark = 256;  ///< prefixes of launchers and a host name
constexpr std::size_t kLeastPrefix = 24;    ///< `a:1:1 [0] NCCL INFO ` has 20

bool is_host_char(char c) {
    return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '-' || c == '.' || c == '_';
}

/// Whether the text before `at` is `NCCL INFO `.
bool ends_mark(std::string_view line, std::size_t at) {
    return at >= kMark.size() && at <= line.size() &&
           std::memcmp(line.data() + at - kMark.size(), kMark.data(), kMark.size()) == 0;
}

/// Behind the first `NCCL INFO ` of the line, 0 when there is none near its beginning.
std::size_t message_at(std::string_view line) {
    constexpr std::size_t kLastL = 3;  // of "NCCL"
    const std::size_t end = std::min(line.size(), kFarthestMark);
    for (std::size_t at = kLastL; at < end; ++at) {
        const void* const found = std::memchr(line.data() + at, 'L', end - at);
        if (found == nullptr) return 0;
        at = static_cast<std::size_t>(static_cast<const char*>(found) - line.data());
        if (line.substr(at - kLastL).starts_with(kMark)) return at - kLastL + kMark.size();
    }
    return 0;
}

}  // namespace

LogScan::LogScan(LogModel& model, FailureLog& failures)
    : failures_(failures), stream_(model), anchors_(failures.catalogue().anchors()) {
    // What find_record() and the lines without a record need (line.cpp, parse_test_rank()).
    for (const char* text : {"NCCL IN", "NCCL WARN ", "NCCL TRACE ", "NCCL CALL ",
                             "ERROR]: ", "CCL version", " device "})
        anchors_.add(text);
    for (const std::string_view part : kPartsOfCalls) anchors_.add(part);
    for (const char* level : {" INFO ", " WARN "}) anchors_.add_level(level);
}

void LogScan::add(std::string_view lines, bool cut) {
    if (cut) {
        failures_.add(lines, &stream_.add(lines, true));
        return;
    }
    const bool plain = !find_line_ends(lines, ends_);
    if (!lines.empty() && lines.back() != '\n')
        ends_.push_back(static_cast<std::uint32_t>(lines.size()));
    block_ = lines;
    anchor_ = 0;
    for (std::size_t i = 0; i < ends_.size(); ++i) {
        if (plain && !among_records()) i = pass_lines(i);
        if (i == ends_.size()) break;
        if (plain || !has_control(line_at(i)))
            add_line(line_at(i));
        else
            add_slowly(line_at(i));
    }
    failures_.pass(std::exchange(passed_, 0));
}

/// Line `i` of the block.
std::string_view LogScan::line_at(std::size_t i) const {
    const std::size_t begin = i == 0 ? 0 : ends_[i - 1] + std::size_t{1};
    return block_.substr(begin, ends_[i] - begin);
}

/// Whether a line of the block, of a stream that may pass, tells nothing.
bool LogScan::may_pass(std::string_view line) {
    const auto begin = static_cast<std::size_t>(line.data() - block_.data());
    return next_anchor(begin) >= begin + line.size() &&
           !failures_.catalogue().is_short_line(line) && tells_no_rank(line);
}

bool LogScan::tells_no_rank(std::string_view line) {
    const auto begin = static_cast<std::size_t>(line.data() - block_.data());
    if (has_known_head(begin)) return true;
    if (!failures_.tells_no_rank(line)) return false;
    if (block_.size() - begin >= LineHeads::kBytes &&
        failures_.tells_no_rank(LineHeads::common(line), true))
        heads_.add(line.data());
    return true;
}

/// Passes lines of the block that tell nothing, from line `i` on; the first one that does not.
std::size_t LogScan::pass_lines(std::size_t i) {
    if (!failures_.is_idle() || !stream_.may_pass()) return i;
    const std::size_t first = i;
    std::size_t begin = i == 0 ? 0 : ends_[i - 1] + std::size_t{1};
    // As may_pass() asks, most of it without a call.
    for (; i < ends_.size(); ++i) {
        const std::size_t end = ends_[i];
        if (next_anchor(begin) < end) break;
        const std::string_view line = block_.substr(begin, end - begin);
        if (!has_known_head(begin) && !tells_no_rank(line)) break;
        if (line.size() < Anchors::kBytes && failures_.catalogue().is_short_line(line)) break;
        stream_.pass(line);
        begin = end + 1;
    }
    if (i > first) records_ = 0;
    passed_ += i - first;
    return i;
}

void LogScan::add_line(std::string_view line) {
    const bool idle = failures_.is_idle();
    const bool record_first = idle && among_records();
    if (record_first && add_record(line)) return note(true);
    if (idle && stream_.may_pass() && may_pass(line)) {
        note(false);
        stream_.pass(line);
        ++passed_;
        return;
    }
    if (idle && !record_first && add_record(line)) return note(true);
    const Line& read = add_slowly(line);
    note(read.record.level != Level::bare);
    if (idle && stream_.is_whole() && !read.torn && read.record.level == Level::info)
        remember(line, read.record);
}

const Line& LogScan::add_slowly(std::string_view line) {
    failures_.pass(std::exchange(passed_, 0));
    const Line& read = stream_.add(line);
    failures_.add(line, &read);
    for (const std::string& repaired : stream_.take_repaired()) failures_.add_repaired(repaired);
    return read;
}

LogScan::Prefix& LogScan::prefix_before(const char* message) {
    std::uint64_t last = 0;  // the end of the thread's number and the device
    std::uint64_t before = 0;
    std::memcpy(&last, message - kMark.size() - sizeof last, sizeof last);
    std::memcpy(&before, message - kLeastPrefix, sizeof before);
    return prefixes_[((last ^ before * 31) * 0x9e3779b97f4a7c15) >> 54];
}

/// A call into the event, which is as it happens to be for anything else.
bool LogScan::read_call(std::string_view message, CallEnd& end) {
    auto* call = std::get_if<Collective>(&line_.event);
    if (call == nullptr) call = &line_.event.emplace<Collective>();
    return parse_collective(message, end, *call);
}

/// A record of a prefix that is known, alone in its line, that tells nothing of a failure.
bool LogScan::add_record(std::string_view line) {
    // Prefixes are equally long mostly.
    const std::size_t at = ends_mark(line, last_at_) ? last_at_ : message_at(line);
    if (at < kLeastPrefix) return false;
    last_at_ = at;
    Prefix& known = prefix_before(line.data() + at);
    const std::size_t size = known.text.size();
    if (size == 0 || at < size) return false;
    if (std::memcmp(line.data() + at - size, known.text.data(), size) != 0) return false;
    const std::string_view before = line.substr(0, at - size);
    if (!before.empty() && (is_host_char(before.back()) || before.back() == ':' ||
                            anchors_.any_in(before) || !failures_.tells_no_rank(line)))
        return false;
    line_.record = known.record;
    line_.record.message = line.substr(at);
    if (!read_call(line_.record.message, known.end)) {
        if (anchors_.any_in(line_.record.message)) return false;
        line_.event = parse_other_message(line_.record.message);
    }
    if (!stream_.add_alone(line_, known.number)) return false;
    failures_.pass(std::exchange(passed_, 0));
    failures_.pass_record(line_, *known.process);
    return true;
}

/// The prefix of the line's record, when the line has nothing else before its message.
void LogScan::remember(std::string_view line, const Record& record) {
    const std::size_t at = message_at(line);
    if (at < kLeastPrefix || record.message.data() != line.data() + at || !record.device ||
        record.old_form || !record.source.empty())
        return;
    NcclProcess* const process = failures_.process_of(record);
    const auto number = stream_.process_of(record);
    if (process == nullptr || !number) return;
    const auto begin = static_cast<std::size_t>(record.host.data() - line.data());
    Prefix& known = prefix_before(line.data() + at);
    known.process = process;
    known.number = *number;
    known.text = line.substr(begin, at - begin);
    known.record = record;
    known.record.host = std::string_view(known.text).substr(0, record.host.size());
}

}  // namespace toporun::launcher::failures
