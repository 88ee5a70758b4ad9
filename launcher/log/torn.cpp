#include "launcher/log/torn.hpp"

#include <algorithm>
#include <cctype>
#include <utility>

#include "detect/nccl_log/cursor.hpp"
#include "detect/nccl_log/record.hpp"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace toporun::launcher {

using namespace detect::nccl_log;

namespace {

constexpr std::size_t kMostHosts = 1 << 12;
constexpr int kSure = 3;  ///< times that a name was seen
constexpr std::size_t kMostNames = 64;
constexpr std::size_t kMostOpen = 1 << 10;
constexpr std::size_t kLongestHead = 4096;
/// Changes of the writer after which it is known how the stream is written: of pieces of lines
/// hardly any hides, so that of this many one shows.
constexpr std::uint64_t kEnoughTurns = 32;
constexpr std::uint64_t kEnoughRecords = 4096;  ///< of one writer alone
constexpr std::size_t kMostQueued = 1u << 20;   ///< bytes
/// Pieces of lines show at every third change or so, a lost line end at one of many.
constexpr std::uint64_t kSeldom = 16;

bool is_record(const Line& line) {
    return line.record.level != Level::bare;
}

/// One name is the end of the other: a host name with text glued to it, or a part of one.
bool may_be(std::string_view a, std::string_view b) {
    return a.ends_with(b) || b.ends_with(a);
}

/// `node-a:225node-b:7:7`: the record before ends within its own prefix.
bool stands_in_word(std::string_view text, std::string_view host) {
    std::size_t at = static_cast<std::size_t>(host.data() - text.data());
    if (at < 2 || text[at - 1] != ':') return false;
    bool letter = false;
    for (--at; at > 0 && (std::isalnum(static_cast<unsigned char>(text[at - 1])) != 0 ||
                          text[at - 1] == '-' || text[at - 1] == '.');
         --at)
        letter |= std::isalpha(static_cast<unsigned char>(text[at - 1])) != 0;
    return letter;
}

/// Whether a line without a record may end with the end of one. No record ends in a fraction
/// (nccl.md section 5), lines of a training do.
bool may_end_record(std::string_view text) {
    std::size_t at = text.size();
    const auto skip_digits = [&] {
        const std::size_t end = at;
        while (at > 0 && std::isdigit(static_cast<unsigned char>(text[at - 1])) != 0) --at;
        return end - at;
    };
    if (skip_digits() == 0 || at == 0 || text[at - 1] != '.') return true;
    --at;
    if (skip_digits() == 0) return true;
    return at > 0 && text[at - 1] != ' ' && text[at - 1] != '=' && text[at - 1] != ':';
}

/// False for most texts without a part of a call: two bytes of each that are seldom neighbours.
bool may_have_part_of_call(std::string_view text) {
#ifdef __SSE2__
    const auto has = [](const char* at) {
        const __m128i one = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at));
        const __m128i next = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at + 1));
        const auto pair = [&](char a, char b) {
            return _mm_and_si128(_mm_cmpeq_epi8(one, _mm_set1_epi8(a)),
                                 _mm_cmpeq_epi8(next, _mm_set1_epi8(b)));
        };
        const __m128i found = _mm_or_si128(_mm_or_si128(pair('[', 'n'), pair('v', 'b')),
                                           _mm_or_si128(pair('t', 'y'), pair('p', 'C')));
        return _mm_movemask_epi8(found) != 0;
    };
    constexpr std::size_t kBytes = 17;
    if (text.size() < kBytes) return true;
    for (std::size_t at = 0; at + kBytes <= text.size(); at += 16)
        if (has(text.data() + at)) return true;
    return has(text.data() + text.size() - kBytes);
#else
    return !text.empty();
#endif
}

bool has_part_of_call(std::string_view text) {
    if (!may_have_part_of_call(text)) return false;
    return std::any_of(std::begin(kPartsOfCalls), std::end(kPartsOfCalls),
                       [&](std::string_view part) { return text.find(part) != text.npos; });
}

