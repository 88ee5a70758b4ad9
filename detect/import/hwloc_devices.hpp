#pragma once

#include <string>
#include <vector>

#include "detect/import/hwloc_document.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// The devices of a topology that matter to NCCL.
struct HwlocDevices {
    std::vector<Gpu> gpus;  ///< in the order of their indices
    std::vector<std::size_t>
        gpu_objects;        ///< of each GPU: its PCIDev, or its OS device without one
    std::vector<Nic> nics;  ///< in the order of the file, which is that of the bus
    std::vector<std::size_t> nic_objects;
    std::vector<std::string> notes;
};

/// GPUs of NVIDIA, or of AMD where there is none of NVIDIA: by PCI class, or by their OS devices
/// (nvml0, cuda0, rsmi0, opencl0d0: several for one card) where there is no PCI. Interfaces and
/// RDMA ports, those of one PCI function in one Nic.
HwlocDevices read_hwloc_devices(const HwlocDocument& document, const Cpu& cpu);

}  // namespace toporun::detect
