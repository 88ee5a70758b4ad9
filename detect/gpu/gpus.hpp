#pragma once

#include "detect/detect.hpp"
#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// Fills gpus, gpu_paths (as far as complete_paths needs it), gpu_links, peer_access, nvswitch and
/// software.driver: PCI bus and /proc/driver/nvidia first, then NVML where there is a sign of an
/// NVIDIA device, else KFD.
///
/// With Sources::deep the driver is also asked for what no launch needs and what costs time:
/// persistence, ecc, row_remap_failed, row_remap_pending, throttle_reasons, and of every link
/// version, speed and the kind of a partner that is not a visible PCI device. Everything else,
/// fabric and C2C too, is asked at every launch.
void detect_gpus(const Sources& sources, PciTree& pci, Machine& machine);

}  // namespace toporun::detect
