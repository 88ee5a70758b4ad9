#pragma once

#include <string>
#include <string_view>
#include <vector>

/// Which commands a text for a shell starts, as far as that can be told without running it.
namespace toporun::launcher {

/// The simple commands in `text`: each one's words, quotes taken off. What a variable is given
/// (`RUN="srun -n 4"`) and what eval gets counts as a text too, comments do not. Never fails; what
/// variables hold is not looked at.
std::vector<std::vector<std::string>> shell_commands(std::string_view text);

}  // namespace toporun::launcher
