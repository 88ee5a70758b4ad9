#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// A PCIe bridge on the way from a device up to the root complex.
struct AcsPort {
    PciAddress address;
    bool root = false;              ///< a port of the root complex itself
    std::optional<bool> redirects;  ///< its ACS control says so; nothing = not readable
};

/// The bridges above a device, nearest first; empty for one that stands on the root complex.
using AcsWay = std::vector<AcsPort>;

/// Whether ACS redirects what goes between two devices. Only two ports can: on either side the one
/// right below the switch, or the root complex, that both sides have in common. Ports further down
/// pass a request on upwards in any case, those above are never reached (PCI Express base
/// specification, 6.12).
///
/// The bit of a switch's port sends to the root complex what the switch would pass on itself. What
/// arrives at a root port goes through the root complex anyway: its bit only hands the request to
/// the IOMMU first, which is of no effect unless the IOMMU translates. Linux sets the bit on all
/// ports wherever there is an IOMMU, with iommu=pt too (drivers/pci/pci.c, pci_enable_acs).
/// A way that ends below a root port was not seen whole: unknown.
AcsRedirect acs_between(const AcsWay& a, const AcsWay& b, std::optional<bool> iommu_translating);

/// The root port at the end of the way, where it redirects and nothing else on the way is unknown:
/// what the IOMMU does then decides whether the way is changed.
std::optional<PciAddress> redirecting_root(const std::optional<AcsWay>& way);

/// GPU x GPU, off on the diagonal; a way that is nothing makes its pairs unknown. Empty when no
/// pair is known.
std::vector<std::vector<AcsRedirect>> acs_matrix(const std::vector<std::optional<AcsWay>>& gpus,
                                                 std::optional<bool> iommu_translating);

/// Whether any port above a GPU redirects, root ports where the IOMMU translates alone. Nothing
/// when none says yes and one of them is unknown, or there is none.
std::optional<bool> acs_above(const std::vector<std::optional<AcsWay>>& gpus,
                              std::optional<bool> iommu_translating);

/// Fills Software::acs_redirect by acs_above, gpu_acs_redirect by acs_matrix, Gpu::acs_root_port by
/// redirecting_root, and
/// gpu_nic_acs_redirect by acs_between for a GPU and an RDMA port below a common switch, where
/// GPUDirect RDMA would pass through the switch alone. Each bridge is read once; beyond the first
/// 64 bytes its configuration space is for root. Call it when GPUs, NICs and the IOMMU's mode are
/// known.
void detect_acs(PciTree& pci, Machine& machine);

}  // namespace toporun::detect
