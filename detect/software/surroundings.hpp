#pragma once

#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills container, virtual_machine and of Software container_kind, hypervisor and scheduler. Call
/// it when vendor and product are known. `variables` as in Sources.
void detect_surroundings(const Files& files, const std::vector<std::string>& variables,
                         Machine& machine);

}  // namespace toporun::detect
