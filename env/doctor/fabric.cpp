#include <fmt/format.h>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// NVSwitch fabric: its manager, its state, and the channels of racks that NVLink joins.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;

constexpr std::string_view kFamily = "fabric";

std::vector<int> gpus_in_state(const Patient& patient, std::string_view state) {
    return visible_gpus(patient, [&](const Gpu& gpu) { return gpu.fabric_state == state; });
}

bool has_switches(const Machine& machine) {
    if (machine.nvswitch) return true;
    for (const Gpu& gpu : machine.gpus)
        for (const detect::GpuLink& link : gpu.links)
            if (link.peer_kind == "switch") return true;
    return false;
}

/// The manager is seen as a process of this host: not from inside a container, and not in guests
/// whose host runs it. Trays of a rack have no switches of their own. Hopper and later tell by
/// their fabric state whether it did its work.
void manager_down(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!has_switches(machine) || machine.container || machine.virtual_machine) return;
    if (in_rack(patient) || !has_nvidia_gpu(patient)) return;
    if (!gpus_in_state(patient, "completed").empty()) return;
    const auto& running = machine.software.fabric_manager;
    if (!running) return verdict.unknown("whether a fabric manager runs");
    if (*running) return;
    verdict.broken({.what = "no fabric manager runs, and this machine has NVSwitches",
                    .evidence = "no nv-fabricmanager among the processes",
                    .effect = "CUDA does not start on these GPUs (error 802, system not yet "
                              "initialized)",
                    .fix = "systemctl enable --now nvidia-fabricmanager",
                    .remark = "it must be of the very version of the driver"});
}

void not_ready(const Patient& patient, Verdict& verdict) {
    for (const char* state : {"not started", "in progress"}) {
        const std::vector<int> gpus = gpus_in_state(patient, state);
        if (gpus.empty()) continue;
        verdict.broken(
            {.what = fmt::format(
                 "the NVSwitch fabric of {} is {}", gpus_text(patient.machine(), gpus),
                 std::string_view(state) == "not started" ? "not started" : "not ready"),
             .evidence = fmt::format("fabric state '{}' (nvidia-smi -q, Fabric)", state),
             .effect = "CUDA does not start on them (error 802, system not yet initialized)",
             .fix = "systemctl status nvidia-fabricmanager",
             .remark = "its version must be the driver's; in a guest or container it is the host's",
             .where = gpus_text(patient.machine(), gpus)});
    }
}

void failed(const Patient& patient, Verdict& verdict) {
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.fabric_state == "completed" && !gpu.fabric_status.empty() &&
               gpu.fabric_status != "success" && gpu.fabric_status != "Success";
    });
    if (gpus.empty()) return;
    const std::string& status = gpu_at(patient, gpus.front()).fabric_status;
    verdict.broken(
        {.what = fmt::format("{} could not join the NVSwitch fabric",
                             gpus_text(patient.machine(), gpus)),
         .evidence = fmt::format("fabric state 'completed', status '{}'", printable(status)),
         .effect = "NVLink and NVLS fail, often only when NCCL allocates "
                   "('invalid argument' in nvls.cc)",
         .fix = "nvidia-smi --gpu-reset",
         .remark = "after all jobs have stopped, or a reboot; a fabric manager that was restarted "
                   "under running jobs leaves this behind"});
}

/// Only racks (NVL72) need channels, and only for jobs of several nodes.
void imex(const Patient& patient, Verdict& verdict) {
    if (!in_rack(patient) || !maybe_several_nodes(patient)) return;
    if (user_number(patient, "NCCL_MNNVL_ENABLE") == 0) return;
    const auto& channels = patient.software().imex_channels;
    if (!channels) return verdict.unknown("the IMEX channels");
    if (*channels > 0) return;
    const bool inside = patient.machine().container;
    verdict.slow({.what = "no IMEX channel: NVLink between the nodes of the rack cannot be used",
                  .evidence = "no /dev/nvidia-caps-imex-channels/channel*",
                  .effect = "NCCL takes the network between nodes, or stops with 'MNNVL is "
                            "available but not working'",
                  .fix = inside ? "docker run --device=/dev/nvidia-caps-imex-channels/channel0 ..."
                                : "systemctl enable --now nvidia-imex",
                  .remark = inside ? "in Kubernetes a ComputeDomain of NVIDIA's DRA driver"
                                   : "and load the driver with NVreg_CreateImexChannel0=1"});
}

constexpr Check kChecks[] = {
    {{"fabric-manager-down", kFamily, Severity::broken,
      "whether the fabric manager runs on a host with NVSwitches: without it CUDA does not start"},
     manager_down},
    {{"fabric-not-ready", kFamily, Severity::broken,
      "the fabric state of GPUs behind NVSwitches: not started or in progress means error 802"},
     not_ready},
    {{"fabric-failed", kFamily, Severity::broken,
      "the fabric status of GPUs that completed with an error: stale after a restart of the "
      "fabric manager"},
     failed},
    {{"imex-channel-missing", kFamily, Severity::slow,
      "IMEX channels on trays of an NVLink rack (GB200, GB300), in jobs of several nodes"},
     imex},
};

}  // namespace

std::span<const Check> fabric_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
