#pragma once

#include <cstddef>
#include <cstdint>
#include <ctime>
#include <string>

#include "launcher/log/footprint.hpp"
#include "launcher/log/model.hpp"

namespace toporun::launcher {

/// Longest line that is kept, the rest of it is dropped and the line counted as cut. NCCL's own
/// lines end at 1023 characters up to 2.28 and are hardly longer later.
inline constexpr std::size_t kLongestLogLine = 64 * 1024;

/// Adds the lines of one file to `model`, in constant memory. A file that cannot be read (absent,
/// no permission, no regular file) is a note in the model. Reads `most_bytes` of it at most.
void add_log_file(LogModel& model, const std::string& file, std::uint64_t most_bytes = UINT64_MAX);

/// The model of all files `nccl.*.log` in `directory`, by name. A directory that cannot be read is
/// a note. Of logs that together are longer than `most_bytes` the beginnings are read (log_cap()),
/// which is a note too.
LogModel read_log_directory(const std::string& directory, std::uint64_t most_bytes = kMostLogBytes);

/// Bounds of read_log_pattern(): INFO lines of a rank are some 100 KiB.
inline constexpr std::size_t kMostFollowedFiles = 512;
inline constexpr std::size_t kMostFollowedBytes = 64u << 20;  ///< of all files together

/// The model of the files that NCCL_DEBUG_FILE=`pattern` names (NCCL src/debug.cc: `%h` a host,
/// `%p` a process, `%%` a percent sign). Only regular files of this user that were written at
/// `since` or later; links are not followed. What the bounds leave out is a note, no file at all is
/// none.
LogModel read_log_pattern(const std::string& pattern, std::time_t since);

}  // namespace toporun::launcher
