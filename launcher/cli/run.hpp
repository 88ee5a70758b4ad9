#pragma once

#include "launcher/cli/arguments.hpp"
#include "launcher/process/console.hpp"
#include "launcher/process/signals.hpp"

namespace toporun::launcher {

/// `toporun COMMAND`: decides, launches, reports. Returns the raw wait status that this process
/// ends with. Throws Error only with --strict and for usage that names files (--machine).
int run_command(const Arguments& arguments, const InheritedSignals& inherited,
                const Console& console);

/// `toporun --dry-run COMMAND`: prints, starts nothing. Returns the exit status.
int dry_run(const Arguments& arguments, const Console& console);

/// `toporun --preflight-only COMMAND`: prints what is wrong with the launch line, the allocation
/// and the machine for this job, starts nothing. 1 when something is broken.
int preflight_only(const Arguments& arguments, const Console& console);

/// Becomes the command as typed (TOPORUN=off). Returns (126, 127) only when that fails.
int exec_command(const std::vector<std::string>& command, const InheritedSignals& inherited,
                 const Console& console);

}  // namespace toporun::launcher
