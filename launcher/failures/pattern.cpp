#include "launcher/failures/pattern.hpp"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <stdexcept>

#include "launcher/failures/anchors.hpp"

namespace toporun::launcher::failures {
namespace {

constexpr std::string_view kGap = "…";
constexpr std::size_t kLongestNumber = 20;
constexpr std::size_t kLongestWord = 256;
constexpr std::size_t kNoMatch = std::string_view::npos;

constexpr std::array<std::string_view, 19> kNumbers = {
    "status", "rank", "rank_b",   "local_rank", "task",   "pid",      "signal",
    "code",   "seq",  "enqueued", "done",       "ran_ms", "limit_ms", "count",
    "gpu",    "xid",  "other",    "in",         "out"};
constexpr std::array<std::string_view, 4> kWords = {"node", "host", "op", "word"};

template <std::size_t N>
bool holds(const std::array<std::string_view, N>& list, std::string_view name) {
    return std::find(list.begin(), list.end(), name) != list.end();
}

std::uint32_t four_bytes(const char* at) {
    std::uint32_t value = 0;
    std::memcpy(&value, at, sizeof value);
    return value;
}

/// How seldom the byte stands in a log: a rough order is enough.
int rarity(char c) {
    if (std::string_view(" etaoinsrl").find(c) != std::string_view::npos) return 0;
    if (c >= 'a' && c <= 'z') return 2;
    if (c >= '0' && c <= '9') return 1;
    if (c >= 'A' && c <= 'Z') return 3;
    return c == '=' || c == '-' || c == '.' || c == ':' || c == '/' ? 1 : 3;
}

}  // namespace

std::optional<std::string_view> Captures::text(std::string_view name) const {
    for (const auto& [known, value] : values_)
        if (known == name) return value;
    return std::nullopt;
}

std::optional<std::int64_t> Captures::number(std::string_view name) const {
    const auto value = text(name);
    std::int64_t number = 0;
    if (!value) return std::nullopt;
    const auto end = value->data() + value->size();
    const auto [at, error] = std::from_chars(value->data(), end, number);
    return error == std::errc() && at == end ? std::optional(number) : std::nullopt;
}

std::string Captures::filled_in(std::string_view text) const {
    constexpr std::size_t kLongest = 128;
    std::string out(text);
    for (const auto& [name, value] : values_) {
        const std::string hole = "{" + std::string(name) + "}";
        if (const std::size_t at = out.find(hole); at != out.npos)
            out.replace(at, hole.size(), value.substr(0, kLongest));
    }
    return out;
}

std::string_view Pattern::whole_line() const {
    const bool whole =
        from_beginning_ && to_end_ && tokens_.size() == 1 && tokens_.front().kind == Kind::literal;
    return whole ? std::string_view(tokens_.front().text) : std::string_view();
}

void Pattern::add_literal(std::string_view text) {
    if (!text.empty()) tokens_.push_back({Kind::literal, std::string(text)});
}

void Pattern::add_hole(std::string_view name) {
    const Kind kind = holds(kNumbers, name) ? Kind::number
                      : holds(kWords, name) ? Kind::word
                                            : Kind::text;
    tokens_.push_back({kind, std::string(name)});
}

Pattern::Pattern(std::string_view text) {
    from_beginning_ = text.starts_with('^');
    if (from_beginning_) text.remove_prefix(1);
    to_end_ = text.ends_with('$');
    if (to_end_) text.remove_suffix(1);
    while (!text.empty()) {
        const std::size_t gap = text.find(kGap);
        const std::size_t brace = text.find('{');
        const std::size_t at = std::min({gap, brace, text.size()});
        add_literal(text.substr(0, at));
        text.remove_prefix(at);
        if (text.empty()) break;
        if (at == gap) {
            tokens_.push_back({Kind::text, ""});
            text.remove_prefix(kGap.size());
            continue;
        }
        const std::size_t end = text.find('}');
        if (end == std::string_view::npos) throw std::invalid_argument("a brace without its end");
        add_hole(text.substr(1, end - 1));
        text.remove_prefix(end + 1);
    }
    int best = -1;
    for (const Token& token : tokens_) {
        if (token.kind != Kind::literal) continue;
        for (std::size_t i = 0; i + 4 <= token.text.size(); ++i) {
            int score = 0;
            for (std::size_t k = i; k < i + 4; ++k) score += rarity(token.text[k]);
            if (score <= best) continue;
            best = score;
            key_ = four_bytes(token.text.data() + i);
        }
    }
    for (const Token& token : tokens_) {
        if (token.kind != Kind::literal) continue;
        const std::string_view anchor = Anchors::rarest(token.text);
        if (Anchors::score(anchor) > Anchors::score(anchor_)) anchor_ = anchor;
    }
    if (best < 0) throw std::invalid_argument("no four literal bytes in a row");
}

/// Matches tokens from `token` up to the next gap at exactly `at`; the position behind them.
std::size_t Pattern::match_run(std::string_view line, std::size_t at, std::size_t token,
                               Captures& captures) const {
    for (; token < tokens_.size() && !tokens_[token].is_gap(); ++token) {
        const Token& next = tokens_[token];
        const std::string_view rest = line.substr(at);
        std::size_t length = 0;
        if (next.kind == Kind::literal) {
            if (!rest.starts_with(next.text)) return kNoMatch;
            at += next.text.size();
            continue;
        }
        if (next.kind == Kind::number) {
            if (rest.starts_with('-')) length = 1;
            const std::size_t digits = length;
            while (length < std::min(rest.size(), kLongestNumber) && rest[length] >= '0' &&
                   rest[length] <= '9')
                ++length;
            if (length == digits) return kNoMatch;
        } else {
            const bool bounded =
                token + 1 < tokens_.size() && tokens_[token + 1].kind == Kind::literal;
            const char stop = bounded ? tokens_[token + 1].text.front() : ' ';
            while (length < std::min(rest.size(), kLongestWord) && rest[length] != ' ' &&
                   rest[length] != stop)
                ++length;
            if (length == 0) return kNoMatch;
        }
        captures.add(next.text, rest.substr(0, length));
        at += length;
    }
    return at;
}

std::optional<Captures> Pattern::match(std::string_view line) const {
    Captures captures;
    std::size_t at = 0;
    std::size_t token = 0;
    bool fixed = from_beginning_;
    while (token < tokens_.size()) {
        std::string_view open;  // the name of the gap before, "" for none
        const std::size_t gap_begin = at;
        if (tokens_[token].is_gap()) {
            open = tokens_[token].text;
            ++token;
            fixed = false;
        }
        std::size_t run_end = token;
        while (run_end < tokens_.size() && !tokens_[run_end].is_gap()) ++run_end;
        if (run_end == token) {  // a gap at the end takes all
            if (!open.empty()) captures.add(open, line.substr(gap_begin));
            at = line.size();
            break;
        }
        const std::string_view first =
            tokens_[token].kind == Kind::literal ? std::string_view(tokens_[token].text) : "";
        std::size_t end = kNoMatch;
        for (std::size_t begin = at;; ++begin) {
            if (!fixed && !first.empty()) begin = line.find(first, begin);
            if (begin > line.size()) return std::nullopt;
            const std::size_t kept = captures.size();
            if (!open.empty()) captures.add(open, line.substr(gap_begin, begin - gap_begin));
            end = match_run(line, begin, token, captures);
            if (end != kNoMatch) break;
            captures.shrink(kept);
            if (fixed) return std::nullopt;
        }
        at = end;
        token = run_end;
        fixed = true;
    }
    if (to_end_ && at != line.size()) return std::nullopt;
    return captures;
}

void PatternFilter::add(std::uint32_t key, std::uint16_t pattern) {
    const std::size_t at = slot(key);
    known_[at] = true;
    for (Entry& entry : entries_[at])
        if (entry.key == key) return entry.patterns.push_back(pattern);
    entries_[at].push_back({key, {pattern}});
}

void PatternFilter::find(std::string_view line, std::vector<std::uint16_t>& found) const {
    found.clear();
    for (std::size_t i = 0; i + 4 <= line.size(); ++i) {
        const std::uint32_t key = four_bytes(line.data() + i);
        const std::size_t at = slot(key);
        if (!known_[at]) continue;
        for (const Entry& entry : entries_[at])
            if (entry.key == key)
                found.insert(found.end(), entry.patterns.begin(), entry.patterns.end());
    }
    if (found.size() < 2) return;
    std::sort(found.begin(), found.end());
    found.erase(std::unique(found.begin(), found.end()), found.end());
}

}  // namespace toporun::launcher::failures
