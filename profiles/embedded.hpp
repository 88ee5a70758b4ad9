#pragma once

#include <span>
#include <string_view>

namespace toporun::profiles {

/// A file of this directory that is compiled in.
struct EmbeddedFile {
    std::string_view name;  ///< "profiles/hgx-h100.toml"
    std::string_view text;
};

inline constexpr std::string_view kKnownBadFile = "profiles/known-bad.toml";
inline constexpr std::string_view kLoaderOptionsFile = "profiles/loader-options.toml";

/// All of them, in the order of CMakeLists.txt.
std::span<const EmbeddedFile> embedded_files();

}  // namespace toporun::profiles
