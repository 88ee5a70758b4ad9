#pragma once

#include <string>

#include "launcher/command/launch.hpp"

namespace toporun::launcher {

/// Finds what is installed beside the running program: its own directory (a build tree), else
/// ../libexec/toporun and ../lib/toporun. A missing part has an empty path.
Installed find_installed();

}  // namespace toporun::launcher
