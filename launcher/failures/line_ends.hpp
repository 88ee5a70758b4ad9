#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace toporun::launcher::failures {

/// Where the lines of `block` end, in one pass: the positions of the line feeds. Returns whether
/// the block holds a byte that the readers of lines take out: an escape, a carriage return, a NUL.
/// `block` has less than 4 GiB.
bool find_line_ends(std::string_view block, std::vector<std::uint32_t>& ends);

/// Whether the text holds such a byte.
bool has_control(std::string_view text);

}  // namespace toporun::launcher::failures
