#pragma once

#include <vector>

#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// GPUs by PCI class in bus order: NVIDIA's, or AMD's where there is none of NVIDIA. Name and UUID
/// come from /proc/driver/nvidia, which needs no NVML.
std::vector<Gpu> pci_gpus(PciTree& pci);

}  // namespace toporun::detect
