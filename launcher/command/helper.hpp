#pragma once

#include <optional>
#include <string>
#include <vector>

namespace toporun::launcher {

struct HelperAnswer {
    std::string text;           ///< what it prints on standard output, at most 4 KiB
    std::optional<int> status;  ///< its exit status; nothing where it did not start, was late (2 s)
                                ///< or was ended by a signal
};

/// Runs a short program, which is ended after 2 s; standard input and error are /dev/null. `words`:
/// its path and arguments.
HelperAnswer ask_helper(const std::vector<std::string>& words);

/// Its text alone; "" also when it cannot be started.
std::string helper_output(const std::vector<std::string>& words);

}  // namespace toporun::launcher
