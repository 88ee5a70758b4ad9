#pragma once

#include "detect/gpu/nvml_report.hpp"
#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// Fills gpu_paths by gpu_links and the word of NVML, its common ancestors (may be null): what
/// counts where a GPU is not in the PCI tree of sysfs.
void take_told_paths(const NvmlReport* report, Machine& machine);

/// Fills gpu_paths by NCCL's rules from gpus, gpu_links and the PCI tree, gpu_nic_paths and
/// gpu_path_gbytes_per_s; a note where the paths stay unknown. Call it when GPUs, interfaces, CPUs
/// and NCCL's version are known, for they all count.
void complete_paths(PciTree& pci, Machine& machine);

}  // namespace toporun::detect
