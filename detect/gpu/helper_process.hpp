#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>

namespace toporun::detect {

/// What a helper process left behind.
struct HelperResult {
    std::string bytes;      ///< what it wrote, at most `most_bytes`; never to be trusted
    bool finished = false;  ///< it wrote everything and ended with status 0
    std::string failure;    ///< why not: "no answer within 10000 ms", "ended by signal 11"
};

/// Runs `work` in a forked process and returns the bytes it returns. The helper keeps no inherited
/// descriptor (0 to 2 are /dev/null), has a session of its own, default signal dispositions and no
/// core file, and dies with its parent. After `limit` it gets SIGKILL and is not waited for: one
/// that is stuck in the kernel is abandoned. The calling process must have one thread.
HelperResult run_helper(const std::function<std::string()>& work, std::chrono::milliseconds limit,
                        std::size_t most_bytes);

}  // namespace toporun::detect
