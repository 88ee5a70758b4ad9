#pragma once

#include "detect/machine.hpp"

namespace toporun::detect {

/// What follows from facts that several texts tell together: whether root ports redirect, by the
/// IOMMU's mode; the CPU's architecture by GPUs that are built with it.
void settle_joined(Machine& machine);

}  // namespace toporun::detect
