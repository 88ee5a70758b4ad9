#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

namespace toporun::launcher::failures {

enum class Confidence { certain, likely, possible, unknown };
std::string_view confidence_text(Confidence confidence);

/// The first cause of a failed run. Texts hold lines of logs as they are: whoever prints them makes
/// them printable.
struct Verdict {
    std::string cause;     ///< identifier of the class: "host-oom-kill"
    std::string severity;  ///< user, config, resource, transient, node, external, unknown
    std::string title;     ///< the class in words
    std::optional<int> rank;
    bool all_ranks = false;
    std::vector<int> suspects;  ///< ranks, where there are several
    std::string node;
    std::optional<int> gpu;  ///< local rank, CUDA device or number that the line names
    std::optional<std::int64_t> pid;
    std::string what;      ///< one sentence: who, what
    std::string evidence;  ///< the line
    std::string where;     ///< "job.log:17"
    std::string frame;     ///< where in the user's program
    Confidence confidence = Confidence::unknown;
    bool from_status_only = false;     ///< nothing but the command's own end is known
    std::vector<std::string> advice;   ///< at most three steps
    std::vector<std::string> remarks;  ///< consequences left aside, what the launcher named instead
};

}  // namespace toporun::launcher::failures
