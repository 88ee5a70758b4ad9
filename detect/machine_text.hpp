#pragma once

#include "detect/machine.hpp"

namespace toporun::detect {

/// Makes every text of the machine safe to print and valid UTF-8 (printable()). For machines out of
/// files, whose words nobody vouches for.
void make_printable(Machine& machine);

}  // namespace toporun::detect