/// An end of `GPU/0-13000 (6/22.0/SYS)` in a line that is no row of the paths of a topology.
bool has_part_of_paths(std::string_view message) {
    constexpr std::string_view kRows[] = {"GPU/", "NET/", "CPU/", "NIC/", "NVS/", "PCI/"};
    constexpr std::string_view kEnds[] = {"/LOC)", "/NVL)", "/PIX)", "/PXB)", "/PHB)", "/SYS)"};
    return std::none_of(std::begin(kRows), std::end(kRows),
                        [&](std::string_view row) { return message.starts_with(row); }) &&
           std::any_of(std::begin(kEnds), std::end(kEnds),
                       [&](std::string_view end) { return message.find(end) != message.npos; });
}

/// `Trees [0] 6/-1/-1->5->4 [1] ...` with something else within. NCCL's own line ends early at 1024
/// bytes; before 2.8 it has two trees a channel, with `|` between, of which the first is read.
bool is_cut_short(const Trees& trees, std::string_view message) {
    constexpr std::size_t kLongestWhole = 900;
    const std::size_t last = message.rfind('[');
    const auto channel =
        last == message.npos ? std::nullopt : Cursor(message.substr(last + 1)).number<int>();
    return message.size() < kLongestWhole && message.starts_with("Trees ") &&
           message.find('|') == message.npos &&
           (trees.links.empty() || channel != trees.links.back().channel);
}

/// The form of all versions from 2.8 on, which ends with the stream.
bool is_usual_call(const Collective& call, std::string_view message) {
    constexpr std::string_view kStream = "] stream 0x";
    constexpr std::size_t kMostDigits = 16;
    std::size_t at = message.size();
    while (at > 0 && std::isxdigit(static_cast<unsigned char>(message[at - 1])) != 0) --at;
    const std::size_t digits = message.size() - at;
    return call.ranks && digits > 0 && digits <= kMostDigits &&
           message.substr(0, at).ends_with(kStream);
}

/// One word, and no number with more behind its full stop, as `4194304.304.`: an address has none
/// at its end.
bool is_whole_value(std::string_view text) {
    if (text.find(' ') != text.npos) return false;
    const std::size_t stop = text.find_first_not_of("0123456789");
    if (stop == 0 || stop == text.npos || text[stop] != '.') return true;
    return stop + 1 < text.size() &&
           std::isdigit(static_cast<unsigned char>(text[stop + 1])) != 0 && !text.ends_with('.');
}

}  // namespace

/// Whether a record has another one's end: more than what its kind has.
bool TornLines::is_broken(const Line& line) {
    const std::string_view message = line.record.message;
    if (const auto* call = std::get_if<Collective>(&line.event)) {
        constexpr std::uint64_t kEndOfUserSpace = std::uint64_t{1} << 56;  // five levels of pages
        const bool usual = call->usual || is_usual_call(*call, message);
        usual_calls_ |= usual;
        return call->stream >= kEndOfUserSpace || call->communicator >= kEndOfUserSpace ||
               (usual_calls_ && !usual);
    }
    return line.record.level == Level::info && has_part_of_call(message);
}

/// A variable whose value has blanks, or an end that no value has: another one's text may be in it,
/// but people write such values too.
bool TornLines::has_odd_value(const Line& line) {
    const auto* variable = std::get_if<Variable>(&line.event);
    return variable != nullptr &&
           (!is_whole_value(variable->value) || !is_whole_value(variable->origin));
}

/// The same for the only reading of a text that may be of two writers.
bool TornLines::is_doubtful(const Line& line) {
    if (has_odd_value(line) && any_torn_) return true;
    const std::string_view message = line.record.message;
    if (const auto* trees = std::get_if<Trees>(&line.event); trees && is_cut_short(*trees, message))
        return true;
    if (line.event.index() != 0 && has_part_of_paths(message)) return true;
    return is_broken(line);
}

