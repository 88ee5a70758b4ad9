#pragma once

#include <string>

#include "launcher/cli/arguments.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/cli/knowledge.hpp"
#include "launcher/process/console.hpp"

namespace toporun::launcher {

/// The subcommands. Results go to standard output, remarks to `console`. Each returns the exit
/// status and throws Error for input that cannot be read or output that cannot be written.
int detect_command(const Arguments& arguments, const Console& console);
int env_command(const Arguments& arguments, const Console& console);
/// 1 when something is broken.
int doctor_command(const Arguments& arguments, const Console& console);
/// `toporun report`: a run's report, or one of logs that toporun did not make (report_command.cpp).
int report_command(const Arguments& arguments, const Console& console);
/// `toporun profiles VERB`: 1 when `check` finds a file that is broken.
int profiles_command(const Arguments& arguments, const Console& console);

/// The job that a shell's settings are for: of its command line nothing is known.
env::Job shell_job(const Arguments& arguments, const Environment& environment);
/// Each of them as a warning.
void warn(const std::vector<ProfileProblem>& problems, const Console& console);
/// `text` line by line, safe for a terminal: the file may be anybody's.
std::string printable_lines(const std::string& text);
/// Writes to standard output. Throws Error when it cannot.
void print(const std::string& text);

}  // namespace toporun::launcher
