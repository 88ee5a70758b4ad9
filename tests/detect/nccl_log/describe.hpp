#pragma once

#include <string>

#include "detect/nccl_log/line.hpp"

namespace toporun::tests {

/// What was read in a line, every field in words: the event, else the one of the subsystem GRAPH,
/// else "unknown".
std::string describe(const detect::nccl_log::Line& line);

}  // namespace toporun::tests