/// `sumnode-a:7:7` where process 7 is of node-a: the end of another record stands before it. The
/// same for `de-a:7:7`, whose beginning is elsewhere. False when the name may be wrong.
bool TornLines::put_host_right(std::string_view text, Line& line) {
    const std::string_view name = line.record.host;
    const bool glued = line.torn || stands_in_word(text, name);
    any_torn_ |= glued;
    const auto known = hosts_.find(line.record.pid);
    // Not those that at_once() takes.
    const bool usual = state_ == State::whole && known != hosts_.end() &&
                       known->second.seen >= kSure && known->second.name == name;
    if (!glued && !usual) host_names_.count(line.record.pid, name);
    if (known == hosts_.end()) {
        if (glued || hosts_.size() >= kMostHosts) return !glued;
        const bool longer = std::any_of(names_.begin(), names_.end(), [&](const auto& other) {
            return name != other && name.ends_with(other);
        });
        // Behind a piece of another's line it may be a part of the name, or more than it.
        if (!longer && any_torn_ && name.data() != text.data() && !names_.contains(name))
            return false;
        hosts_.emplace(line.record.pid, Host{std::string(name), 1, {}});
        // Of a stream that is not whole the record waits for its name anyway.
        if (!longer || state_ != State::whole || doubtful_.size() >= kMostNames) {
            if (longer) return true;
            if (names_.size() < kMostNames) names_.emplace(name);
            return true;
        }
        Doubtful& doubtful = doubtful_[line.record.pid];
        doubtful.host = name;
        doubtful.rest = text.substr(
            static_cast<std::size_t>(name.data() + name.size() - text.data()), kLongestHead);
        line.event = Unknown{};
        return false;
    }
    Host& host = known->second;
    if (const auto first = doubtful_.find(line.record.pid); first != doubtful_.end() && !glued) {
        const bool own =
            may_be(name, first->second.host) && name.size() < first->second.host.size();
        emit((own ? std::string(name) : first->second.host) + first->second.rest, own, true);
        doubtful_.erase(first);
        --lost_;
        if (own) host = {std::string(name), 1, {}};
    }
    if (host.name == name) {
        if (host.seen < kSure) ++host.seen;
        return true;
    }
    if (host.name.empty()) return !glued;
    if (any_torn_ && host.seen >= kSure && may_be(name, host.name)) {
        line.torn = true;
        line.record.host = host.name;
        return true;
    }
    const bool again = host.other == name;
    host.other = name;
    if (!any_torn_ || (again && !glued)) {  // two hosts have a process of this number
        host.name.clear();
        return true;
    }
    if (host.seen < kSure) host = {std::string(name), 1, {}};
    return state_ != State::whole && !glued;
}

bool TornLines::at_once(const Line& line) {
    if (state_ != State::whole || !doubtful_.empty() || is_broken(line)) return false;
    const Record& record = line.record;
    auto& sure = sure_[static_cast<std::size_t>(record.pid) % sure_.size()];
    if (sure == nullptr || sure->first != record.pid) {
        const auto known = hosts_.find(record.pid);
        if (known == hosts_.end()) return false;
        sure = &*known;
    }
    if (sure->second.seen < kSure || sure->second.name != record.host) return false;
    ++records_;
    if (last_.pid != record.pid || last_.host != record.host) {
        if (last_.pid != 0) see_turn();
        last_.pid = record.pid;
        last_.host = record.host;
    }
    return true;
}

void TornLines::add(std::string_view text, Line& line) {
    if (is_record(line)) return add_record(text, line);
    if (state_ == State::whole) return take_(line);
    if (has_part_of_call(text)) see_tear();
    rest_ = text.substr(0, kLongestHead);
    ++rests_;
    rests_may_end_ |= may_end_record(text);
    if (line.event.index() != 0) emit(text, false, true);
}

