#pragma once

#include <optional>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// Whether every condition of `row` holds, by facts that are known. Then the visible GPUs that
/// count, positions in Machine::gpus; none for a row without GPUs on a machine without.
std::optional<std::vector<int>> match_known_bad(const profiles::KnownBadRow& row,
                                                const Inputs& inputs);

/// The row by which a stock driver refuses peer access over PCIe to a GPU, position in
/// Machine::gpus; nullptr: none. For pairs whose peer access is not known, as an assumption.
const profiles::StockRefusal* stock_refusal(const Inputs& inputs, int gpu);

}  // namespace toporun::env
