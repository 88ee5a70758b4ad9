#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "env/plan.hpp"

namespace toporun::env {

/// Columns of a line of explain_lines(): 100 with the prefix "toporun: " before it.
inline constexpr std::size_t kExplainWidth = 91;

/// The whole plan for --explain, by subject: each decision with its value and origin, why, what was
/// seen on this machine and what happens without it; pairs, ranks, what is no variable (binding,
/// log, measuring); the findings, gravest first. Lines carry no prefix and no line end, are
/// printable whatever the machine's names hold, and are wrapped between words.
std::vector<std::string> explain_lines(const Plan& plan);

/// `text` in lines of at most `width` columns, broken between words only: the first starts with
/// `first`, all others with as many blanks. A word that is longer has a line of its own.
std::vector<std::string> wrapped(std::string_view first, std::string_view text, std::size_t width);

}  // namespace toporun::env
