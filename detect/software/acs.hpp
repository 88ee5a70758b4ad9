#pragma once

#include <optional>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills Software::acs_redirect, gpu_acs_redirect and gpu_nic_acs_redirect. Each bridge is read
/// once. Call it when GPUs and NICs are known.
///
/// * acs_redirect: on a bridge above a GPU (P2P then goes up to the root complex and may hang or
///   corrupt under an IOMMU). Nothing when no bridge says yes and some cannot be read: beyond the
///   first 64 bytes the configuration space is for root.
/// * gpu_acs_redirect: the same for each GPU pair. Only two ports can redirect a request from GPU
/// to
///   GPU: on either side the one right below the bridge, or the root complex, that both sides have
///   in common. Ports further down pass it on upwards in any case, those above are never reached
///   (PCI Express base specification, 6.12). Empty when nothing could be read.
/// * gpu_nic_acs_redirect: likewise for a GPU and an RDMA port below a common switch, where
///   GPUDirect RDMA would pass through the switch alone.
void detect_acs(const Files& files, Machine& machine);

}  // namespace toporun::detect
