#include "launcher/failures/anchors.hpp"

#include <algorithm>
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
/// `init.cc:12`, of a time in milliseconds. A logger's `12:00:07,123` is none of them.
bool may_end_prefix(std::string_view text, std::size_t at) {
    if (std::string_view("]) ").find(text[at]) != std::string_view::npos) return true;
    const auto is_digit = [](char c) { return c >= '0' && c <= '9'; };
    if (!is_digit(text[at])) return false;
    while (at > 0 && (is_digit(text[at]) || text[at] == '.')) --at;
    return text[at] == ':' || text[at] == ' ';
}

}  // namespace

int Anchors::score(std::string_view anchor) {
    if (anchor.size() < kBytes) return -1;
    int least = INT_MAX;
    for (std::size_t k = 0; k + kWindow <= kBytes; ++k) {
        int sum = 0;
        for (std::size_t j = k; j < k + kWindow; ++j) sum += seldom(anchor[j]);
        if (is_common(window_at(anchor.data() + k))) sum = 0;
        least = std::min(least, sum);
    }
    return least;
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
    const std::uint32_t bit = hash(entry.four);
    bits_[bit >> 6] |= std::uint64_t{1} << (bit & 63);
    entry.next = heads_[bit % kHeads];
    entries_.push_back(entry);
    heads_[bit % kHeads] = static_cast<std::uint32_t>(entries_.size());
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
    const auto known = [this](const char* at) {
        const std::uint32_t bit = hash(window_at(at));
        return bits_[bit >> 6] >> (bit & 63) & 1;
    };
    if (always_) return from < text.size() ? from : text.npos;
    std::size_t at = from;
    // Four places at once: their look-ups do not wait for each other.
    for (; at + 3 * kStride + kWindow <= text.size(); at += 4 * kStride) {
        const char* const here = text.data() + at;
        if ((known(here) | known(here + kStride) | known(here + 2 * kStride) |
             known(here + 3 * kStride)) == 0)
            continue;
        for (std::size_t i = at; i < at + 4 * kStride; i += kStride)
            if (known(text.data() + i) != 0 && confirmed(text, i)) return i;
    }
    for (; at + kWindow <= text.size(); at += kStride)
        if (known(text.data() + at) != 0 && confirmed(text, at)) return at;
    return text.npos;
}

}  // namespace toporun::launcher::failures
