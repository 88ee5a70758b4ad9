#pragma once

#include <string>
#include <string_view>

namespace toporun::fuzz {

/// A tar of the files that a text names, so that trees can be fuzzed as text. A line "@PATH" begins
/// a file, what follows up to the next one is its content; "@PATH -> TARGET" is a symbolic link.
/// Bytes of a binary file are written "\xHH".
std::string tar_of_tree_text(std::string_view text);

}  // namespace toporun::fuzz
