#include <fmt/format.h>

#include "base/text.hpp"
#include "detect/software/iommu.hpp"
#include "env/doctor/facts.hpp"
#include "env/matrix.hpp"

/// AMD GPUs and RCCL.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::PathType;

constexpr std::string_view kFamily = "amd";

bool all_linked(const Patient& patient) {
    const PairMatrix matrix(patient.machine());
    if (!matrix.known()) return false;
    const auto& visible = patient.inputs.visible;
    for (std::size_t i = 0; i < visible.size(); ++i)
        for (std::size_t j = i + 1; j < visible.size(); ++j)
            if (matrix.path(visible[i], visible[j]) != PathType::NVL) return false;
    return true;
}

/// ROCm asks for pass-through; without xGMI RCCL then hangs (ROCm/rccl issue 1129).
void iommu(const Patient& patient, Verdict& verdict) {
    if (!patient.inputs.rccl || patient.inputs.visible.size() < 2) return;
    const auto& translating = patient.software().iommu_translating;
    if (!translating && patient.software().iommu_mode == detect::kIommuDefault &&
        !patient.machine().virtual_machine)
        return verdict.note({.what = "the kernel's command line has no iommu=pt",
                             .evidence = "/proc/cmdline; whether the IOMMU translates is not told",
                             .effect = "RCCL warns of it: Missing \"iommu=pt\", and hung on GPUs "
                                       "without xGMI where the IOMMU translates (ROCm/rccl issue "
                                       "1129)",
                             .fix = "boot with iommu=pt",
                             .remark = "dmesg | grep -i 'default domain' tells the mode now"});
    if (!translating) return verdict.unknown("the IOMMU's mode");
    if (!*translating || patient.machine().virtual_machine) return;
    verdict.find(all_linked(patient) ? Severity::note : Severity::slow,
                 {.what = "the IOMMU translates the traffic of AMD GPUs",
                  .evidence = "a translating domain by the IOMMU groups or the kernel's log",
                  .effect = "RCCL hung on GPUs without xGMI (ROCm/rccl issue 1129), and host "
                            "copies are slower",
                  .fix = "boot with iommu=pt"});
}

void gdr_read(const Patient& patient, Verdict& verdict) {
    if (!patient.inputs.rccl || user_number(patient, "NCCL_NET_GDR_READ") != 1) return;
    const auto xgmi = all_linked(patient);
    verdict.find(xgmi ? Severity::note : Severity::slow,
                 {.what = "NCCL_NET_GDR_READ=1 with RCCL",
                  .evidence = set_text(patient, "NCCL_NET_GDR_READ"),
                  .effect = "hangs and slower sends over PCIe were reported (ROCm/rccl issues "
                            "1179 and 1251)",
                  .fix = "unset NCCL_NET_GDR_READ"});
}

void small_group(const Patient& patient, Verdict& verdict) {
    const auto gpus = visible_gpus(patient, is_mi300_class);
    const int ranks = ranks_here(patient);
    if (patient.machine().gpus.size() != 8 || gpus.empty() || ranks < 2 || ranks > 4) return;
    verdict.note({.what = fmt::format("{} of 8 MI300-class GPUs use {} of the 7 xGMI links each",
                                      ranks, ranks - 1),
                  .evidence = "each link joins two GPUs only",
                  .effect = "2 GPUs reach 47.7 GB/s where 8 reach 312.9 GB/s (measured, "
                            "ml-engineering)",
                  .fix = "use all 8 for one job, and no tensor parallelism of 2 or 4"});
}

void visible_twice(const Patient& patient, Verdict& verdict) {
    if (!patient.inputs.rccl) return;
    const auto rocr = patient.inputs.user.variable("ROCR_VISIBLE_DEVICES");
    const auto hip = patient.inputs.user.variable("HIP_VISIBLE_DEVICES");
    if (!rocr || !hip || rocr->empty() || hip->empty()) return;
    // HIP counts within what ROCR leaves: equal lists are right only when they start at 0.
    const auto first = to_integer(trim(split(*rocr, ',').front()));
    if (!first || (*rocr == *hip && *first == 0)) return;
    verdict.slow({.what = "ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES are both set",
                  .evidence = fmt::format("{} {}", assigned("ROCR_VISIBLE_DEVICES", *rocr),
                                          assigned("HIP_VISIBLE_DEVICES", *hip)),
                  .effect = "HIP counts within what ROCR leaves: other GPUs than meant, or none",
                  .fix = "set one of them only"});
}

constexpr Check kChecks[] = {
    {{"amd-iommu-translating", kFamily, Severity::slow,
      "whether the IOMMU translates the traffic of AMD GPUs: ROCm wants pass-through"},
     iommu},
    {{"rccl-gdr-read", kFamily, Severity::slow, "NCCL_NET_GDR_READ=1 with RCCL"}, gdr_read},
    {{"xgmi-small-group", kFamily, Severity::note,
      "jobs on 2 to 4 of 8 MI300-class GPUs: most xGMI links stay idle"},
     small_group},
    {{"rocm-visible-twice", kFamily, Severity::slow,
      "ROCR_VISIBLE_DEVICES and HIP_VISIBLE_DEVICES together"},
     visible_twice},
};

}  // namespace

std::span<const Check> amd_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
