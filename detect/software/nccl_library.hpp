#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/detect.hpp"
#include "detect/files.hpp"
#include "detect/software/bounded_reader.hpp"

namespace toporun::detect {

struct NcclLibrary {
    std::optional<std::string> version;  ///< "2.28.9"
    std::optional<std::string> file;     ///< what the version belongs to
    std::vector<NcclPlugin> plugins;     ///< net, tuner, env and profiler plugins NCCL could load
    std::string note;  ///< why the version is unknown, or of another program; "" otherwise
    bool plugins_partial = false;  ///< the time was over before all directories were looked through
};

/// Finds the NCCL that the program will load without starting Python and without loading anything:
/// LD_PRELOAD, LD_LIBRARY_PATH, the interpreter's site-packages, the program itself (linked
/// statically), the loader's cache, system directories. Not deep: at most 1 MiB is read in all, and
/// after 20 ms nothing more, the plugins included. What a search of a library found, or that it
/// found nothing, is kept in Sources::cache_directory.
NcclLibrary find_nccl(const Sources& sources, const Files& files);

/// "2.28.9" out of "NCCL version 2.28.9+cuda13.0" or "NCCL version 2.28.9 compiled with CUDA 13.0".
std::optional<std::string> nccl_version_in_text(std::string_view text);

/// The version string inside an ELF file: in the first MiB of its read-only data, or anywhere when
/// `deep`, as far as the reader goes. Nothing for other files.
std::optional<std::string> nccl_version_in_elf(BoundedReader& reader, const std::string& path,
                                               bool deep);

}  // namespace toporun::detect
