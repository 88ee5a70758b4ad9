#pragma once

#include <span>
#include <string_view>

#include "base/embedded_file.hpp"

namespace toporun::profiles {

inline constexpr std::string_view kKnownBadFile = "profiles/known-bad.toml";
inline constexpr std::string_view kLoaderOptionsFile = "profiles/loader-options.toml";

/// All of them, in the order of CMakeLists.txt.
std::span<const EmbeddedFile> embedded_files();

}  // namespace toporun::profiles
