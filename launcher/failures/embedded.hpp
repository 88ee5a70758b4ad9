#pragma once

#include <span>

#include "base/embedded_file.hpp"

namespace toporun::launcher::failures {

/// All of them, in the order of CMakeLists.txt.
std::span<const EmbeddedFile> embedded_files();

}  // namespace toporun::launcher::failures
