#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detect/import/merge.hpp"
#include "detect/machine.hpp"

/// Captures: what people paste into reports (`nvidia-smi topo -m`, `ip addr`, topology XML, ...)
/// read into the same Machine that detection gives. The format is recognised from the content.
namespace toporun::detect {

/// One text and where it came from.
struct Capture {
    std::string name;  ///< file name for messages
    std::string text;
};

/// The machine that all captures together describe. Throws Error with file:line:column and what was
/// expected when one of them is not understood. What a capture leaves open is unknown
/// (Machine::gpus_known, Machine::nics_known, empty facts); lines that were passed over, cut or
/// repaired are told in Machine::notes.
Machine import_captures(std::span<const Capture> captures);

/// The same for one of several captures: a part for join_captures alone, which may hold facts for
/// what another part tells of. Throws Error likewise.
Machine import_capture(const Capture& capture);

/// The machine that the parts describe together: captures, trees and saved machines.
Machine join_captures(std::vector<NamedMachine> parts);

/// Names of the formats that are understood, for help and messages.
std::vector<std::string> capture_formats();

}  // namespace toporun::detect
