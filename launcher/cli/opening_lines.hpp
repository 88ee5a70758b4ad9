#pragma once

#include <string>
#include <vector>

#include "launcher/cli/prepare.hpp"

namespace toporun::launcher {

/// Lines for the start of a run: machine, choices, then problems and findings; five at most.
std::vector<std::string> opening_lines(const Prepared& prepared, const std::string& run_directory);

}  // namespace toporun::launcher
