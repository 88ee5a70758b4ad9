#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills container, virtual_machine and of Software container_kind, hypervisor and scheduler. Call
/// it when vendor and product are known. `variables` as in Sources.
void detect_surroundings(const Files& files, const std::vector<std::string>& variables,
                         Machine& machine);

/// Whether the name is one of those that detect_surroundings looks for among `variables`.
bool tells_surroundings(std::string_view variable);

}  // namespace toporun::detect
