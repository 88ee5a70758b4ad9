#include "launcher/failures/anchors.hpp"

#include <algorithm>
#include <bit>
#include <climits>
#include <cstring>
#include <string>
#include <unordered_set>

namespace toporun::launcher::failures {
namespace {

constexpr std::size_t kWindow = 4;
constexpr std::size_t kStride = Anchors::kBytes - kWindow + 1;

std::uint32_t window_at(const char* at) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// How seldom the byte stands in a log: a rough order is enough.
int seldom(char c) {
    if (std::string_view(" etaoinsrl").find(c) != std::string_view::npos) return 0;
    if (c >= 'a' && c <= 'z') return 2;
    if (c >= '0' && c <= '9') return 1;
    if (c >= 'A' && c <= 'Z') return 3;
    return c == '=' || c == '-' || c == '.' || c == ':' || c == '/' ? 1 : 3;
}

/// What nearly every line of some logs holds.
constexpr std::string_view kCommon =
    "] NCCL INFO AllReduce: opCount 0 sendbuff 0x7f51f2 recvbuff 0x7f51f2 count 16 datatype 7 op 0 "
    "root 0 "
    "comm 0x55 [nranks=8] stream 0x55 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15} "
    "Channel 00/0 "
    "via P2P/CUMEM/read New proxy send connection from local rank transport Cuda Alloc Size "
    "pointer "
    "communicator [rank0]: iteration step epoch loss grad norm samples seconds error: Error: torch "
    "cuda "
    "python trainer model training File line ";

bool is_common(std::uint32_t window) {
    static const std::unordered_set<std::uint32_t> windows = [] {
        std::unordered_set<std::uint32_t> all;
        for (std::size_t i = 0; i + kWindow <= kCommon.size(); ++i)
            all.insert(window_at(kCommon.data() + i));
        return all;
    }();
    return windows.contains(window);
}

/// Whether the byte at `at` may be the last one before a level: of `host:12:12`, `[0]`, `(name)`,
/// `init.cc:12`, of a time in milliseconds. A logger's `12:00:07`, `12:00:07,123` and `12:00:07]`
/// are none of them.
bool may_end_prefix(std::string_view text, std::size_t at) {
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (text[at] == ')' || text[at] == ' ') return true;
    const bool device = text[at] == ']';
    if (device && at > 0) --at;
    if (!is_digit(text[at])) return false;
    // Python's milliseconds, without a loop.
    if (at > 2 && text[at - 3] == ',' && is_digit(text[at - 1]) && is_digit(text[at - 2]))
        return false;
    const std::size_t last = at;
    while (at > 0 && (is_digit(text[at]) || text[at] == '.')) --at;
    if (device) return text[at] == '[' || text[at] == '-';
    const auto is_clock = [&] {
        return last == at + 2 && at > 3 && text[at - 3] == ':' && is_digit(text[at - 2]) &&
               is_digit(text[at - 1]);
    };
    return text[at] == ' ' || (text[at] == ':' && !is_clock());
}

}  // namespace

int Anchors::score(std::string_view anchor) {
    if (anchor.size() < kBytes) return -1;
    constexpr int kWindows = kBytes - kWindow + 1;
    int least = INT_MAX, uncommon = 0;
    for (std::size_t k = 0; k < kWindows; ++k) {
        int sum = 1;
        for (std::size_t j = k; j < k + kWindow; ++j) sum += seldom(anchor[j]);
        const bool common = is_common(window_at(anchor.data() + k));
        least = std::min(least, common ? 0 : sum);
        uncommon += common ? 0 : 1;
    }
    return least * (kWindows + 1) + uncommon;
}

std::string_view Anchors::rarest(std::string_view literal) {
    std::string_view best;
    for (std::size_t i = 0; i + kBytes <= literal.size(); ++i) {
        const std::string_view anchor = literal.substr(i, kBytes);
        if (score(anchor) > score(best)) best = anchor;
    }
    return best;
}

void Anchors::add(std::string_view literal) {
    const std::string_view anchor = rarest(literal);
    always_ |= anchor.empty();
    for (std::size_t i = 0; i + kWindow <= anchor.size(); ++i) add_window(anchor, i, false);
}

void Anchors::add_level(std::string_view level) {
    std::string anchor = " " + std::string(level.substr(0, kBytes - 1));
    for (std::size_t i = 1; i + kWindow <= kBytes; ++i) add_window(anchor, i, true);
    for (const char before : std::string_view("0123456789]) ")) {
        anchor.front() = before;
        add_window(anchor, 0, true);
    }
}

void Anchors::add_window(std::string_view anchor, std::size_t offset, bool level) {
    Entry entry;
    entry.four = window_at(anchor.data() + offset);
    std::memcpy(entry.anchor, anchor.data(), kBytes);
    entry.offset = static_cast<std::uint8_t>(offset);
    entry.level = level;
    const std::uint32_t place = hash(entry.four);
    known_[place] = 1;
    entry.next = heads_[place % kHeads];
    entries_.push_back(entry);
    heads_[place % kHeads] = static_cast<std::uint32_t>(entries_.size());
}

/// True when the four bytes at `at` are part of an anchor.
bool Anchors::confirmed(std::string_view text, std::size_t at) const {
    const std::uint32_t four = window_at(text.data() + at);
    for (std::uint32_t i = heads_[hash(four) % kHeads]; i != 0; i = entries_[i - 1].next) {
        const Entry& entry = entries_[i - 1];
        if (entry.four != four || at < entry.offset) continue;
        const std::size_t begin = at - entry.offset;
        if (begin + kBytes > text.size()) continue;
        const char* const here = text.data() + begin;
        // The last four bytes and the first ones, or all but the first.
        if (window_at(here + kBytes - kWindow) != window_at(entry.anchor + kBytes - kWindow))
            continue;
        const std::size_t first = entry.level ? 1 : 0;
        if (window_at(here + first) == window_at(entry.anchor + first) &&
            (!entry.level || may_end_prefix(text, begin)))
            return true;
    }
    return false;
}

std::size_t Anchors::find(std::string_view text, std::size_t from) const {
    const auto known = [table = known_.data()](const char* at) {
        return table[hash(window_at(at))];
    };
    if (always_) return from < text.size() ? from : text.npos;
    std::size_t at = from;
    // Four places at once: their look-ups do not wait for each other.
    constexpr std::size_t kFour = 3 * kStride + kWindow;
    for (; at + kFour <= text.size(); at += 4 * kStride) {
        const char* const here = text.data() + at;
        const unsigned one = known(here), two = known(here + kStride);
        const unsigned three = known(here + 2 * kStride), four = known(here + 3 * kStride);
        if ((one | two | three | four) == 0) continue;
        for (unsigned found = one | two << 1 | three << 2 | four << 3; found != 0;
             found &= found - 1) {
            const std::size_t place = at + static_cast<unsigned>(std::countr_zero(found)) * kStride;
            if (confirmed(text, place)) return place;
        }
    }
    for (; at + kWindow <= text.size(); at += kStride)
        if (known(text.data() + at) != 0 && confirmed(text, at)) return at;
    return text.npos;
}

}  // namespace toporun::launcher::failures
