#pragma once

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>

namespace toporun {

/// What a helper process left behind.
struct HelperResult {
    std::string bytes;      ///< what it wrote, also when it did not finish; never to be trusted
    bool finished = false;  ///< it wrote everything and ended with status 0
    std::string failure;    ///< why not: "no answer within 10000 ms", "ended by signal 11"
};

/// Sends bytes to the parent.
using HelperOutput = std::function<void(std::string_view)>;

/// Runs `work` in a forked process and returns the bytes it sends. The helper keeps no inherited
/// descriptor (0 to 2 are /dev/null), has a session of its own, default signal dispositions and no
/// core file, and dies with its parent. After `limit` it gets SIGKILL and is not waited for: one
/// that is stuck in the kernel is abandoned. The calling process must have one thread.
HelperResult run_helper(const std::function<void(const HelperOutput&)>& work,
                        std::chrono::milliseconds limit, std::size_t most_bytes);

}  // namespace toporun
