#pragma once

#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// Replaces machine.gpus, AMD's GPUs on the PCI bus, by the GPUs of KFD in KFD's order, which is
/// HIP's, with what both and amdgpu's files tell; fills gpu_links from xGMI. Where KFD shows no GPU
/// those of the bus stay. Notes say what is hidden from this process.
///
/// Partitions of one GPU (MI300 in CPX mode) are GPUs of their own; number n has the PCI function n
/// of the device, as RCCL names them.
void detect_amd_gpus(PciTree& pci, Machine& machine);

}  // namespace toporun::detect
