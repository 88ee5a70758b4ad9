#pragma once

#include <cstddef>
#include <string>

#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// Longest line that is kept, the rest of it is dropped and the line counted as cut. NCCL's own
/// lines end at 1023 characters up to 2.28 and are hardly longer later.
inline constexpr std::size_t kLongestLogLine = 64 * 1024;

/// Adds the lines of one file to `model`, in constant memory. A file that cannot be read (absent,
/// no permission, no regular file) is a note in the model.
void add_log_file(LogModel& model, const std::string& file);

/// The model of all files `nccl.*.log` in `directory`, by name. A directory that cannot be read is
/// a note.
LogModel read_log_directory(const std::string& directory);

}  // namespace toporun::launcher
