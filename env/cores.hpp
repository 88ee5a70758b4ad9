#pragma once

#include <vector>

#include "detect/machine.hpp"

/// The cores of a machine and which of them are near a GPU.
namespace toporun::env {

/// The cores of the machine with the PUs that this job may use; cores without one are left out.
/// Where the cores are not known each PU counts as one, siblings by Linux' usual numbering.
std::vector<detect::Core> allowed_cores(const detect::Machine& machine);

/// Whether allowed_cores() are all there are: a table of GPUs names the CPUs near them, and other
/// sockets may have more. They are all where the machine, its packages or its NUMA distances are
/// told, or where the named ones leave no gap in the numbers of CPUs and nodes.
bool tells_all_cores(const detect::Machine& machine);

/// The parts of `cores` that lie in `cpus`; cores without one are left out.
std::vector<detect::Core> within(const std::vector<detect::Core>& cores,
                                 const detect::CpuSet& cpus);

/// The PUs of `cores`.
detect::CpuSet pus_of(const std::vector<detect::Core>& cores);

/// The PUs near a GPU: its own list, else those of its NUMA node. A node of memory alone (Grace)
/// has those of the nearest nodes with CPUs. Empty when nobody says.
detect::CpuSet cpus_near_gpu(const detect::Machine& machine, const detect::Gpu& gpu);

/// The NUMA node that holds all of `cpus`, if one does.
std::optional<int> numa_node_of(const detect::Machine& machine, const detect::CpuSet& cpus);

/// Ranks that want cores near one place.
struct Place {
    detect::CpuSet near;             ///< empty: the whole machine
    std::vector<std::size_t> ranks;  ///< positions, ascending
};

/// Shares `cores` out among places, each core to one of those it is near to. Places may overlap:
/// the ranks with the fewest cores get as many as possible, then those with the next fewest. One
/// list a place, empty for a place without any core.
std::vector<std::vector<detect::Core>> share_among_places(const std::vector<detect::Core>& cores,
                                                          const std::vector<Place>& places);

/// `cores` for each of `ranks` ranks, at least one each: whole NUMA nodes if they can be divided
/// evenly, else whole last-level caches, else neighbouring cores; the remainder goes to the low
/// ranks. Cores of one PU and of several are dealt out apart. Empty when there are fewer cores than
/// ranks.
std::vector<std::vector<detect::Core>> divide_cores(std::vector<detect::Core> cores, int ranks);

}  // namespace toporun::env
