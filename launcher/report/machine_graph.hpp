#pragma once

#include <string>

#include "detect/machine.hpp"

/// The topology as a picture: what `toporun detect --graph` prints.
namespace toporun::launcher {

/// A graph for Graphviz (`dot -Tsvg`): NUMA nodes as clusters, PCIe switches, GPUs, NICs, NVSwitch,
/// edges with NCCL's path type, number of NVLinks and GB/s. The model holds no PCIe switches: what
/// reaches each other by PIX shares one. All text is quoted.
std::string machine_dot(const detect::Machine& machine);

/// What lines are drawn with.
enum class Strokes {
    ascii,  ///< + - |
    box     ///< U+2500 and following, for UTF-8 locales
};

/// The same drawn in text, at most 100 columns wide where the longest line of a device allows it.
/// Safe for a terminal.
std::string machine_drawing(const detect::Machine& machine, Strokes strokes);

}  // namespace toporun::launcher
