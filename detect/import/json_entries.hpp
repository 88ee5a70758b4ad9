#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "detect/import/lines.hpp"

/// Finds the lists of objects that `ip -j` and `rdma -j` print, in a text that may hold more, may
/// be wrapped by a terminal and may be cut.
namespace toporun::detect {

/// One `{...}` of a list, as text.
struct JsonEntry {
    std::string text;  ///< without line breaks: JSON needs none, and a terminal's break up words
    std::size_t first_line = 0;  ///< index into Lines::lines
    std::size_t column = 0;      ///< bytes of PastedLine::text before it
    /// Where each further line begins in `text`: a byte's place can be told.
    std::vector<std::size_t> line_starts;
    bool complete =
        true;  ///< false: the text ends, or is no JSON any more, before the bracket closes
};

struct JsonEntries {
    std::vector<JsonEntry> entries;
    std::vector<bool> understood;  ///< lines that belong to a list
};

/// Whether a list begins at a line: `[` and then `{`, on the same or the next line.
bool has_json_list(const Lines& lines);

/// The entries of all lists, without empty ones. An entry is at most 1 MiB and 64 brackets deep;
/// what is beyond is incomplete.
JsonEntries json_entries(const Lines& lines);

/// Error at byte `at` of an entry.
Error json_error(const Lines& lines, const JsonEntry& entry, std::size_t at,
                 const std::string& what);

}  // namespace toporun::detect
