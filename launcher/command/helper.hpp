#pragma once

#include <string>
#include <vector>

namespace toporun::launcher {

/// What a short program prints on standard output, at most 4 KiB; "" when it cannot be started. It
/// is ended after 2 s; standard input and error are /dev/null. `words`: its path and arguments.
std::string helper_output(const std::vector<std::string>& words);

}  // namespace toporun::launcher
