#pragma once

#include <string>
#include <string_view>

#include "detect/machine.hpp"

namespace toporun::detect {

inline constexpr std::string_view kMachineSchema = "toporun.machine/1";

/// The machine as TOML (docs/machine.md). Unknown facts are left out; in a matrix they are "".
std::string machine_to_toml(const Machine& machine);

/// Reads what machine_to_toml writes, or a file written by hand in which any key may be left out.
/// Throws Error with file:line:column for a syntax fault, an unknown key (with a suggestion), a
/// wrong type, or a contradiction (matrix not square, not symmetric, index used twice, sizes that
/// differ).
Machine machine_from_toml(std::string_view text, std::string_view file);

}  // namespace toporun::detect
