#pragma once

#include "detect/files.hpp"
#include "detect/gpu/nvml_report.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills gpu_paths from gpus, gpu_links and the PCI tree, else by the word of `report`, NVML's
/// common ancestors (may be null). A note where the paths stay unknown.
void detect_gpu_paths(const Files& files, const NvmlReport* report, Machine& machine);

/// Fills gpu_nic_paths; call it when GPUs and interfaces are known.
void detect_gpu_nic_paths(const Files& files, Machine& machine);

}  // namespace toporun::detect
