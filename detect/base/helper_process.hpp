#pragma once

#include <chrono>
#include <cstddef>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace toporun {

/// What a helper process left behind.
struct HelperResult {
    std::string bytes;          ///< what it wrote, also when it did not finish; never to be trusted
    bool finished = false;      ///< it wrote everything and ended with status 0
    std::optional<int> status;  ///< its exit status, where it ended by itself in time
    std::string failure;        ///< why not: "no answer within 10000 ms", "ended by signal 11"
};

/// Sends bytes to the parent.
using HelperOutput = std::function<void(std::string_view)>;

/// Runs `work` in a forked process and returns the bytes it sends. The helper keeps no inherited
/// descriptor (0 to 2 are /dev/null), has a session of its own, default signal dispositions and no
/// core file, and dies with its parent. After `limit` it gets SIGKILL and is not waited for: one
/// that is stuck in the kernel is abandoned. The calling process must have one thread.
HelperResult run_helper(const std::function<void(const HelperOutput&)>& work,
                        std::chrono::milliseconds limit, std::size_t most_bytes);

/// Runs a program in the same way: what it writes on standard output is its answer, standard input
/// and error are /dev/null. `words`: its path and arguments. One that prints more than `most_bytes`
/// or is late is ended; what it has written by then is there.
HelperResult run_program(const std::vector<std::string>& words,
                         std::chrono::milliseconds limit = std::chrono::seconds(2),
                         std::size_t most_bytes = 4096);

}  // namespace toporun
