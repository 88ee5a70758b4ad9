#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Which commands a text for a shell starts, as far as that can be told without running it.
namespace toporun::launcher {

struct ShellText {
    std::vector<std::vector<std::string>> commands;  ///< the words of each, quotes taken off
    bool whole = true;  ///< false: a quote or bracket is not closed, what is behind it is not read
};

/// The simple commands in `text`. What a variable is given (`RUN="srun -n 4"`), what eval and trap
/// get, `$(...)` in quotes and the lines of a here-document count as texts too, comments do not.
/// Never fails; what variables hold is not looked at.
ShellText read_shell_text(std::string_view text);

}  // namespace toporun::launcher
