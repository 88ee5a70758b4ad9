#include <fmt/format.h>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// Containers: shared memory, the driver's library.
namespace toporun::env::doctor {
namespace {

using detect::Machine;

constexpr std::string_view kFamily = "container";
constexpr std::uint64_t kMiB = 1ull << 20;
/// Docker's default.
constexpr std::uint64_t kDockerShm = 64 * kMiB;
/// NCCL maps 9637888 bytes a connection and channel ("Error while creating shared memory segment
/// ... size 9637888"); a rank of a ring has two peers, and loaders pass their batches here too.
constexpr std::uint64_t kShmOfRank = 64 * kMiB;
constexpr std::uint64_t kConnection = 9637888;

bool uses_shared_memory(const Patient& patient) {
    return std::any_of(patient.plan.pairs.begin(), patient.plan.pairs.end(),
                       [](const Pair& pair) { return pair.transport == "SHM"; });
}

/// From 2.24 on with a driver of CUDA 12.6 the buffers are cuMem allocations.
bool buffers_are_files(const Patient& patient) {
    const auto& driver = patient.software().driver;
    const bool cumem = nccl_since(patient, 22400) && driver &&
                       profiles::compare_versions(*driver, "560") >= 0 &&
                       user_number(patient, "NCCL_CUMEM_HOST_ENABLE") != 0;
    return !cumem;
}

struct Advice {
    const char* fix;
    const char* remark;
};

Advice shm_fix(const Machine& machine) {
    const std::string& kind = machine.software.container_kind;
    if (kind == "kubernetes")
        return {"mount an emptyDir with 'medium: Memory' and sizeLimit 8Gi at /dev/shm",
                "docker: --shm-size=8g or --ipc=host"};
    if (kind == "apptainer" || kind == "singularity")
        return {"mount -o remount,size=8G /dev/shm",
                "as root on the host, whose /dev/shm apptainer uses; docker: --shm-size=8g or "
                "--ipc=host"};
    if (!machine.container && kind.empty())
        return {"docker run --shm-size=8g",
                "or --ipc=host; on the host itself mount -o remount,size=8G /dev/shm"};
    return {"docker run --shm-size=8g", "or --ipc=host"};
}

void shm_small(const Patient& patient, Verdict& verdict) {
    const int ranks = ranks_here(patient);
    if (patient.inputs.visible.empty() || ranks < 1) return;
    const auto& size = patient.machine().limits.shm_bytes;
    if (!size) return verdict.unknown("the size of /dev/shm");
    const std::uint64_t wanted =
        ranks < 2 ? kDockerShm + 1 : kDockerShm + static_cast<std::uint64_t>(ranks) * kShmOfRank;
    if (*size >= wanted) return;
    const bool breaks = ranks > 1 && uses_shared_memory(patient) && buffers_are_files(patient) &&
                        *size <= kDockerShm;
    verdict.find(
        breaks ? Severity::broken : Severity::slow,
        {.what = fmt::format("/dev/shm has {} for {} rank{}; at least 1 GiB is wanted",
                             format_bytes(*size), ranks, ranks == 1 ? "" : "s"),
         .evidence = "size of /dev/shm (df -h /dev/shm)",
         .effect = breaks ? "NCCL stops with 'No space left on device', loader workers die with a "
                            "bus error"
                          : "loader workers die with a bus error when their batches fill it, and "
                            "NCCL stops where it uses shared memory",
         .fix = shm_fix(patient.machine()).fix,
         .remark = shm_fix(patient.machine()).remark});
}

void shm_full(const Patient& patient, Verdict& verdict) {
    const int ranks = ranks_here(patient);
    const auto& limits = patient.machine().limits;
    if (patient.inputs.visible.empty() || ranks < 2 || !limits.shm_bytes) return;
    if (!limits.shm_free_bytes) return verdict.unknown("the free space of /dev/shm");
    const std::uint64_t needed = static_cast<std::uint64_t>(ranks) * 2 * kConnection;
    if (*limits.shm_bytes < needed * 2) return;  // shm-too-small tells it
    if (*limits.shm_free_bytes >= needed) return;
    verdict.slow(
        {.what = fmt::format("/dev/shm is nearly full: {} of {} free",
                             format_bytes(*limits.shm_free_bytes), format_bytes(*limits.shm_bytes)),
         .evidence = "df -h /dev/shm",
         .effect = "NCCL and loader workers stop with 'No space left on device'",
         .fix = "ls -lt /dev/shm",
         .remark = "remove what dead jobs left (nccl-*, torch_*, psm_*) while none of them runs"});
}

void library_mismatch(const Patient& patient, Verdict& verdict) {
    for (const std::string& note : patient.machine().notes) {
        if (note.find("river/library version mismatch") == std::string::npos) continue;
        verdict.broken({.what = "the NVIDIA library and the loaded kernel module are of "
                                "different versions",
                        .evidence = printable(note),
                        .effect = "no CUDA program starts",
                        .fix = patient.machine().container
                                   ? "remove the driver libraries of the image: the container "
                                     "runtime brings the host's; or reboot the host after its "
                                     "driver was updated"
                                   : "rmmod nvidia_uvm nvidia_drm nvidia_modeset nvidia && "
                                     "modprobe nvidia",
                        .remark = patient.machine().container
                                      ? ""
                                      : "once no program uses the GPUs; or reboot"});
        return;
    }
}

constexpr Check kChecks[] = {
    {{"shm-too-small", kFamily, Severity::broken,
      "the size of /dev/shm by number of ranks: 64 MiB is Docker's default, NCCL and loader "
      "workers need more"},
     shm_small},
    {{"shm-full", kFamily, Severity::slow, "the free space of /dev/shm"}, shm_full},
    {{"driver-library-mismatch", kFamily, Severity::broken,
      "whether NVML refuses because library and kernel module differ"},
     library_mismatch},
};

}  // namespace

std::span<const Check> container_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
