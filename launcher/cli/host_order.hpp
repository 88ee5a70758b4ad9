#pragma once

#include "env/plan.hpp"
#include "launcher/cli/arguments.hpp"
#include "launcher/cli/inputs.hpp"

namespace toporun::launcher {

/// Fills Job::hosts, where the launcher named none, from Slurm's list, and Options::host_places
/// from
/// --host-order, else from topology.conf beside SLURM_CONF (/etc/slurm) in a job of several hosts.
/// Where no list is known the hosts of the file itself count. Throws Error when the file that was
/// named cannot be read; what was found by itself and cannot be read is passed over. Of the tasks
/// of a Slurm step only the first one looks.
void read_host_order(const Arguments& arguments, const Environment& environment, env::Job& job,
                     env::Options& options);

}  // namespace toporun::launcher
