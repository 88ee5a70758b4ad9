#pragma once

#include <string_view>

namespace toporun::launcher::failures {

/// A file of Python itself or of an installed package, none of the user's program.
inline bool is_library(std::string_view path) {
    return path.find("/site-packages/") != path.npos || path.find("/dist-packages/") != path.npos ||
           path.find("/lib/python3") != path.npos || path.starts_with('<');
}

}  // namespace toporun::launcher::failures
