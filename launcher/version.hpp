#pragma once

namespace toporun::launcher {

/// toporun's version, from CMakeLists.txt.
inline constexpr const char* kVersion = TOPORUN_VERSION;

}  // namespace toporun::launcher
