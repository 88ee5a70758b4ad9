#pragma once

#include <string>
#include <string_view>

#include "detect/machine.hpp"

namespace toporun::detect {

inline constexpr std::string_view kMachineSchema = "toporun.machine/1";

/// The machine as TOML (docs/machine.md). Unknown facts are left out; in a matrix they are "".
/// A list of GPUs or NICs that is known to be empty is written as `gpus = []`. Figures that no
/// machine can have (a speed of 0, not a number) are left out too.
std::string machine_to_toml(const Machine& machine);

/// Reads what machine_to_toml writes, or a file written by hand in which any key may be left out:
/// without `gpus` Machine::gpus_known is false, likewise for `nics`.
/// Throws Error with file:line:column for a syntax fault, an unknown key (with a suggestion), a
/// wrong type, or a contradiction (matrix not square, not symmetric, index used twice, sizes that
/// differ).
Machine machine_from_toml(std::string_view text, std::string_view file);

}  // namespace toporun::detect
