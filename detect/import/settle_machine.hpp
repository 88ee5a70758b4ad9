#pragma once

#include "detect/machine.hpp"

namespace toporun::detect {

/// Gives what an importer read the properties that every reader of a Machine relies on: pairs are
/// symmetric (settle_pairs), text is safe to print and valid UTF-8, no two GPUs have the same
/// index, bus id or UUID (of damaged lists the first has it, which is noted), and figures are such
/// that a machine file may hold them.
void settle_machine(Machine& machine);

}  // namespace toporun::detect
