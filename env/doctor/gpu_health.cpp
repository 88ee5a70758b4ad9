#include <fmt/format.h>

#include <map>
#include <set>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// The GPUs themselves.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;

constexpr std::string_view kFamily = "gpu";

std::vector<int> all_gpus(const Machine& machine, bool (*holds)(const Gpu&)) {
    std::vector<int> found;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        if (holds(machine.gpus[i])) found.push_back(static_cast<int>(i));
    return found;
}

/// What stands for the GPU in a command, and what that means where there are several.
struct Number {
    std::string text, remark;
};
Number number_of(const Machine& machine, const std::vector<int>& gpus) {
    if (gpus.size() != 1) return {"N", "; N is the number of each GPU"};
    return {fmt::format("{}", machine.gpus[static_cast<std::size_t>(gpus.front())].index), ""};
}

void lost(const Patient& patient, Verdict& verdict) {
    const auto gpus =
        all_gpus(patient.machine(), [](const Gpu& gpu) { return gpu.responding == false; });
    if (gpus.empty()) return;
    verdict.broken(
        {.what = fmt::format("{} {} not answer the driver", gpus_text(patient.machine(), gpus),
                             gpus.size() == 1 ? "does" : "do"),
         .evidence = "nvidia-smi: ERR! in its row, no device handle, or: GPU is lost",
         .effect = "jobs with it do not start or hang, and often those of its "
                   "neighbours as well",
         .fix = "dmesg | grep -i xid",
         .remark = "79 says that it fell off the bus: leave it out "
                   "(CUDA_VISIBLE_DEVICES) until the machine was power-cycled; if it "
                   "comes back: power cable, riser, replacement"});
}

/// A process holds the one place of an exclusive GPU: memory beyond what a display takes is used.
void exclusive_in_use(const Patient& patient, Verdict& verdict) {
    constexpr std::uint64_t kBusyBytes = std::uint64_t{1} << 30;
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.compute_mode == "exclusive-process" &&
               gpu.memory_used_bytes.value_or(0) > kBusyBytes;
    });
    if (gpus.empty()) return;
    const std::size_t free = patient.inputs.visible.size() - gpus.size();
    const bool needed = static_cast<std::size_t>(ranks_here(patient)) > free;
    verdict.find(
        needed ? Severity::broken : Severity::note,
        {.what = fmt::format("{} {} one process at a time and {} in use already",
                             gpus_text(patient.machine(), gpus),
                             gpus.size() == 1 ? "takes" : "take", gpus.size() == 1 ? "is" : "are"),
         .evidence = "compute mode exclusive and memory in use (nvidia-smi)",
         .effect = "CUDA does not start there: all CUDA-capable devices are busy or "
                   "unavailable",
         .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv",
         .remark = "it names the process; wait for its end, or take other GPUs "
                   "(CUDA_VISIBLE_DEVICES)"});
}

/// CUDA refuses a GPU that is prohibited, and a second process on an exclusive one.
void compute_mode(const Patient& patient, Verdict& verdict) {
    const auto prohibited =
        visible_gpus(patient, [](const Gpu& gpu) { return gpu.compute_mode == "prohibited"; });
    const auto exclusive = visible_gpus(
        patient, [](const Gpu& gpu) { return gpu.compute_mode == "exclusive-process"; });
    const auto visible = static_cast<int>(patient.inputs.visible.size());
    const bool shared = patient.inputs.job.ranks_per_node.value_or(0) > visible;
    const auto& gpus = prohibited.empty() && shared ? exclusive : prohibited;
    if (gpus.empty()) return exclusive_in_use(patient, verdict);
    const Number number = number_of(patient.machine(), gpus);
    verdict.broken(
        {.what = fmt::format("{} {}", gpus_text(patient.machine(), gpus),
                             prohibited.empty() ? "takes one process at a time, and the job has "
                                                  "more ranks than GPUs"
                                                : "takes no job: its compute mode is Prohibited"),
         .evidence = "nvidia-smi --query-gpu=compute_mode --format=csv",
         .effect = "CUDA does not start there: all CUDA-capable devices are busy or unavailable",
         .fix = fmt::format("nvidia-smi -i {} -c DEFAULT", number.text),
         .remark = "as root" + number.remark});
}

