#pragma once

#include <compare>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace toporun {

/// The candidate closest to `word` by Levenshtein distance, if that is at most a third of the
/// length of `word` (at least one edit); nothing otherwise. Ties: the first candidate.
std::optional<std::string> closest_word(std::string_view word,
                                        std::span<const std::string> candidates);

/// `text` with every byte that a terminal could act on (control characters, escape sequences,
/// invalid UTF-8, C1 controls) replaced by `\xNN`. Tabs and newlines too: the result is one line.
std::string printable(std::string_view text);

/// `words` quoted for POSIX sh and joined by blanks, so that the line can be pasted into a shell.
std::string shell_line(std::span<const std::string> words);

/// One word quoted for POSIX sh, where it needs that; for a terminal unprintable bytes as octals.
std::string shell_word(std::string_view word);

/// `text` split at each `separator`; empty parts are kept ("a,,b" has three). "" gives one "".
std::vector<std::string> split(std::string_view text, char separator);

/// `parts` joined by `separator`.
std::string join(std::span<const std::string> parts, std::string_view separator);

/// `text` without leading and trailing blanks, tabs and line ends.
std::string_view trim(std::string_view text);

/// Names by what is before the number at their end, then by that number: mlx5_2 before mlx5_10.
/// Leading zeros do not count.
std::weak_ordering compare_by_number(std::string_view a, std::string_view b);

/// The integer that `text` holds, all of it, base 10; nothing for anything else.
std::optional<long long> to_integer(std::string_view text);

/// `bytes` with a binary unit: "64 MiB", "1.5 GiB", "512 B".
std::string format_bytes(unsigned long long bytes);

}  // namespace toporun
