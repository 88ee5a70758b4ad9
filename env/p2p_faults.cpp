#include <fmt/format.h>

#include "env/p2p.hpp"

namespace toporun::env {
namespace {

using detect::AcsRedirect;

std::string pairs_text(const std::vector<GpuPair>& pairs) {
    const std::size_t more = pairs.size() - 1;
    return fmt::format("GPU {} and GPU {}{}", pairs.front().first, pairs.front().second,
                       more == 0   ? ""
                       : more == 1 ? " and 1 more pair"
                                   : fmt::format(" and {} more pairs", more));
}

/// Pair by pair where the bridges between the GPUs could be read. One bit for the whole machine
/// proves nothing for a pair: a root port's does not concern GPUs below one switch.
std::optional<P2pFault> acs_fault(const Inputs& inputs, const PairMatrix& matrix,
                                  const std::vector<GpuPair>& pcie) {
    P2pFault fault{"acs-redirect",
                   "PCIe access control (ACS) redirects GPU traffic to the CPU",
                   "",
                   inputs.machine.virtual_machine
                       ? "ask the provider of the virtual machine: ACS is the host's"
                       : "switch ACS off on the bridges (setpci, or in the BIOS)",
                   {}};
    bool unknown = false;
    for (const auto& [a, b] : pcie) {
        const AcsRedirect redirect = matrix.acs_redirect(a, b);
        if (redirect == AcsRedirect::on) fault.pairs.emplace_back(a, b);
        unknown = unknown || redirect == AcsRedirect::unknown;
    }
    if (!fault.pairs.empty()) {
        fault.evidence = "ACS request redirect is on between " + pairs_text(fault.pairs);
        return fault;
    }
    if (!unknown || !inputs.machine.software.acs_redirect.value_or(false)) return std::nullopt;
    fault.what += ", for which GPU pairs is not known";
    fault.evidence = "ACS request redirect is on at a bridge above a GPU";
    return fault;
}

}  // namespace

std::vector<P2pFault> p2p_faults(const Inputs& inputs, const PairMatrix& matrix,
                                 const std::vector<GpuPair>& pcie) {
    std::vector<P2pFault> faults;
    if (pcie.empty()) return faults;
    if (auto fault = acs_fault(inputs, matrix, pcie)) faults.push_back(std::move(*fault));
    if (inputs.machine.software.iommu_translating.value_or(false))
        faults.push_back({"iommu-translating", "the IOMMU translates GPU traffic",
                          "IOMMU groups of a translating kind",
                          "boot with iommu=pt (and amd_iommu=off or intel_iommu=off if it stays)",
                          pcie});
    return faults;
}

}  // namespace toporun::env
