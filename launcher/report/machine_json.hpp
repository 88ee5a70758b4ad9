#pragma once

#include <string>

#include "detect/machine.hpp"

namespace toporun::launcher {

/// The machine for programs, schema toporun.machine/1 (docs/machine.schema.json): every fact, null
/// where it is not known. Indented by 2, with a last line end; bytes that are no UTF-8 are replaced
/// by U+FFFD.
std::string machine_json(const detect::Machine& machine);

}  // namespace toporun::launcher
