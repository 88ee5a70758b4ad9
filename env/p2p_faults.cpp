#include <fmt/format.h>

#include <algorithm>

#include "env/match_known_bad.hpp"
#include "env/nccl_defaults.hpp"
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

/// What keeps the job safe until the cause is gone; toporun sets it where no NVLink would be lost
/// and the user has not chosen.
std::string stop_gap(const Inputs& inputs) {
    return user_has(inputs, kP2pDisable) || user_has(inputs, kP2pLevel)
               ? "until then NCCL_P2P_DISABLE=1, or a level in NCCL_P2P_LEVEL below these pairs"
               : "until then NCCL_P2P_DISABLE=1, or a level below these pairs (toporun sets it)";
}

/// Pair by pair where the bridges between the GPUs could be read. One bit for the whole machine
/// proves nothing for a pair: a root port's does not concern GPUs below one switch.
std::optional<P2pFault> acs_fault(const Inputs& inputs, const PairMatrix& matrix,
                                  const std::vector<GpuPair>& pcie) {
    P2pFault fault{
        "acs-redirect",
        "PCIe access control (ACS) redirects GPU traffic to the CPU",
        "",
        inputs.machine.virtual_machine
            ? "ask the provider of the virtual machine: ACS is the host's"
            : "setpci -s BRIDGE ECAP_ACS+6.w=0",
        inputs.machine.virtual_machine
            ? ""
            : "as root, until the next boot, for each bridge above the GPUs (lspci -tv) that shows "
              "ReqRedir+ (lspci -vvv), or ACS off in the BIOS",
        {}};
    bool unknown = false;
    for (const auto& [a, b] : pcie) {
        const AcsRedirect redirect = matrix.acs_redirect(a, b);
        if (redirect == AcsRedirect::on) fault.pairs.emplace_back(a, b);
        unknown = unknown || redirect == AcsRedirect::unknown;
    }
    if (!fault.pairs.empty()) {
        fault.evidence = "ACS request redirect is on between " + pairs_text(fault.pairs);
        if (!fault.remark.empty()) fault.remark += "; " + stop_gap(inputs);
        return fault;
    }
    if (!unknown || !inputs.machine.software.acs_redirect.value_or(false)) return std::nullopt;
    fault.what += ", for which GPU pairs is not known";
    if (!fault.remark.empty()) fault.remark += "; NCCL_P2P_DISABLE=1 if P2P hangs until then";
    fault.evidence = "ACS request redirect is on at a bridge above a GPU";
    return fault;
}

/// A combination of cards and driver on which P2P over PCIe is known not to work, whatever the
/// driver says of it.
std::optional<P2pFault> known_bad_fault(const Inputs& inputs, const profiles::KnownBadRow& row,
                                        const std::vector<GpuPair>& pcie) {
    const auto gpus = match_known_bad(row, inputs);
    if (!gpus) return std::nullopt;
    const auto listed = [&](int gpu) {
        return std::find(gpus->begin(), gpus->end(), gpu) != gpus->end();
    };
    P2pFault fault{"p2p-known-bad", row.what, "", row.fix, row.remark, {}};
    for (const auto& [a, b] : pcie)
        if (listed(a) && listed(b)) fault.pairs.emplace_back(a, b);
    if (fault.pairs.empty()) return std::nullopt;
    const auto& software = inputs.machine.software;
    // `pcie` holds what some version or CPU brings that this may be.
    const LevelDefault level = default_p2p_level(inputs, static_cast<int>(gpus->size()));
    const PairMatrix matrix(inputs.machine);
    const bool by_default = std::any_of(
        fault.pairs.begin(), fault.pairs.end(),
        [&](const GpuPair& pair) { return matrix.path(pair.first, pair.second) <= level.level; });
    fault.evidence = fmt::format(
        "{} x {}, driver {}, {} use P2P between {}; row {} of known-bad.toml (confidence "
        "{}): {}",
        gpus->size(), inputs.machine.gpus[static_cast<std::size_t>(gpus->front())].name,
        software.driver.value_or("unknown"),
        by_default ? "NCCL would" : "NCCL of some versions or CPUs that this may be would",
        pairs_text(fault.pairs), row.row, row.confidence, row.source);
    return fault;
}

}  // namespace

std::vector<P2pFault> p2p_faults(const Inputs& inputs, const PairMatrix& matrix,
                                 const std::vector<GpuPair>& pcie) {
    std::vector<P2pFault> faults;
    if (pcie.empty()) return faults;
    for (const profiles::KnownBadRow& row : inputs.knowledge.known_bad.rows)
        if (row.decides)
            if (auto fault = known_bad_fault(inputs, row, pcie))
                faults.push_back(std::move(*fault));
    if (auto fault = acs_fault(inputs, matrix, pcie)) faults.push_back(std::move(*fault));
    if (inputs.machine.software.iommu_translating.value_or(false))
        faults.push_back(
            {"iommu-translating", "the IOMMU translates GPU traffic",
             "a translating domain by the IOMMU groups or the kernel's log", "boot with iommu=pt",
             "amd_iommu=off or intel_iommu=off if it stays; " + stop_gap(inputs), pcie});
    return faults;
}

P2pFault measured_fault(const std::vector<GpuPair>& pairs, const profiles::Measured& measured) {
    return {"p2p-measured-broken",
            "data does not arrive over P2P",
            fmt::format("wrong data between {}, measured {} ({}, '{}')", pairs_text(pairs),
                        measured.date, measured.tool, measured.name),
            "look for the cause, then measure again",
            "IOMMU in pass-through (iommu=pt), ACS off on the bridges, resizable BAR on, another "
            "driver",
            pairs};
}

}  // namespace toporun::env
