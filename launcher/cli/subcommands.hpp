#pragma once

#include "launcher/cli/arguments.hpp"
#include "launcher/process/console.hpp"

namespace toporun::launcher {

/// The subcommands. Results go to standard output, remarks to `console`. Each returns the exit
/// status and throws Error for input that cannot be read or output that cannot be written.
int detect_command(const Arguments& arguments, const Console& console);
int env_command(const Arguments& arguments, const Console& console);
/// 1 when something is broken.
int doctor_command(const Arguments& arguments);
int report_command(const Arguments& arguments);

}  // namespace toporun::launcher
