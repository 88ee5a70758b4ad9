#include "base/text.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <numeric>
#include <utility>

namespace toporun {
namespace {

std::size_t edit_distance(std::string_view a, std::string_view b) {
    std::vector<std::size_t> row(b.size() + 1);
    std::iota(row.begin(), row.end(), std::size_t{0});
    for (std::size_t i = 1; i <= a.size(); ++i) {
        std::size_t diagonal = row[0];
        row[0] = i;
        for (std::size_t j = 1; j <= b.size(); ++j) {
            const std::size_t substitute = diagonal + (a[i - 1] == b[j - 1] ? 0 : 1);
            diagonal = row[j];
            row[j] = std::min({row[j] + 1, row[j - 1] + 1, substitute});
        }
    }
    return row.back();
}

/// Length of the valid UTF-8 sequence at the start of `text` that a terminal may see, 0 if none.
std::size_t printable_sequence(std::string_view text) {
    const auto byte = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
    const unsigned char first = byte(0);
    if (first < 0x80) return first >= 0x20 && first != 0x7f ? 1 : 0;
    const std::size_t length = first >= 0xc2 && first <= 0xdf   ? 2
                               : first >= 0xe0 && first <= 0xef ? 3
                               : first >= 0xf0 && first <= 0xf4 ? 4
                                                                : 0;
    if (length == 0 || text.size() < length) return 0;
    unsigned code = first & (0xffu >> (length + 1));
    for (std::size_t i = 1; i < length; ++i) {
        if ((byte(i) & 0xc0) != 0x80) return 0;
        code = code << 6 | (byte(i) & 0x3fu);
    }
    const bool overlong = (length == 3 && code < 0x800) || (length == 4 && code < 0x10000);
    const bool surrogate = code >= 0xd800 && code <= 0xdfff;
    const bool c1_control = code < 0xa0;
    // Line and paragraph separators, marks and overrides of writing direction, byte order mark.
    const bool format_control = code == 0x061c || (code >= 0x200b && code <= 0x200f) ||
                                (code >= 0x2028 && code <= 0x202e) ||
                                (code >= 0x2060 && code <= 0x206f) || code == 0xfeff;
    return overlong || surrogate || c1_control || format_control || code > 0x10ffff ? 0 : length;
}

}  // namespace

std::optional<std::string> closest_word(std::string_view word,
                                        std::span<const std::string> candidates) {
    const std::string* best = nullptr;
    std::size_t best_distance = std::max<std::size_t>(1, word.size() / 3) + 1;
    for (const std::string& candidate : candidates) {
        const std::size_t distance = edit_distance(word, candidate);
        if (distance < best_distance) best = &candidate, best_distance = distance;
    }
    if (best == nullptr) return std::nullopt;
    return *best;
}

std::string printable(std::string_view text) {
    std::string out;
    out.reserve(text.size());
    while (!text.empty()) {
        const std::size_t length = printable_sequence(text);
        if (length > 0) {
            out.append(text.substr(0, length));
            text.remove_prefix(length);
        } else {
            out += fmt::format("\\x{:02x}", static_cast<unsigned char>(text.front()));
            text.remove_prefix(1);
        }
    }
    return out;
}

namespace {

/// "$(printf '...')", all of it printable: POSIX sh has no $'...'. The command substitution takes
/// away line ends at the end: they stand behind it.
std::string printf_word(std::string_view word) {
    const std::size_t end = word.find_last_not_of('\n') + 1;
    std::string out;
    for (std::string_view rest = word.substr(0, end); !rest.empty();) {
        const std::size_t length = std::max<std::size_t>(1, printable_sequence(rest));
        const char c = rest.front();
        // Also an option's dash, and what an interactive shell takes for its history.
        const bool as_number =
            printable_sequence(rest) == 0 || c == '\'' || c == '!' || (c == '-' && out.empty());
        if (as_number)
            out += fmt::format("\\{:03o}", static_cast<unsigned char>(c));
        else if (c == '%' || c == '\\')
            out.append(2, c);
        else
            out.append(rest.substr(0, length));
        rest.remove_prefix(length);
    }
    out = out.empty() ? "" : "\"$(printf '" + out + "')\"";
    if (end < word.size()) out += "'" + std::string(word.substr(end)) + "'";
    return out;
}

}  // namespace

std::string shell_word(std::string_view word) {
    constexpr std::string_view kPlain =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
    if (!word.empty() && word.find_first_not_of(kPlain) == std::string_view::npos)
        return std::string(word);
    if (printable(word) != word) return printf_word(word);
    std::string out = "'";
    for (const char c : word) {
        if (c == '\'')
            out += "'\\''";
        else
            out += c;
    }
    return out + "'";
}

std::string shell_line(std::span<const std::string> words) {
    std::string out;
    for (const std::string& word : words) {
        if (!out.empty()) out += ' ';
        out += shell_word(word);
    }
    return out;
}

std::vector<std::string> split(std::string_view text, char separator) {
    std::vector<std::string> parts;
    for (;;) {
        const std::size_t at = text.find(separator);
        parts.emplace_back(text.substr(0, at));
        if (at == std::string_view::npos) return parts;
        text.remove_prefix(at + 1);
    }
}

std::string join(std::span<const std::string> parts, std::string_view separator) {
    return fmt::format("{}", fmt::join(parts, separator));
}

std::string_view trim(std::string_view text) {
    constexpr std::string_view kBlank = " \t\r\n\f\v";
    const std::size_t first = text.find_first_not_of(kBlank);
    if (first == std::string_view::npos) return {};
    return text.substr(first, text.find_last_not_of(kBlank) - first + 1);
}

std::weak_ordering compare_by_number(std::string_view a, std::string_view b) {
    const auto stem = [](std::string_view name) {
        return name.find_last_not_of("0123456789") + 1;  // npos + 1 = 0
    };
    const std::size_t of_a = stem(a), of_b = stem(b);
    if (const int stems = a.substr(0, of_a).compare(b.substr(0, of_b)); stems != 0)
        return stems <=> 0;
    const auto digits = [](std::string_view name, std::size_t from) {
        const std::size_t begin = std::min(name.find_first_not_of('0', from), name.size());
        return std::pair(name.size() - begin, name.substr(begin));
    };
    return digits(a, of_a) <=> digits(b, of_b);
}

std::optional<long long> to_integer(std::string_view text) {
    long long value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size() || text.empty())
        return std::nullopt;
    return value;
}

std::string format_bytes(unsigned long long bytes) {
    constexpr std::string_view kUnits[] = {"B", "KiB", "MiB", "GiB", "TiB", "PiB"};
    auto value = static_cast<double>(bytes);
    std::size_t unit = 0;
    while (value >= 1024 && unit + 1 < std::size(kUnits)) value /= 1024, ++unit;
    const std::string number = fmt::format("{:.1f}", value);
    const std::string_view shown(number);
    return fmt::format("{} {}", shown.ends_with(".0") ? shown.substr(0, shown.size() - 2) : shown,
                       kUnits[unit]);
}

}  // namespace toporun