void uncorrected_errors(const Patient& patient, Verdict& verdict) {
    std::uint64_t most = 0;
    const Machine& machine = patient.machine();
    for (const Gpu& gpu : machine.gpus) most = std::max(most, gpu.uncorrected_errors.value_or(0));
    if (most == 0) return;
    const auto gpus =
        all_gpus(machine, [](const Gpu& gpu) { return gpu.uncorrected_errors.value_or(0) > 0; });
    const Number number = number_of(machine, gpus);
    verdict.slow({.what = fmt::format("memory of {} had errors that ECC could not correct",
                                      gpus_text(machine, gpus)),
                  .evidence = fmt::format(
                      "up to {} of one since the driver started (nvidia-smi -q -d ECC)", most),
                  .effect = "a job that meets such an error ends with Xid 48, 94 or 95",
                  .fix = fmt::format("nvidia-smi --gpu-reset -i {}", number.text),
                  .remark = "after the jobs there have stopped" + number.remark +
                            "; when they come back have it replaced"});
}

void remap_failed(const Patient& patient, Verdict& verdict) {
    const auto gpus =
        all_gpus(patient.machine(), [](const Gpu& gpu) { return gpu.row_remap_failed == true; });
    if (gpus.empty()) return;
    verdict.broken(
        {.what = fmt::format("{} could not repair {} memory", gpus_text(patient.machine(), gpus),
                             gpus.size() == 1 ? "its" : "their"),
         .evidence = "row remapping failed (nvidia-smi -q -d ROW_REMAPPER)",
         .effect = "jobs there die with Xid 64, 94 or 95",
         .fix = "leave it out (CUDA_VISIBLE_DEVICES) and have it replaced"});
}

void remap_pending(const Patient& patient, Verdict& verdict) {
    const auto gpus =
        all_gpus(patient.machine(), [](const Gpu& gpu) { return gpu.row_remap_pending == true; });
    if (gpus.empty()) return;
    const Number number = number_of(patient.machine(), gpus);
    verdict.slow({.what = fmt::format("{} waits for a reset to repair memory",
                                      gpus_text(patient.machine(), gpus)),
                  .evidence = "row remapping pending (nvidia-smi -q -d ROW_REMAPPER)",
                  .effect = "the damaged rows stay in use until then, the next error ends the job",
                  .fix = fmt::format("nvidia-smi --gpu-reset -i {}", number.text),
                  .remark = "after the jobs there have stopped" + number.remark});
}

/// A power cap at the board's limit is normal on a busy GPU.
bool is_fault(const std::string& reason) {
    return contains_any(reason, {"thermal", "brake", "hw", "hardware"});
}

void throttled(const Patient& patient, Verdict& verdict) {
    std::vector<int> gpus;
    std::set<std::string> reasons;
    for (std::size_t i = 0; i < patient.machine().gpus.size(); ++i) {
        bool any = false;
        for (const std::string& reason : patient.machine().gpus[i].throttle_reasons)
            if (is_fault(reason)) any = true, reasons.insert(reason);
        if (any) gpus.push_back(static_cast<int>(i));
    }
    if (gpus.empty()) return;
    verdict.slow({.what = fmt::format("the clocks of {} are held down: {}",
                                      gpus_text(patient.machine(), gpus),
                                      and_list({reasons.begin(), reasons.end()})),
                  .evidence = "nvidia-smi -q -d PERFORMANCE",
                  .effect = "one slow GPU makes all others wait in every collective",
                  .fix = "nvidia-smi -q -d TEMPERATURE,POWER",
                  .remark = "look at cooling, power cables and supplies"});
}

/// More than a desktop takes, while nothing of this job runs yet.
void memory_in_use(const Patient& patient, Verdict& verdict) {
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.memory_bytes && gpu.memory_used_bytes && *gpu.memory_bytes > 0 &&
               *gpu.memory_used_bytes > *gpu.memory_bytes / 4;
    });
    if (gpus.empty()) return;
    std::uint64_t most = 0;
    for (const int position : gpus)
        most = std::max(most, gpu_at(patient, position).memory_used_bytes.value_or(0));
    verdict.note(
        {.what = fmt::format("memory of {} is in use already", gpus_text(patient.machine(), gpus)),
         .evidence = fmt::format("up to {} of one (nvidia-smi)", format_bytes(most)),
         .effect = "the job shares these GPUs with another one, or with what a dead job "
                   "left behind",
         .fix = "nvidia-smi --query-compute-apps=pid,name,used_memory --format=csv"});
}

