#pragma once

#include "detect/detect.hpp"
#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills gpus, gpu_paths, gpu_links, peer_access, nvswitch and software.driver: PCI bus and
/// /proc/driver/nvidia first, then NVML where there is a sign of an NVIDIA device.
void detect_gpus(const Sources& sources, const Files& files, Machine& machine);

}  // namespace toporun::detect
