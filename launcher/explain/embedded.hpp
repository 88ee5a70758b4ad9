#pragma once

#include <span>
#include <string_view>

namespace toporun::launcher::explain {

/// A file of this directory that is compiled in.
struct EmbeddedFile {
    std::string_view name;  ///< "explain/events.toml"
    std::string_view text;
};

/// All of them, in the order of CMakeLists.txt.
std::span<const EmbeddedFile> embedded_files();

}  // namespace toporun::launcher::explain
