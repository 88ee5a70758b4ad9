#pragma once

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills hostname, vendor, product, container, virtual_machine and of software kernel,
/// iommu_translating and acs_redirect; gpu_acs_redirect. Call it when the GPUs are known.
void detect_platform(const Files& files, Machine& machine);

/// DMA remapping in translating mode: true, false, or nothing when neither the kernel's command
/// line nor the IOMMU groups tell.
std::optional<bool> iommu_translating(const Files& files, const std::vector<Gpu>& gpus);

/// ACS redirects peer requests on a bridge above a GPU (P2P then goes up to the root complex and
/// may hang or corrupt under an IOMMU). Nothing when no bridge says yes and some cannot be read:
/// beyond the first 64 bytes the configuration space is for root.
std::optional<bool> acs_redirect(const Files& files, const std::vector<Gpu>& gpus);

/// The same for each GPU pair. Only two ports can redirect a request from GPU to GPU: on either
/// side the one right below the bridge, or the root complex, that both sides have in common. Ports
/// further down pass it on upwards in any case, those above are never reached (PCI Express base
/// specification, 6.12). Empty when nothing could be read.
std::vector<std::vector<AcsRedirect>> gpu_acs_redirect(const Files& files,
                                                       const std::vector<Gpu>& gpus);

}  // namespace toporun::detect
