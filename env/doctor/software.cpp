#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// Versions against the GPUs.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;

constexpr std::string_view kFamily = "software";

struct Minimum {
    int capability_from;  ///< major * 10 + minor, inclusive
    int capability_to;
    int nccl;
    std::string_view version;
    std::string_view symptom;
};

/// NVIDIA/nccl issue 1637: kernels of older libraries need more shared memory than sm_120 has.
const std::vector<Minimum>& minima() {
    static const std::vector<Minimum> table = {
        {120, 129, 22602, "2.26.2",
         "NCCL stops at its first kernel: 'ncclMaxSharedMem 82240 exceeds device/fn maxSharedMem "
         "79856' (NVIDIA/nccl issue 1637)"},
    };
    return table;
}

bool concerns(const Minimum& minimum, const Gpu& gpu) {
    const auto capability = compute_capability(gpu);
    return capability && *capability >= minimum.capability_from &&
           *capability <= minimum.capability_to;
}

void too_old(const Patient& patient, Verdict& verdict) {
    if (!has_nvidia_gpu(patient) || patient.inputs.rccl) return;
    for (const Minimum& minimum : minima()) {
        const auto gpus =
            visible_gpus(patient, [&](const Gpu& gpu) { return concerns(minimum, gpu); });
        if (gpus.size() < 2 && ranks_here(patient) < 2 && !several_nodes(patient)) continue;
        if (gpus.empty()) continue;
        if (!patient.inputs.nccl) return verdict.unknown("NCCL's version");
        if (*patient.inputs.nccl >= minimum.nccl) continue;
        verdict.broken(
            {.what = fmt::format("{} is too old for {}: it has no kernels that fit this "
                                 "generation",
                                 library_text(patient.inputs), gpus_text(patient.machine(), gpus)),
             .evidence = fmt::format("{}; this generation needs NCCL {}",
                                     gpu_at(patient, gpus.front()).name, minimum.version),
             .effect = std::string(minimum.symptom),
             .fix = "pip install --upgrade nvidia-nccl-cu12",
             .remark = "nvidia-nccl-cu13 with CUDA 13; or a newer PyTorch",
             .where = patient.software().nccl_library.value_or("")});
    }
}

/// CUDA finds no GPU without it. Under WSL2 the host's driver does the work.
void module_missing(const Patient& patient, Verdict& verdict) {
    const auto& software = patient.software();
    if (!has_nvidia_gpu(patient) || software.driver) return;
    if (software.kernel.find("icrosoft") != std::string::npos) return;
    if (!software.modules) return verdict.unknown("the loaded kernel modules");
    const auto loaded = [&](std::string_view name) {
        return std::find(software.modules->begin(), software.modules->end(), name) !=
               software.modules->end();
    };
    if (loaded("nvidia")) return;
    const bool server = !visible_gpus(patient, is_server_gpu).empty();
    verdict.find(
        server ? Severity::broken : Severity::note,
        {.what = "the NVIDIA kernel module is not loaded",
         .evidence = fmt::format("NVIDIA GPUs on the PCI bus, no nvidia in /proc/modules{}",
                                 loaded("nouveau") ? ", but nouveau" : ""),
         .effect = "CUDA finds no GPU",
         .fix = "modprobe nvidia",
         .remark = "install the driver if that fails, and blacklist nouveau"});
}

constexpr Check kChecks[] = {
    {{"nccl-too-old-for-gpu", kFamily, Severity::broken,
      "NCCL's version against the generation of the GPUs: kernels of older ones do not fit"},
     too_old},
    {{"nvidia-module-missing", kFamily, Severity::broken,
      "whether the driver's kernel module is loaded where NVIDIA GPUs are on the PCI bus"},
     module_missing},
};

}  // namespace

std::span<const Check> software_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