void TornLines::add_record(std::string_view text, Line& line) {
    const std::string_view printed = line.record.host;
    const bool sure = put_host_right(text, line);
    Process process{std::string(line.record.host), line.record.pid};
    if (line.torn || (sure && is_broken(line))) see_tear();
    if (last_.pid != 0 && last_ != process) see_turn();
    ++records_;
    if (state_ == State::whole && sure) {
        last_ = std::move(process);
        return take_(line);
    }
    if (holding_) close_held(first_writer(text, process));
    holding_ = false;
    rests_ = 0;
    rests_may_end_ = false;
    std::erase_if(open_, [&](const Open& other) { return other.process == process; });
    if (line.torn) open_heads(text, process, sure);
    last_ = process;
    if (!sure) {
        ++lost_;
        return;
    }
    holding_ = true;
    held_torn_ = line.torn;
    held_broken_ = is_doubtful(line);
    held_odd_ = has_odd_value(line);
    // Without what stands before it, which is another's.
    held_ = process.host;
    held_ += text.substr(static_cast<std::size_t>(printed.data() + printed.size() - text.data()));
    held_process_ = std::move(process);
    decide();
    constexpr std::size_t kOften = 64;
    if (!waiting_.empty() && ++since_waiting_ > std::max(kOften, waiting_.size())) take_waiting();
}

/// Whose record stands first in the line, `last` that of its last one.
TornLines::Process TornLines::first_writer(std::string_view text, const Process& last) const {
    const auto first = find_record(text);
    if (!first || first->record.pid == last.pid) return last;
    const auto known = hosts_.find(first->record.pid);
    return {known == hosts_.end() ? std::string(first->record.host) : known->second.name,
            first->record.pid};
}

void TornLines::see_tear() {
    any_torn_ = true;
    ++tears_;
    if (state_ == State::whole) state_ = State::torn;
}

void TornLines::see_turn() {
    constexpr std::uint64_t kWindow = 256;
    if (++turns_ < kWindow) return;
    turns_ /= 2;
    tears_ /= 2;
    records_ /= 2;
    if (state_ != State::torn || tears_ > 0 || !open_.empty() || holding_) return;
    give_up_waiting();
    state_ = State::whole;
}

/// The processes write pieces of lines, not whole lines of which one lost its end.
bool TornLines::in_pieces() const {
    constexpr std::uint64_t kFew = 4;  // nothing can be told from so few
    const bool line_by_line = records_ < 2 * turns_ && tears_ * 4 < turns_;
    return tears_ > 0 && turns_ >= kFew && tears_ * kSeldom >= turns_ && !line_by_line;
}

/// The records before the last one in the line, whose rest is elsewhere. `sure`: the name of the
/// last one's host is known, and so where the text before it ends.
void TornLines::open_heads(std::string_view text, const Process& last, bool sure) {
    auto found = find_record(text);
    while (found) {
        const auto next = find_record(found->record.message);
        if (!next) return;
        Line head;
        head.record = found->record;
        if (put_host_right(text, head)) {
            Process writer{std::string(head.record.host), head.record.pid};
            const std::string_view printed = found->record.host;
            const char* const begin = printed.data() + printed.size();
            const char* const end = next->record.host.data() + next->record.host.size();
            const std::string_view glued(begin, static_cast<std::size_t>(end - begin));
            const bool known = sure && next->record.pid == last.pid && glued.ends_with(last.host);
            std::string whole;
            if (known)
                whole = writer.host + std::string(glued.substr(0, glued.size() - last.host.size()));
            if (writer != last) open(std::move(writer), std::move(whole));
        }
        found = next;
    }
}

void TornLines::open(Process process, std::string head) {
    std::erase_if(open_, [&](const Open& other) { return other.process == process; });
    if (open_.size() >= kMostOpen) open_.erase(open_.begin());
    if (head.size() > kLongestHead) head.clear();
    open_.push_back({std::move(process), std::move(head)});
}

/// The record that is held, now that a line begins with a record of `next`.
void TornLines::close_held(const Process& next) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Open& other) { return other.process == next; });
    const bool next_is_open = found != open_.end();
    const bool repaired = next_is_open && rests_ == 1 && repair(found->head);
    const bool other_name = any_torn_ && next.pid == held_process_.pid && next != held_process_ &&
                            may_be(next.host, held_process_.host);
    if (held_broken_ || other_name) {
        ++lost_;
    } else if (next == held_process_ && !next_is_open && !rests_may_end_ && !held_odd_) {
        // Had another one written into it, its own rest would stand between the two.
        emit(held_, held_torn_, true);
    } else {
        // The open one's rest stands in the line before its next record, or in this one.
        emit(held_, held_torn_, false, next_is_open && !repaired && !rests_may_end_);
    }
}

