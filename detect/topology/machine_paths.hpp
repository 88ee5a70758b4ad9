#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "detect/topology/system_tree.hpp"

/// From a Machine and the places of its devices on the PCI bus to its path matrices.
namespace toporun::detect {

/// A PCI device or bridge between a GPU or NIC and its CPU.
struct WayStation {
    PciAddress address;
    PciIds ids;                     ///< zeros when unknown
    std::optional<int> generation;  ///< possible, not the present power state's
    std::optional<int> width;
};

/// Where a device sits. Bridges are PCI-PCI bridges as /sys and hwloc show them: a switch is two of
/// them (downstream port, upstream port), a root port one.
struct DevicePlace {
    std::vector<WayStation>
        way;  ///< the device itself, then bridges, nearest first, root port last
    std::optional<int> numa_node;  ///< OS index
    std::string host_bridge;       ///< "pci0000:00", "" unknown
};

/// In the order of Machine::gpus and Machine::nics; nothing where the place is not known. A shorter
/// list says nothing of the rest.
struct MachinePlaces {
    std::vector<std::optional<DevicePlace>> gpus;
    std::vector<std::optional<DevicePlace>> nics;
};

/// NCCL's tree of the machine: its CPUs, the switches of all places (Broadcom's two-level ones
/// still unfolded), GPUs with a place and NVLinks by Gpu::links, else by Machine::gpu_links, NICs
/// with a place.
SystemTree make_tree(const Machine& machine, const MachinePlaces& places);

/// Fills gpu_paths and gpu_path_gbytes_per_s (when every GPU has a place) and gpu_nic_paths. What
/// has no place stays unknown; gpu_paths stays as it is when a GPU has none.
void fill_paths(Machine& machine, const MachinePlaces& places);

/// Fills gpu_path_gbytes_per_s of a machine of which only the names of the paths are known: NVLinks
/// by their number and the GPU's kind, PCIe by generation and width, CPUs by their kind; nothing
/// where a figure is missing. Does nothing when it is filled.
void estimate_path_bandwidth(Machine& machine);

}  // namespace toporun::detect
