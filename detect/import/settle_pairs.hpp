#pragma once

#include "detect/machine.hpp"

namespace toporun::detect {

/// Makes the matrices of GPU pairs symmetric, as Machine promises. A table tells each pair twice;
/// where one half is cut off or damaged the other one counts, where they contradict each other the
/// worse one does: the farther path, the smaller number of links, the refusal. That is noted.
void settle_pairs(Machine& machine);

}  // namespace toporun::detect
