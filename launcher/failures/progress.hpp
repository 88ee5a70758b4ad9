#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

/// What tells that a program goes on: its training loop prints the same line with other numbers.
namespace toporun::launcher::failures {

struct Progress {
    std::uint64_t shape = 0;    ///< of the line without its numbers
    std::uint64_t numbers = 0;  ///< of its numbers
};

/// A line such as `step 10 loss 4.1`, `{"epoch": 1, "update": 0.5}`, `10%|# | 10/100 [1.5it/s]`;
/// nothing for any other.
std::optional<Progress> progress_of(std::string_view message);

/// The line calls itself a warning, or says that what it tells of was dealt with.
bool tells_handled(std::string_view line);

}  // namespace toporun::launcher::failures
