#include "launcher/log/torn.hpp"

#include <algorithm>
#include <cctype>

#include "detect/nccl_log/record.hpp"

namespace toporun::launcher {

using namespace detect::nccl_log;

namespace {

constexpr std::size_t kMostHosts = 1 << 12;
constexpr std::size_t kMostNames = 64;
constexpr std::size_t kMostOpen = 1 << 10;
constexpr std::size_t kLongestHead = 4096;

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

}  // namespace

/// `sumnode-a:7:7` where process 7 is of node-a: the end of another record stands before it. The
/// same for `de-a:7:7`, whose beginning is elsewhere. False when the name may be wrong.
bool TornLines::put_host_right(std::string_view text, Line& line) {
    constexpr int kSure = 3;
    const std::string_view name = line.record.host;
    const bool glued = line.torn || stands_in_word(text, name);
    any_torn_ |= glued;
    const auto known = hosts_.find(line.record.pid);
    if (known == hosts_.end()) {
        if (glued || hosts_.size() >= kMostHosts) return !glued;
        hosts_.emplace(line.record.pid, Host{std::string(name), 1, {}});
        const bool longer = std::any_of(names_.begin(), names_.end(), [&](const auto& other) {
            return name != other && name.ends_with(other);
        });
        if (!longer || doubtful_.size() >= kMostNames) {
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
        take_text((own ? std::string(name) : first->second.host) + first->second.rest, own);
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
    return false;
}

bool TornLines::at_once(const Record& record) {
    constexpr int kSure = 3;
    if (any_torn_ || holding_ || !open_.empty() || !doubtful_.empty()) return false;
    auto& sure = sure_[static_cast<std::size_t>(record.pid) % sure_.size()];
    if (sure == nullptr || sure->first != record.pid) {
        const auto known = hosts_.find(record.pid);
        if (known == hosts_.end()) return false;
        sure = &*known;
    }
    if (sure->second.seen < kSure || sure->second.name != record.host) return false;
    any_bare_ = false;
    ++records_;
    if (last_.pid != record.pid || last_.host != record.host) {
        ++turns_;
        last_.pid = record.pid;
        last_.host = record.host;
    }
    return true;
}

void TornLines::add(std::string_view text, Line& line) {
    if (is_record(line)) return add_record(text, line);
    any_bare_ = true;
    if (!holding_ || has_rest_ || line.from_nccl()) return take_(line);
    rest_ = text.substr(0, kLongestHead);
    has_rest_ = true;
}

void TornLines::add_record(std::string_view text, Line& line) {
    const std::string_view printed = line.record.host;
    const bool sure = put_host_right(text, line);
    Process process{std::string(line.record.host), line.record.pid};
    const bool rest_is_used = holding_ && close_held(process);
    holding_ = false;
    if (has_rest_ && !rest_is_used) take_(parse_line(rest_));
    has_rest_ = false;
    // A line that is no record may be the beginning of one.
    if (any_torn_ && any_bare_ && !rest_is_used && last_.pid != 0 && last_ != process)
        open(last_, "");
    any_bare_ = false;
    turns_ += last_ != process;
    ++records_;
    last_ = process;
    std::erase_if(open_, [&](const Open& other) { return other.process == process; });
    if (line.torn) open_heads(text, process);
    if (!sure) {
        ++lost_;
        return;
    }
    if (open_.empty() && !any_torn_) return take_(line);
    holding_ = true;
    held_torn_ = line.torn;
    // Without what stands before it, which is another's.
    held_ = process.host;
    held_ += text.substr(static_cast<std::size_t>(printed.data() + printed.size() - text.data()));
    held_process_ = std::move(process);
}

/// The records before the last one in the line, whose rest is elsewhere.
void TornLines::open_heads(std::string_view text, const Process& last) {
    auto found = find_record(text);
    while (found) {
        const auto next = find_record(found->record.message);
        if (!next) return;
        const auto at = [&](std::string_view part) {
            return static_cast<std::size_t>(part.data() - text.data());
        };
        Line head;
        head.record = found->record;
        if (put_host_right(text, head)) {
            Process writer{std::string(head.record.host), head.record.pid};
            const std::size_t begin = at(found->record.host) + found->record.host.size();
            const std::size_t end = at(next->record.host) + next->record.host.size();
            // How much of the text before the next host is its name is known when that is.
            const std::string_view glued = text.substr(begin, end - begin);
            std::string whole = writer.host;
            whole += glued.substr(0, glued.size() - std::min(last.host.size(), glued.size()));
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

/// The record that is held, now that the next one is of `next`. True when the line behind it is
/// used up.
bool TornLines::close_held(const Process& next) {
    const auto found = std::find_if(open_.begin(), open_.end(),
                                    [&](const Open& other) { return other.process == next; });
    if (next == held_process_ || (found == open_.end() && !in_pieces())) {
        take_held();
        return false;
    }
    Line line;
    std::string whole;
    if (has_rest_ && found != open_.end() && !found->head.empty()) {
        whole = found->head + rest_;
        line = parse_line(whole);
    }
    const bool joined = is_record(line) && !line.torn && line.event.index() != 0;
    if (joined || (has_rest_ && !in_pieces())) {
        take_held();
    } else {  // its end may be the rest of the next one's
        ++lost_;
        open(held_process_, "");
    }
    if (!joined) return false;
    ++repaired_;
    take_(line);
    return true;
}

/// The processes write blocks of many lines, each of which begins within a line: where the writer
/// changes nearly every line is mixed.
bool TornLines::in_pieces() const {
    constexpr std::uint64_t kLinesOfBlock = 4;
    constexpr std::uint64_t kSure = 8;
    return any_torn_ && turns_ >= kSure && records_ >= kLinesOfBlock * turns_;
}

void TornLines::take_held() {
    take_text(held_, held_torn_);
}

void TornLines::take_text(const std::string& text, bool torn) {
    Line line = parse_line(text);
    line.torn |= torn;
    take_(line);
}

void TornLines::finish() {
    if (holding_ && in_pieces())
        ++lost_;
    else if (holding_)
        take_held();
    holding_ = false;
    if (has_rest_) take_(parse_line(rest_));
    has_rest_ = false;
    for (const auto& [pid, first] : doubtful_) {
        take_text(first.host + first.rest, false);
        --lost_;
    }
    doubtful_.clear();
}

}  // namespace toporun::launcher
