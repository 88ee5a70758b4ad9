#include "launcher/failures/anchors.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <bitset>
#include <cstring>
#include <span>
#include <string>

#include "launcher/failures/digits.hpp"

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
constexpr int seldom(char c) {
    if (std::string_view(" etaoinsrl").find(c) != std::string_view::npos) return 0;
    if (c >= 'a' && c <= 'z') return 2;
    if (c >= '0' && c <= '9') return 1;
    if (c >= 'A' && c <= 'Z') return 3;
    return c == '=' || c == '-' || c == '.' || c == ':' || c == '/' ? 1 : 3;
}

constexpr auto kSeldom = [] {
    std::array<std::uint8_t, 256> all{};
    for (std::size_t i = 0; i < all.size(); ++i)
        all[i] = static_cast<std::uint8_t>(seldom(static_cast<char>(i)));
    return all;
}();

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

/// By a hash: of a hundred other windows one is taken for common too.
bool is_common(std::uint32_t window) {
    constexpr int kHashBits = 16;
    const auto place = [](std::uint32_t four) { return four * 0x9e3779b1u >> (32 - kHashBits); };
    static const auto windows = [&] {
        std::bitset<1 << kHashBits> all;
        for (std::size_t i = 0; i + kWindow <= kCommon.size(); ++i)
            all.set(place(window_at(kCommon.data() + i)));
        return all;
    }();
    return windows[place(window)];
}

/// How seldom the four bytes stand in a log, 0 for common ones.
int rarity(const char* window) {
    if (is_common(window_at(window))) return 0;
    int sum = 1;
    for (std::size_t i = 0; i < kWindow; ++i) sum += kSeldom[static_cast<unsigned char>(window[i])];
    return sum;
}

/// Of an anchor, by the rarities of its windows.
int score_of(std::span<const int, kStride> rarities) {
    const auto common = std::count(rarities.begin(), rarities.end(), 0);
    return *std::min_element(rarities.begin(), rarities.end()) * (static_cast<int>(kStride) + 1) +
           static_cast<int>(kStride) - static_cast<int>(common);
}

/// Whether the byte at `at` may be the last one before a level: of `host:12:12`, `[0]`, `(name)`,
/// `init.cc:12`, of a time in milliseconds. A logger's `12:00:07`, `12:00:07,123` and `12:00:07]`
/// are none of them.
bool may_end_prefix(std::string_view text, std::size_t at) {
    if (text[at] == ')' || text[at] == ' ') return true;
    const bool device = text[at] == ']';
    if (device && at > 0) --at;
    if (!is_digit(text[at])) return false;
    const std::size_t last = at;
    while (at > 0 && (is_digit(text[at]) || text[at] == '.')) --at;
    if (device) return text[at] == '[' || text[at] == '-';
    const auto is_clock = [&] {
        return last == at + 2 && at > 3 && text[at - 3] == ':' && is_digit(text[at - 2]) &&
               is_digit(text[at - 1]);
    };
    return text[at] == ' ' || (text[at] == ':' && !is_clock());
}

/// Whether a level whose anchor begins at `at` stands behind `,123` of Python's loggers.
bool follows_milliseconds(std::string_view text, std::size_t at) {
    return at >= 3 && at < text.size() && text[at - 3] == ',' && is_digit(text[at - 2]) &&
           is_digit(text[at - 1]) && is_digit(text[at]);
}

}  // namespace

int Anchors::score(std::string_view anchor) {
    if (anchor.size() < kBytes) return -1;
    std::array<int, kStride> rarities;
    for (std::size_t k = 0; k < kStride; ++k) rarities[k] = rarity(anchor.data() + k);
    return score_of(rarities);
}

std::string_view Anchors::rarest(std::string_view literal) {
    std::string_view best;
    int best_score = -1;
    std::vector<int> rarities;
    for (std::size_t i = 0; i + kWindow <= literal.size(); ++i) {
        rarities.push_back(rarity(literal.data() + i));
        if (rarities.size() < kStride) continue;
        const std::size_t begin = i + 1 - kStride;
        const int score = score_of(std::span(rarities).subspan(begin).first<kStride>());
        if (score <= best_score) continue;
        best_score = score;
        best = literal.substr(begin, kBytes);
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
    const auto alone = static_cast<std::uint8_t>(kLevel + offset);
    std::uint8_t& known = known_[place];
    known = level && (known == 0 || known == alone) ? alone : kText;
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

/// The first of four windows from `at` on, kStride apart, that is of an anchor. `kinds`: a byte of
/// known_ for each, the first one in the lowest bits. Apart from find(), which shall stay short.
[[gnu::noinline]] std::size_t Anchors::first_of(std::string_view text, std::size_t at,
                                                std::uint32_t kinds) const {
    while (kinds != 0) {
        const int shift = std::countr_zero(kinds) & ~7;
        const std::uint32_t kind = kinds >> shift & 0xff;
        const std::size_t place = at + static_cast<std::size_t>(shift) / 8 * kStride;
        const bool of_logger =
            kind >= kLevel && follows_milliseconds(text, place - (kind - kLevel));
        if (!of_logger && confirmed(text, place)) return place;
        kinds &= ~(std::uint32_t{0xff} << shift);
    }
    return text.npos;
}

std::size_t Anchors::find(std::string_view text, std::size_t from) const {
    const auto known = [table = known_.data()](const char* at) -> std::uint32_t {
        return table[hash(window_at(at))];
    };
    if (always_) return from < text.size() ? from : text.npos;
    std::size_t at = from;
    // Four places at once: their look-ups do not wait for each other.
    constexpr std::size_t kFour = 3 * kStride + kWindow;
    for (; at + kFour <= text.size(); at += 4 * kStride) {
        const char* const here = text.data() + at;
        const std::uint32_t one = known(here), two = known(here + kStride);
        const std::uint32_t three = known(here + 2 * kStride), four = known(here + 3 * kStride);
        if ((one | two | three | four) == 0) continue;
        const std::size_t found = first_of(text, at, one | two << 8 | three << 16 | four << 24);
        if (found != text.npos) return found;
    }
    for (; at + kWindow <= text.size(); at += kStride)
        if (const std::uint32_t kind = known(text.data() + at);
            kind != 0 && first_of(text, at, kind) == at)
            return at;
    return text.npos;
}

}  // namespace toporun::launcher::failures
