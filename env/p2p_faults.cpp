#include "env/p2p.hpp"

namespace toporun::env {

std::vector<P2pFault> p2p_faults(const Inputs& inputs) {
    const detect::Software& software = inputs.machine.software;
    std::vector<P2pFault> faults;
    // Both only concern writes that a PCIe bridge or the IOMMU routes; NVLink passes neither.
    if (software.acs_redirect.value_or(false))
        faults.push_back({"acs-redirect",
                          "PCIe access control (ACS) redirects GPU traffic to the CPU",
                          "ACS request redirect is on at a bridge above a GPU",
                          inputs.machine.virtual_machine
                              ? "ask the provider of the virtual machine: ACS is the host's"
                              : "switch ACS off on the bridges (setpci, or in the BIOS)"});
    if (software.iommu_translating.value_or(false))
        faults.push_back({"iommu-translating", "the IOMMU translates GPU traffic",
                          "IOMMU groups of a translating kind",
                          "boot with iommu=pt (and amd_iommu=off or intel_iommu=off if it stays)"});
    return faults;
}

}  // namespace toporun::env