void mixed_models(const Patient& patient, Verdict& verdict) {
    std::map<std::string, int> models;
    for (const int position : patient.inputs.visible) {
        const Gpu& gpu = gpu_at(patient, position);
        if (!gpu.name.empty() && gpu.mig != true) ++models[gpu.name];
    }
    if (models.size() < 2) return;
    std::vector<std::string> words;
    int most = 0;
    for (const auto& [name, count] : models) {
        words.push_back(fmt::format("{} x {}", count, name));
        most = std::max(most, count);
    }
    const bool needed = patient.inputs.job.ranks_per_node.value_or(0) > most;
    verdict.find(
        needed ? Severity::slow : Severity::note,
        {.what = fmt::format("the GPUs are of {} models", models.size()),
         .evidence = join(words, ", "),
         .effect = "the slowest sets the pace, and P2P between generations is often "
                   "refused",
         .fix = "name the GPUs of one model in CUDA_VISIBLE_DEVICES for jobs that fit there",
         .remark = "with CUDA_DEVICE_ORDER=PCI_BUS_ID the numbers are nvidia-smi's; else "
                   "CUDA counts the fastest first"});
}

void persistence_off(const Patient& patient, Verdict& verdict) {
    if (patient.machine().virtual_machine) return;
    const auto gpus = all_gpus(patient.machine(), [](const Gpu& gpu) {
        return gpu.persistence == false && is_server_gpu(gpu) && gpu.vendor == "nvidia";
    });
    if (gpus.size() < 2) return;
    verdict.note(
        {.what = fmt::format("persistence mode is off on {}", gpus_text(patient.machine(), gpus)),
         .evidence = "nvidia-smi --query-gpu=persistence_mode --format=csv",
         .effect = "the driver starts the GPUs anew for every job: seconds each",
         .fix = "systemctl enable --now nvidia-persistenced"});
}

/// Boards have 4, 8 or 16 modules; a container, a guest or a job's control group may show any
/// number of them.
void count_odd(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!machine.nvswitch || machine.container || machine.virtual_machine ||
        !machine.software.scheduler.empty() || !machine.gpus_known)
        return;
    const std::size_t count = machine.gpus.size();
    if (count < 5 || count == 8 || count == 16) return;
    if (!std::all_of(machine.gpus.begin(), machine.gpus.end(), is_sxm)) return;
    const std::size_t board = count < 8 ? 8 : 16;
    const auto withheld =
        static_cast<std::size_t>(std::max(0, machine.software.gpus_withheld.value_or(0)));
    if (count + withheld >= board) {
        verdict.note({.what = fmt::format("{} of {} GPUs are shown, all are on the PCI bus", count,
                                          count + withheld),
                      .evidence = "NVML's list and /sys/bus/pci/devices",
                      .effect = "jobs for the whole board do not start here",
                      .fix = "dmesg | grep -e Xid -e RmInitAdapter",
                      .remark = "nothing there: a control group of this session keeps them away"});
        return;
    }
    verdict.slow({.what = fmt::format("{} GPUs on a board that has {}", count, board),
                  .evidence = "NVML's list",
                  .effect = "a GPU that fell off the bus is missing; jobs for the whole board do "
                            "not start",
                  .fix = "dmesg | grep -i xid",
                  .remark = "79 says that it fell off the bus; power-cycle the machine"});
}

constexpr Check kChecks[] = {
    {{"gpu-not-responding", kFamily, Severity::broken, "GPUs that do not answer the driver"}, lost},
    {{"gpu-compute-mode", kFamily, Severity::broken,
      "GPUs on which CUDA starts no process, or no second one where one runs"},
     compute_mode},
    {{"gpu-ecc-errors", kFamily, Severity::slow,
      "memory errors that ECC could not correct, since the driver started"},
     uncorrected_errors},
    {{"gpu-row-remap-failed", kFamily, Severity::broken, "GPUs whose memory could not be repaired"},
     remap_failed},
    {{"gpu-row-remap-pending", kFamily, Severity::slow,
      "GPUs whose memory is repaired at the next reset only"},
     remap_pending},
    {{"gpu-throttled", kFamily, Severity::slow,
      "clocks held down by heat or by the power supply; a power cap is normal"},
     throttled},
    {{"gpu-memory-in-use", kFamily, Severity::note,
      "GPU memory that is taken before the job starts"},
     memory_in_use},
    {{"gpu-mixed-models", kFamily, Severity::slow, "whether the visible GPUs are of one model"},
     mixed_models},
    {{"gpu-persistence-off", kFamily, Severity::note, "persistence mode of server GPUs"},
     persistence_off},
    {{"gpu-count-odd", kFamily, Severity::slow,
      "the number of GPUs on a board with NVSwitches, outside of jobs: 7 means that one fell off "
      "the bus"},
     count_odd},
};

}  // namespace

std::span<const Check> gpu_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
