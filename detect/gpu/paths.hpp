#pragma once

#include "detect/files.hpp"
#include "detect/gpu/nvml_report.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills gpu_paths by NCCL's rules from gpus, gpu_links and the PCI tree in sysfs; where a GPU is
/// not in it, by the word of `report`, NVML's common ancestors (may be null). A note where the
/// paths stay unknown.
void detect_gpu_paths(const Files& files, const NvmlReport* report, Machine& machine);

/// Fills gpu_nic_paths and gpu_path_gbytes_per_s; call it when GPUs, interfaces, CPUs and NCCL's
/// version are known, for they all count.
void complete_paths(const Files& files, Machine& machine);

}  // namespace toporun::detect
