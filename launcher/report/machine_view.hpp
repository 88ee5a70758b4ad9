#pragma once

#include <string>

#include "detect/machine.hpp"

namespace toporun::launcher {

/// One line: "8 x H100 80GB (NVSwitch), 2 x 56 cores, 8 x 400 Gb/s InfiniBand, NCCL 2.28.9";
/// without GPUs "no GPU; 1 x 2 cores, ...". Safe for a terminal, no line end.
std::string machine_line(const detect::Machine& machine);

/// What `toporun detect` prints: machine line, GPUs, path matrix, interfaces, CPUs by NUMA node,
/// limits, software, notes. Safe for a terminal.
std::string machine_view(const detect::Machine& machine);

}  // namespace toporun::launcher
