#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/files.hpp"

namespace toporun::detect {

/// The Python interpreter that `program` is, or that its first line names; nothing for anything
/// else.
/// `#!/usr/bin/env NAME` is not followed.
std::optional<std::string> python_interpreter(const Files& files, const std::string& program);

/// Directories in which the interpreter looks for packages, in its order, without starting it:
/// virtual environments (pyvenv.cfg), conda prefixes, Debian's dist-packages, the user site below
/// `home`.
std::vector<std::string> site_packages(const Files& files, const std::string& interpreter,
                                       const std::string& home);

}  // namespace toporun::detect
