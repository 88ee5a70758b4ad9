#pragma once

#include <optional>
#include <vector>

#include "detect/import/hwloc_document.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Packages, NUMA nodes with their distances, cores, caches and the PUs that were allowed. hwloc 1
/// leaves the NUMA level out where there is only one node: that node is made here.
Cpu read_hwloc_processors(const HwlocDocument& document);

/// Where an object stands in the machine.
struct Locality {
    std::optional<int> numa_node;  ///< OS index; empty = near no single node
    CpuSet cpus;                   ///< empty = unknown
};

/// Locality of a device: that of the first object above it that holds PUs.
Locality hwloc_locality(const HwlocDocument& document, const Cpu& cpu, std::size_t object);

/// The nearest object above `object` (itself included) of that type; kNoParent when there is none.
std::size_t hwloc_ancestor(const HwlocDocument& document, std::size_t object,
                           std::string_view type);

}  // namespace toporun::detect
