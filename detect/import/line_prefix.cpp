#include "detect/import/line_prefix.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <set>
#include <span>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kLongestName = 64;  ///< of a host, a task or a pod
constexpr int kMostNested = 4;            ///< "> > > " and time stamp before label before label

bool digit(char c) {
    return c >= '0' && c <= '9';
}
bool blank(char c) {
    return c == ' ' || c == '\t';
}
bool name_character(char c) {
    return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '_' ||
           c == '.';
}

/// A prefix at the start of a line: `length` bytes go, `name` says who printed the line.
struct Prefix {
    std::size_t length = 0;
    std::string_view name;
};
using Match = std::optional<Prefix> (*)(std::string_view line);

std::optional<Prefix> with_one_blank(std::string_view line, Prefix prefix) {
    if (prefix.length < line.size() && line[prefix.length] == ' ') ++prefix.length;
    return prefix;
}

/// `[1,0]<stdout>:` of Open MPI, `[rank0]:` and `[default0]:` of torchrun.
std::optional<Prefix> bracketed(std::string_view line) {
    if (line.empty() || line[0] != '[') return std::nullopt;
    const std::size_t close = line.substr(0, kLongestName).find(']');
    if (close == std::string_view::npos || close < 2) return std::nullopt;
    const std::string_view name = line.substr(1, close - 1);
    const std::string_view rest = line.substr(close + 1);
    for (const std::string_view stream : {"<stdout>:", "<stderr>:"})
        if (rest.starts_with(stream))
            return with_one_blank(line, {close + 1 + stream.size(), name});
    for (const std::string_view word : {"rank", "default"})
        if (rest.starts_with(":") && name.starts_with(word) && name.size() > word.size() &&
            std::all_of(name.begin() + static_cast<std::ptrdiff_t>(word.size()), name.end(), digit))
            return with_one_blank(line, {close + 2, name});
    return std::nullopt;
}

/// A line of `ip -o`, whose number is the interface's.
bool one_line_interface(std::string_view rest) {
    const std::vector<std::string_view> word = words(rest.substr(0, 256));
    if (word.size() < 2) return false;
    return word[1].starts_with("inet") || (word[0].ends_with(":") && word[1].starts_with("<"));
}

/// `0: ` of srun -l, also right-aligned.
std::optional<Prefix> task_number(std::string_view line) {
    std::size_t at = 0;
    while (at < line.size() && at < 6 && line[at] == ' ') ++at;
    const std::size_t start = at;
    while (at < line.size() && at < start + 7 && digit(line[at])) ++at;
    if (at == start || at >= line.size() || line[at] != ':') return std::nullopt;
    const std::string_view name = line.substr(start, at - start);
    ++at;
    if (at < line.size() && line[at] != ' ') return std::nullopt;
    if (one_line_interface(line.substr(at))) return std::nullopt;
    return with_one_blank(line, {at, name});
}

/// `[0] ` of MPICH.
std::optional<Prefix> task_in_brackets(std::string_view line) {
    std::size_t at = 1;
    while (at < line.size() && at < 8 && digit(line[at])) ++at;
    if (at < 2 || line[0] != '[' || !line.substr(at).starts_with("] ")) return std::nullopt;
    return Prefix{at + 2, line.substr(1, at - 1)};
}

/// `node-a: ` of pdsh, `worker-1  | ` of docker compose.
std::optional<Prefix> host(std::string_view line) {
    std::size_t at = 0;
    while (at < line.size() && at < kLongestName && name_character(line[at])) ++at;
    const std::string_view name = line.substr(0, at);
    if (std::all_of(name.begin(), name.end(), digit)) return std::nullopt;
    if (line.substr(at).starts_with(": ") || line.substr(at) == ":")
        return with_one_blank(line, {at + 1, name});
    while (at < line.size() && at < 2 * kLongestName && line[at] == ' ') ++at;
    if (at == name.size() || !line.substr(at).starts_with("|")) return std::nullopt;
    return with_one_blank(line, {at + 1, name});
}

/// `[pod/NAME/CONTAINER] ` of kubectl.
std::optional<Prefix> pod(std::string_view line) {
    if (!line.starts_with("[pod/")) return std::nullopt;
    const std::size_t close = line.substr(0, 4 * kLongestName).find("] ");
    if (close == std::string_view::npos) return std::nullopt;
    return Prefix{close + 2, line.substr(1, close - 1)};
}

