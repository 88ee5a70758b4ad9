#include <fmt/format.h>

#include <set>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// Which GPUs the job sees: masks and MIG.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;

constexpr std::string_view kFamily = "visibility";
constexpr const char* kCudaVisible = "CUDA_VISIBLE_DEVICES";

std::vector<std::string> words_of(const std::string& list) {
    std::vector<std::string> words;
    for (const std::string& part : split(list, ',')) words.emplace_back(trim(part));
    return words;
}

void mig_on(const Patient& patient, Verdict& verdict) {
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) { return gpu.mig == true; });
    if (gpus.empty() || ranks_here(patient) < 2) return;
    verdict.note({.what = fmt::format("MIG is on for {}", gpus_text(patient.machine(), gpus)),
                  .evidence = "nvidia-smi --query-gpu=mig.mode.current --format=csv",
                  .effect = "no P2P and no NVLink between instances: NCCL uses shared memory",
                  .fix = "nvidia-smi -mig 0",
                  .remark = "as root, for jobs that use whole GPUs"});
}

struct Mask {
    std::string bad;  ///< the word that ends the list
    bool repeated = false;
};

/// The driver reads the list up to the first word that it does not accept.
std::optional<Mask> broken_mask(const Patient& patient, const std::string& list) {
    const auto& gpus = patient.machine().gpus;
    std::set<int> seen;
    for (const std::string& word : words_of(list)) {
        if (word.starts_with("MIG-")) return std::nullopt;
        std::optional<int> gpu;
        if (const auto number = to_integer(word)) {
            if (*number < 0) return std::nullopt;  // -1 ends the list on purpose
            if (*number < static_cast<long long>(gpus.size())) gpu = static_cast<int>(*number);
        } else if (word.starts_with("GPU-")) {
            for (std::size_t i = 0; i < gpus.size(); ++i) {
                if (!gpus[i].uuid) return std::nullopt;  // cannot be told
                if (gpus[i].uuid->starts_with(word)) gpu = static_cast<int>(i);
            }
        } else if (word == "NoDevFiles" || word == "void" || word == "none" || word == "all") {
            return std::nullopt;  // container runtimes' words
        }
        if (!gpu) return Mask{word, false};
        if (!seen.insert(*gpu).second) return Mask{word, true};
    }
    return std::nullopt;
}

void mask_invalid(const Patient& patient, Verdict& verdict) {
    const auto list = patient.inputs.user.variable(kCudaVisible);
    if (!list || trim(*list).empty() || patient.inputs.rccl) return;
    if (patient.machine().gpus.empty()) return;
    const auto mask = broken_mask(patient, *list);
    if (!mask) return;
    const std::size_t left = patient.inputs.visible.size();
    verdict.find(
        left == 0 ? Severity::broken : Severity::slow,
        {.what = fmt::format("CUDA_VISIBLE_DEVICES {} '{}': {} GPU{} {} visible",
                             mask->repeated ? "repeats" : "names an unknown GPU",
                             printable(mask->bad), left == 0 ? "no" : std::to_string(left),
                             left == 1 ? "" : "s", left == 1 ? "stays" : "stay"),
         .evidence = fmt::format("{}; this host has {} GPU{}", assigned(kCudaVisible, *list),
                                 patient.machine().gpus.size(),
                                 patient.machine().gpus.size() == 1 ? "" : "s"),
         .effect = mask->repeated ? "CUDA refuses a list with repeats"
                                  : "the driver stops reading there: 'invalid device ordinal'",
         .fix = "nvidia-smi -L",
         .remark =
             "name GPUs that it lists; inside a Slurm or Kubernetes job they are counted from 0"});
}

void device_order(const Patient& patient, Verdict& verdict) {
    const auto list = patient.inputs.user.variable(kCudaVisible);
    if (!list || patient.inputs.user.variable("CUDA_DEVICE_ORDER") == "PCI_BUS_ID") return;
    std::set<std::string> models;
    for (const Gpu& gpu : patient.machine().gpus)
        if (!gpu.name.empty()) models.insert(gpu.name);
    if (models.size() < 2 || !to_integer(trim(split(*list, ',').front()))) return;
    verdict.note({.what = "CUDA counts GPUs of different models by speed, not as nvidia-smi does",
                  .evidence = fmt::format("{}, {} models, CUDA_DEVICE_ORDER is not PCI_BUS_ID",
                                          assigned(kCudaVisible, *list), models.size()),
                  .effect = "the numbers may select other GPUs than meant",
                  .fix = "export CUDA_DEVICE_ORDER=PCI_BUS_ID",
                  .remark = "or use UUIDs"});
}

constexpr Check kChecks[] = {
    {{"mig-on", kFamily, Severity::note, "MIG mode of GPUs of a job with several ranks"}, mig_on},
    {{"cuda-visible-invalid", kFamily, Severity::broken,
      "CUDA_VISIBLE_DEVICES against the GPUs of this host: a wrong word ends the list"},
     mask_invalid},
    {{"cuda-device-order", kFamily, Severity::note,
      "numbers in CUDA_VISIBLE_DEVICES where GPUs differ and CUDA_DEVICE_ORDER is not set"},
     device_order},
};

}  // namespace

std::span<const Check> visibility_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
