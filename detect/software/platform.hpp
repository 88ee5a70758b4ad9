#pragma once

#include "detect/detect.hpp"
#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// Fills hostname, vendor, product, container, virtual_machine, the matrices of ACS redirect and
/// all of Software but for the driver's and NCCL's. Call it when GPUs and NICs are known.
void detect_platform(const Sources& sources, PciTree& pci, Machine& machine);

}  // namespace toporun::detect
