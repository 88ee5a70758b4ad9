#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/command/command.hpp"

/// What was left out of a launch and follows from the allocation (docs/launchers.md, "What is
/// filled in").
namespace toporun::launcher {

enum class Gap {
    none,
    /// torchrun, one in each of several nodes' tasks: how many nodes, which this is, where they
    /// meet.
    rendezvous,
    /// torchrun on one node, whose default port another job of this host may use.
    port,
    /// A Python program that a launcher starts as several ranks: RANK, WORLD_SIZE, MASTER_ADDR, ...
    ranks,
};

/// torchrun's options of the rendezvous that were left out.
struct RendezvousGap {
    bool nodes = false;
    bool c10d = false;  ///< the c10d backend; else the static one
    bool backend = false;
    bool node_rank = false;  ///< static
    bool address = false;    ///< static
    bool port = false;       ///< static
    bool endpoint = false;   ///< c10d
    bool id = false;         ///< c10d
    bool conf = false;       ///< c10d
};

/// The places of a job, 0-based.
struct Gaps {
    Gap gap = Gap::none;
    RendezvousGap rendezvous;
    /// The shim sets it, in each rank that this one toporun starts. Else this toporun is in front
    /// of one task of several that decide each for itself: all must come to the same address and
    /// port.
    bool by_shim = false;
    /// This toporun stands in front of srun, which starts torchrun on each node: what it tells is
    /// the same for all, and the first node goes by its name.
    bool by_srun = false;
    int nodes = 1;
    int node = 0;
    bool first_node = true;    ///< the one where rank 0 runs
    std::optional<int> tasks;  ///< of the job; by_shim: of this host, where it is known
    int task = 0;
    int local_task = 0;
    int tasks_here = 1;
    bool one_task = false;  ///< by_shim: of each node, which may start the node's ranks itself
    /// by_shim: ranks start on other hosts too, where each host's shim sets what this one says.
    bool other_hosts = false;
    std::string unknown;     ///< why nobody can say where rank 0 runs; "" = it is known
    bool own_gpus = false;   ///< by_shim: the launcher shows each rank GPUs of its own
    std::string first_host;  ///< several nodes: the name of the node where rank 0 runs
    std::string host_file;   ///< the order of hosts is this file's (SLURM_HOSTFILE), not the list's
    std::vector<std::string> hosts;  ///< of the step in Slurm's order; empty = not known
    std::string evidence;
};

/// Pure. `environment` is what the ranks get (variables_of_ranks). Nothing is a gap that the user
/// has given in whatever form, nor what cannot be certain.
Gaps find_gaps(const Command& command, const Environment& environment);

/// The toporun that stands in front of the torchrun of each of srun's nodes (Guard::toporun) will
/// fill in the rendezvous. Pure.
bool filled_in_on_nodes(const Command& command, const Environment& environment);

/// Of the step that this process is a task of: where the ranks of the step are; Gap::ranks or none.
Gaps gaps_of_step(const Environment& environment);

}  // namespace toporun::launcher
