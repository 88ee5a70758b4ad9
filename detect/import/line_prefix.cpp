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

std::string_view indented(std::string_view line) {
    constexpr std::size_t kMostIndent = 8;
    const std::size_t start = std::min(line.find_first_not_of(" \t"), line.size());
    return start > kMostIndent ? std::string_view() : line.substr(start);
}

/// `> ` of mails, also indented.
std::optional<Prefix> quotation(std::string_view line) {
    const std::string_view text = indented(line);
    if (!text.starts_with(">")) return std::nullopt;
    return with_one_blank(line, {line.size() - text.size() + 1, {}});
}

/// `| ` of other mails. Lines of boxes and tables end with a mark too.
std::optional<Prefix> bar(std::string_view line) {
    const std::string_view text = indented(line), end = trim(text);
    if (!text.starts_with("|") || (end.size() > 1 && (end.ends_with("|") || end.ends_with("+"))))
        return std::nullopt;
    return with_one_blank(line, {line.size() - text.size() + 1, {}});
}

/// `     1` and a tab of `cat -n`, or two blanks once a terminal showed it.
std::optional<Prefix> line_number(std::string_view line) {
    constexpr std::size_t kWidth = 6;
    const std::size_t start = std::min(line.find_first_not_of(' '), line.size());
    std::size_t end = start;
    while (end < line.size() && end < kWidth + 1 && digit(line[end])) ++end;
    if (end != kWidth || start == end) return std::nullopt;
    const std::string_view number = line.substr(start, end - start);
    if (line.size() == end) return Prefix{end, number};
    if (line[end] == '\t') return Prefix{end + 1, number};
    if (line.substr(end).starts_with("  ")) return Prefix{end + 2, number};
    return std::nullopt;
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

/// Calls `take` with the lines of each run that `match` knows; empty lines do not end a run.
template <class Take>
void each_run(Lines& lines, Match match, const Take& take) {
    std::vector<PastedLine*> run;
    for (PastedLine& line : lines.lines) {
        if (match(line.text)) {
            run.push_back(&line);
        } else if (!empty_line(line)) {
            take(run);
            run.clear();
        }
    }
    take(run);
}

/// A mail holds lines that are not quoted as well: an answer above, a signature below. One line
/// with a mark may be a prompt.
bool strip_quotation(Lines& lines, Match match, Stripper& stripper) {
    bool any = false;
    const auto content = std::count_if(lines.lines.begin(), lines.lines.end(),
                                       [](const PastedLine& line) { return !empty_line(line); });
    each_run(lines, match, [&](const std::vector<PastedLine*>& run) {
        if (run.empty() || (run.size() < 2 && content > 1)) return;
        for (PastedLine* line : run) stripper.cut(*line, *match(line->text));
        any = true;
    });
    return any;
}

void strip_line_numbers(Lines& lines, Stripper& stripper) {
    each_run(lines, line_number, [&](const std::vector<PastedLine*>& run) {
        std::optional<long long> last;
        for (const PastedLine* line : run) {
            const auto number = to_integer(line_number(line->text)->name);
            if (!number || (last && *number != *last + 1)) return;
            last = number;
        }
        if (run.size() < 2) return;
        for (PastedLine* line : run)
            stripper.cut(*line, {line_number(line->text)->length, {}});  // no name of a task
    });
}

/// `| GPU0 | X |`: a row of a table in Markdown.
std::optional<Prefix> markdown_row(std::string_view line) {
    const std::string_view text = trim(line);
    if (text.size() < 2 || !text.starts_with("|") || !text.ends_with("|")) return std::nullopt;
    return Prefix{line.find('|') + 1, {}};
}

/// `|---|:-:|`, by which a table in Markdown is known.
bool markdown_rule(std::string_view line) {
    return line.find("---") != std::string_view::npos &&
           line.find_first_not_of("|-: \t") == std::string_view::npos;
}

/// Tables in Markdown become lines with tabs between the cells.
void strip_markdown(Lines& lines, Stripper& stripper) {
    each_run(lines, markdown_row, [&](const std::vector<PastedLine*>& run) {
        if (run.size() < 2 || !markdown_rule(run[1]->text)) return;
        run[1]->text.clear();
        for (PastedLine* line : run) {
            if (line->text.empty()) continue;
            stripper.cut(*line, *markdown_row(line->text));
            line->text.erase(line->text.rfind('|'));
            std::replace(line->text.begin(), line->text.end(), '|', '\t');
        }
    });
}

void strip_block(std::span<PastedLine> block, Stripper& stripper) {
    constexpr std::array<Match, 5> kKinds = {time_stamp, pod, task_number, task_in_brackets, host};
    for (int level = 0; level < kMostNested; ++level)
        if (std::none_of(kKinds.begin(), kKinds.end(),
                         [&](Match kind) { return stripper.cut_block(block, kind); }))
            return;
}

/// The host of a shell's prompt: "root@node-a:~# ibstat", "[me@node-a dir]$ ", "(env) me@node-a";
/// "" for other lines.
std::string_view prompt_host(std::string_view line) {
    constexpr std::size_t kLongestPrompt = 120;
    std::string_view text = trim(line.substr(0, 4 * kLongestPrompt));
    if (text.starts_with("(") && text.find(") ") < kLongestName)
        text = trim(text.substr(text.find(") ") + 2));
    if (text.starts_with("[")) text.remove_prefix(1);
    const auto name_end = [&](std::size_t from) {
        while (from < text.size() && name_character(text[from])) ++from;
        return from;
    };
    const std::size_t at = name_end(0);
    if (at == 0 || at >= text.size() || text[at] != '@') return {};
    const std::size_t end = name_end(at + 1);
    const std::string_view host = text.substr(at + 1, end - at - 1);
    if (host.empty() || host.size() > kLongestName || end >= text.size() ||
        std::string_view(": ]$#%").find(text[end]) == std::string_view::npos)
        return {};
    const std::size_t mark = text.find_first_of("$#%", end);
    const bool last = mark != std::string_view::npos && mark + 1 == text.size();
    if (mark > kLongestPrompt || (!last && text[mark + 1] != ' ')) return {};
    return host.substr(0, host.find('.'));
}

/// A container's short identifier, which docker makes its host name: the machine is the same one.
bool container_id(std::string_view host) {
    return host.size() == 12 && host.find_first_not_of("0123456789abcdef") == std::string::npos;
}

/// Prompts of several hosts: what stands below one was printed by its host.
void name_hosts(Lines& lines, Stripper& stripper) {
    if (lines.sources.size() > 1) return;
    std::set<std::string, std::less<>> hosts;
    for (const PastedLine& line : lines.lines)
        if (const std::string_view host = prompt_host(line.text);
            !host.empty() && !container_id(host))
            hosts.emplace(host);
    if (hosts.size() < 2) return;
    std::string last;
    for (PastedLine& line : lines.lines) {
        if (const std::string_view host = prompt_host(line.text);
            !host.empty() && !container_id(host))
            last = host;
        if (!last.empty()) stripper.cut(line, {0, last});
    }
}

}  // namespace

void strip_prefixes(Lines& lines) {
    Stripper stripper(lines);
    for (int level = 0; level < kMostNested; ++level)
        if (!strip_quotation(lines, quotation, stripper) && !strip_quotation(lines, bar, stripper))
            break;
    strip_line_numbers(lines, stripper);
    strip_markdown(lines, stripper);
    for (PastedLine& line : lines.lines)
        if (const auto prefix = bracketed(line.text)) stripper.cut(line, *prefix);
    std::size_t first = 0;
    for (std::size_t i = 0; i <= lines.lines.size(); ++i) {
        if (i < lines.lines.size() && !empty_line(lines.lines[i])) continue;
        strip_block(std::span(lines.lines).subspan(first, i - first), stripper);
        first = i + 1;
    }
    name_hosts(lines, stripper);
}

}  // namespace toporun::detect