/// The only line before the next record of an open process may be the rest of its last one: when
/// the two are a record and no part of the line is another rest.
bool TornLines::repair(const std::string& head) {
    const auto is_record_with = [&](std::string_view rest) {
        const std::string text = head + std::string(rest);
        const Line line = parse_line(text);
        return is_record(line) && !line.torn && line.event.index() != 0 && !is_doubtful(line) &&
               !has_odd_value(line);
    };
    if (head.empty() || !is_record_with(rest_)) return false;
    for (std::size_t at = 1; at < rest_.size(); ++at)
        if (is_record_with(std::string_view(rest_).substr(at))) return false;
    std::string whole = head + rest_;
    ++repaired_;
    emit(whole, false, true);
    if (repaired_lines_.size() < kMostNames) repaired_lines_.push_back(std::move(whole));
    return true;
}

/// Hands a line on, `sure` or when whole lines are written. In the order of the stream: behind what
/// is not decided yet.
void TornLines::emit(std::string_view text, bool torn, bool sure, bool beside_open) {
    if (state_ == State::open && (!sure || !queue_.empty() || !is_named(text))) {
        queued_ += text.size() + sizeof(Queued);
        queue_.push_back({std::string(text), torn, sure, beside_open});
        return;
    }
    if (sure || state_ == State::whole || (!in_pieces() && !beside_open))
        take_text(text, torn);
    else
        ++lost_;
}

/// Whether whole lines are written or pieces.
void TornLines::decide() {
    if (state_ != State::open) return;
    const bool enough = turns_ >= kEnoughTurns || (turns_ == 0 && records_ >= kEnoughRecords) ||
                        queued_ > kMostQueued;
    if (enough) settle();
}

void TornLines::settle() {
    state_ = any_torn_ ? State::torn : State::whole;
    const std::vector<Queued> queue = std::exchange(queue_, {});
    for (const Queued& line : queue) emit(line.text, line.torn, line.sure, line.beside_open);
    if (state_ == State::whole && holding_) {
        holding_ = false;
        take_text(held_, held_torn_);
    }
}

void TornLines::take_text(std::string_view text, bool torn) {
    Line line = parse_line(text);
    line.torn |= torn;
    if (state_ == State::whole || !is_record(line)) return take_(line);
    const auto host = host_names_.right(line.record.pid, line.record.host);
    if (!host) return wait(text, torn);
    line.record.host = *host;
    take_(line);
}

/// Whether the text has no record, or one with the right name.
bool TornLines::is_named(std::string_view text) const {
    const auto found = find_record(text);
    return !found || host_names_.right(found->record.pid, found->record.host) == found->record.host;
}

void TornLines::wait(std::string_view text, bool torn) {
    if (waiting_bytes_ > kMostQueued) {
        ++lost_;
        return;
    }
    waiting_bytes_ += text.size() + sizeof(Queued);
    waiting_.push_back({std::string(text), torn, true, false});
}

/// Those whose names are known by now.
void TornLines::take_waiting() {
    since_waiting_ = 0;
    waiting_bytes_ = 0;
    for (const Queued& line : std::exchange(waiting_, {})) take_text(line.text, line.torn);
}

/// Takes those whose names are known, the others are lost.
void TornLines::give_up_waiting() {
    take_waiting();
    lost_ += std::exchange(waiting_, {}).size();
    waiting_bytes_ = 0;
}

void TornLines::finish() {
    if (holding_ && held_broken_)
        ++lost_;
    else if (holding_)  // the rest of a broken one would follow
        emit(held_, held_torn_, !rests_may_end_ && !held_odd_);
    holding_ = false;
    if (state_ == State::open) settle();
    for (const auto& [pid, first] : doubtful_) {
        take_text(first.host + first.rest, false);
        --lost_;
    }
    doubtful_.clear();
    give_up_waiting();
}

}  // namespace toporun::launcher
