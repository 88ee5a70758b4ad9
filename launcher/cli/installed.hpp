#pragma once

#include <string>

#include "launcher/command/launch.hpp"

namespace toporun::launcher {

/// Finds what is installed with the running program: the shim in its own directory, the plugin
/// there (a build tree) or in the library directory. A missing part has an empty path.
Installed find_installed();

}  // namespace toporun::launcher
