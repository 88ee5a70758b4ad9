#pragma once

#include <span>
#include <string_view>
#include <vector>

#include "detect/import/import.hpp"
#include "detect/import/lines.hpp"

/// The seam between the formats: one Importer each, all listed in import.cpp.
namespace toporun::detect {

/// What one importer read out of one capture.
struct Reading {
    /// Partial: gpus_known and nics_known say what it speaks of. GPUs without gpus_known are a list
    /// of what is on the bus: facts for the GPUs that another text knows.
    Machine machine;
    /// Per line of the text: this importer understood it. Lines that nobody understood are told in
    /// a note. Empty: the whole text.
    std::vector<bool> understood;
};

/// One format. Both functions are pure and bounded in time and memory for any input.
struct Importer {
    std::string_view format;  ///< "nvidia-smi topo -m"
    /// Whether the text holds the format, anywhere: reports paste several outputs one after the
    /// other, and each importer takes its own.
    bool (*recognise)(const Lines& lines);
    /// Only called on what was recognised. Throws Error (where: file:line:column, what was
    /// expected) when nothing useful can be read; damage that leaves something is repaired or
    /// noted.
    Reading (*read)(const Lines& lines);
    /// A job log in which several tasks or hosts speak is given whole; otherwise only the lines of
    /// the first one are.
    bool every_source = false;
};

/// All of them, in the order in which they are tried.
std::span<const Importer> importers();

}  // namespace toporun::detect
