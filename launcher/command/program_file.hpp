#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// The file of srun's --multi-prog, which srun reads where it is started (seen with 22.05): a
/// program for each task.
namespace toporun::launcher {

/// `RANKS PROGRAM ARG...`, a comment or an empty line.
struct ProgramLine {
    std::string text;
    std::size_t at = 0;              ///< where the program starts in `text`; 0 = there is none
    std::vector<std::string> words;  ///< the program and its arguments, %t and %o as they are
};

/// As much of the file is read; a longer one is left alone.
inline constexpr std::size_t kMostProgramFileBytes = 1u << 20;

struct ProgramFile {
    std::vector<ProgramLine> lines;
    std::string problem;  ///< why the file cannot be rewritten, one line; "" = it can
};

/// Words are parted by blanks; single quotes and the backslash quote (srun(1), MULTIPLE PROGRAM
/// CONFIGURATION).
ProgramFile read_program_file(std::string_view text);

/// The lines with `words` in front of each program; "" where a line becomes longer than srun takes.
std::string program_file_text(const std::vector<ProgramLine>& lines,
                              const std::vector<std::string>& words);

}  // namespace toporun::launcher