/// Whether `text` starts with `shape`, in which 0 stands for a digit.
bool has_shape(std::string_view text, std::string_view shape) {
    if (text.size() < shape.size()) return false;
    for (std::size_t i = 0; i < shape.size(); ++i)
        if (shape[i] == '0' ? !digit(text[i]) : shape[i] != text[i]) return false;
    return true;
}

/// A date and a time, or a time, also in square brackets.
std::optional<Prefix> time_stamp(std::string_view line) {
    const bool bracket = line.starts_with("[");
    std::size_t at = bracket ? 1 : 0;
    for (const std::string_view date : {"0000-00-00T", "0000-00-00 ", "0000/00/00 "})
        if (has_shape(line.substr(at), date)) {
            at += date.size();
            break;
        }
    if (!has_shape(line.substr(at), "00:00:00")) return std::nullopt;
    at += 8;
    if (at < line.size() && (line[at] == '.' || line[at] == ',')) {
        std::size_t fraction = at + 1;
        while (fraction < line.size() && fraction < at + 10 && digit(line[fraction])) ++fraction;
        at = fraction;
    }
    if (has_shape(line.substr(at), "Z")) at += 1;
    if (has_shape(line.substr(at), "+00:00") || has_shape(line.substr(at), "-00:00")) at += 6;
    if (bracket) {
        if (!line.substr(at).starts_with("]")) return std::nullopt;
        ++at;
    }
    if (at < line.size() && line[at] == ':') ++at;
    if (at < line.size() && !blank(line[at])) return std::nullopt;
    return with_one_blank(line, {at, {}});
}

/// `> ` of mails.
std::optional<Prefix> quotation(std::string_view line) {
    if (!line.starts_with(">")) return std::nullopt;
    return with_one_blank(line, {1, {}});
}

class Stripper {
  public:
    explicit Stripper(Lines& lines) : lines_(lines) {}

    void cut(PastedLine& line, const Prefix& prefix) {
        if (!prefix.name.empty()) line.source = source(std::string(prefix.name));
        line.offset += prefix.length;
        line.text.erase(0, prefix.length);
    }

    /// Cuts the prefix off every line of the block if all have it. True when it was done.
    bool cut_block(std::span<PastedLine> block, Match match) {
        std::set<std::string_view> names;
        for (const PastedLine& line : block) {
            const auto prefix = match(line.text);
            if (!prefix) return false;
            names.insert(prefix->name);
        }
        if (block.size() < 2 || names.size() * 2 > block.size()) return false;
        for (PastedLine& line : block) cut(line, *match(line.text));
        return true;
    }

  private:
    std::size_t source(const std::string& name) {
        const auto [found, added] = known_.try_emplace(name, lines_.sources.size());
        if (added) lines_.sources.push_back(name);
        return found->second;
    }

    Lines& lines_;
    std::map<std::string, std::size_t> known_;
};

bool empty_line(const PastedLine& line) {
    return trim(line.text).empty();
}

void strip_quotation(Lines& lines, Stripper& stripper) {
    for (int level = 0; level < kMostNested; ++level) {
        bool any = false;
        for (const PastedLine& line : lines.lines) {
            if (empty_line(line)) continue;
            if (!quotation(line.text)) return;
            any = true;
        }
        if (!any) return;
        for (PastedLine& line : lines.lines)
            if (const auto prefix = quotation(line.text)) stripper.cut(line, *prefix);
    }
}

void strip_block(std::span<PastedLine> block, Stripper& stripper) {
    constexpr std::array<Match, 5> kKinds = {time_stamp, pod, task_number, task_in_brackets, host};
    for (int level = 0; level < kMostNested; ++level)
        if (std::none_of(kKinds.begin(), kKinds.end(),
                         [&](Match kind) { return stripper.cut_block(block, kind); }))
            return;
}

}  // namespace

void strip_prefixes(Lines& lines) {
    Stripper stripper(lines);
    strip_quotation(lines, stripper);
    for (PastedLine& line : lines.lines)
        if (const auto prefix = bracketed(line.text)) stripper.cut(line, *prefix);
    std::size_t first = 0;
    for (std::size_t i = 0; i <= lines.lines.size(); ++i) {
        if (i < lines.lines.size() && !empty_line(lines.lines[i])) continue;
        strip_block(std::span(lines.lines).subspan(first, i - first), stripper);
        first = i + 1;
    }
}

}  // namespace toporun::detect
