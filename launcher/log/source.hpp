#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

/// Log text from wherever a user keeps it: files, directories, standard input, packed or not.
namespace toporun::launcher {

/// One line without its line end, and whether it was longer than kLongestLogLine and cut.
using TakeLine = std::function<void(std::string_view line, bool cut)>;

/// Whole lines, each with its line end but for the last of a file. `cut`: it is one line that was
/// longer than kLongestLogLine, without its line end. Of the other lines none is longer.
using TakeLines = std::function<void(std::string_view lines, bool cut)>;

struct LogFile {
    std::string name;    ///< "-" is standard input
    bool found = false;  ///< below a directory that was named, not named itself
};

struct LogFiles {
    std::vector<LogFile> files;
    std::vector<std::string> unlisted;  ///< directories below the named ones, with the reason
    std::uint64_t further = 0;  ///< files of directories beyond kMostLogFiles; not looked at
};

/// The files that `names` stand for, each directory replaced by the text files below it, by name
/// (hidden ones, links and what is no text are left out, at most kMostLogFiles). "-" is standard
/// input. Throws Error for a name that is not there and for a directory without such a file.
LogFiles log_files(std::span<const std::string> names);
inline constexpr std::size_t kMostLogFiles = 4096;
inline constexpr std::uint64_t kMostFurtherFiles = 1'000'000;  ///< the counting ends there

enum class LogEnd {
    whole,
    cut,  ///< a packed file ends early: it is still written, or was not copied whole
};

/// Hands every line of `file` to `take`, in constant memory, unpacked when it is gzip or zstd by
/// its first bytes. "-" is standard input. Throws Error when it cannot be read, and for packed data
/// that is damaged; what was read before has been handed over then.
LogEnd read_log_lines(const std::string& file, const TakeLine& take);
/// The same, many lines at a time.
LogEnd read_log_blocks(const std::string& file, const TakeLines& take);

}  // namespace toporun::launcher
