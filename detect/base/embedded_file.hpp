#pragma once

#include <string_view>

namespace toporun {

/// A file of the source tree that is compiled in (profiles/embed.cmake).
struct EmbeddedFile {
    std::string_view name;  ///< "profiles/hgx-h100.toml"
    std::string_view text;
};

}  // namespace toporun
