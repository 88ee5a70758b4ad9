#pragma once

#include <optional>
#include <vector>

#include "env/doctor/check.hpp"

namespace toporun::env::doctor {

/// Whether every condition of `row` holds, by facts that are known. Then the visible GPUs that
/// count, positions in Machine::gpus; none for a row without GPUs on a machine without.
std::optional<std::vector<int>> match_known_bad(const profiles::KnownBadRow& row,
                                                const Patient& patient);

}  // namespace toporun::env::doctor
