#pragma once

#include <span>
#include <string_view>

namespace toporun::launcher::failures {

/// A file of this directory that is compiled in.
struct EmbeddedFile {
    std::string_view name;  ///< "failures/classes.toml"
    std::string_view text;
};

/// All of them, in the order of CMakeLists.txt.
std::span<const EmbeddedFile> embedded_files();

}  // namespace toporun::launcher::failures
