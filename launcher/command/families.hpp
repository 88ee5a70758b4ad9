#pragma once

#include <cstddef>
#include <string>

#include "launcher/command/command.hpp"

/// One function for each family of launchers. `command` holds argv and executable; `first` is the
/// word behind the launcher's own words.
namespace toporun::launcher {

Command recognise_torchrun(Command command, std::size_t first, const Environment& environment,
                           const Host& host);
/// Open MPI 4 (`major` 4) and 5: `mpirun` of PRRTE.
Command recognise_openmpi(Command command, int major, const Environment& environment,
                          const Host& host);
Command recognise_hydra(Command command, const Host& host);
Command recognise_srun(Command command, const Environment& environment, const Host& host);

/// The command as one that is only given variables, for `reason`.
Command export_only(Command command, const std::string& reason);

/// `name` means this host: one of its names, with or without the domain, or a loopback address.
bool is_this_host(const std::string& name, const Host& host);

/// The variable, "" when it is unset.
std::string variable(const Environment& environment, const std::string& name);

}  // namespace toporun::launcher
