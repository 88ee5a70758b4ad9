#pragma once

#include <string>
#include <vector>

#include "env/host_places.hpp"
#include "env/job.hpp"
#include "env/plan.hpp"

/// The order of hosts in which neighbours share a switch. NCCL does not look at the switches
/// between nodes: its rings and trees follow the order of ranks.
namespace toporun::env {

/// A host order and where it comes from.
struct HostOrder {
    std::vector<std::string> hosts;    ///< every given host once
    std::vector<std::string> unknown;  ///< hosts of which the file says nothing: they stand last
    bool changed = false;              ///< it is not the given order
    /// How often neighbours, the last and the first among them, are on different lowest switches.
    int crossings_given = 0;
    int crossings = 0;
};

/// Hosts below one switch next to each other, switches of one switch above next to each other;
/// switches and hosts otherwise in the order in which they were given. A list of hosts is followed.
/// Short names meet full ones.
HostOrder order_hosts(const std::vector<std::string>& given, const HostPlaces& places);

/// What to write so that the launcher starts ranks in this order, one line each: the words for
/// srun, Open MPI, Hydra and torchrun. `file` holds the order, one line a task.
std::vector<std::string> host_order_advice(const Job& job, const HostOrder& order,
                                           const std::string& file);

/// What to say of an order that is better than the given one.
std::vector<Finding> host_order_findings(const Job& job, const HostOrder& order,
                                         const HostPlaces& places, const std::string& file);

/// One host a line, each as often as it has ranks: what SLURM_HOSTFILE and `--map-by seq` take.
std::string host_file_text(const std::vector<std::string>& hosts, int ranks_per_node);

}  // namespace toporun::env
