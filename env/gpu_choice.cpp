#include "env/gpu_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "env/rank_count.hpp"
#include "env/rank_order.hpp"
#include "env/ring.hpp"

namespace toporun::env {
namespace {

constexpr const char* kHip = "HIP_VISIBLE_DEVICES";
constexpr const char* kCudaOrder = "CUDA_DEVICE_ORDER";

/// More than the driver and a desktop take of a GPU's memory.
constexpr std::uint64_t kBusyBytes = std::uint64_t{1} << 30;
/// Estimates that differ by less are no reason to touch the list of GPUs (percent).
constexpr long long kClearSet = 110;
constexpr long long kClearOrder = 125;
constexpr long long kClearPairs = 200;  ///< ranks 2i and 2i + 1 alone

bool clearly(long long better, long long worse, long long percent) {
    return better * 100 >= worse * percent && better > worse;
}

/// Indices as nvidia-smi prints them; "2, 3, 6 and 7".
std::string gpu_list(const detect::Machine& machine, const std::vector<int>& gpus) {
    std::string text;
    for (std::size_t i = 0; i < gpus.size(); ++i) {
        if (i > 0) text += i + 1 == gpus.size() ? " and " : ", ";
        text += std::to_string(machine.gpus[static_cast<std::size_t>(gpus[i])].index);
    }
    return text;
}

/// "8(x4)", "3,1", "1": Slurm's run-length form of tasks per node says one for each.
bool one_task_per_node(const std::string& text) {
    const std::vector<std::string> parts = split(text, ',');
    return std::all_of(parts.begin(), parts.end(), [](const std::string& part) {
        return part == "1" || part.starts_with("1(x");
    });
}

/// Whose list of GPUs holds beside the user's own; "" = nobody's.
std::string foreign_list(const Inputs& inputs) {
    for (const char* name :
         {"CUDA_VISIBLE_DEVICES", "HIP_VISIBLE_DEVICES", "ROCR_VISIBLE_DEVICES",
          "GPU_DEVICE_ORDINAL", "SLURM_STEP_GPUS", "SLURM_JOB_GPUS", "SLURM_GPUS_ON_NODE"})
        if (inputs.user.variable(name)) return fmt::format("{} is set already", name);
    if (inputs.user.variable("SLURM_STEP_ID") &&
        !one_task_per_node(inputs.user.variable("SLURM_STEP_TASKS_PER_NODE").value_or("")))
        return "several Slurm tasks may share this node: each would take the same GPUs";
    for (const char* name :
         {"OMPI_COMM_WORLD_LOCAL_SIZE", "MPI_LOCALNRANKS", "MV2_COMM_WORLD_LOCAL_SIZE"})
        if (nccl_integer(inputs.user.variable(name).value_or("0")) > 1)
            return fmt::format("{}: each rank would take the same GPUs", name);
    return {};
}

/// GPUs of several models: which are meant is more than a question of bandwidth.
bool models_differ(const detect::Machine& machine) {
    return std::any_of(machine.gpus.begin(), machine.gpus.end(), [&](const detect::Gpu& gpu) {
        const detect::Gpu& first = machine.gpus.front();
        return gpu.name != first.name || gpu.compute_capability != first.compute_capability;
    });
}

/// Why the list is nothing to choose, "" when it is.
std::string obstacle(const Inputs& inputs) {
    const detect::Machine& machine = inputs.machine;
    const auto& ranks = inputs.job.ranks_per_node;
    if (inputs.job.cpu_job) return kCpuJob;
    if (!inputs.job.same_host) return not_here_text(inputs.job);
    if (!inputs.job.gpu_list_by.empty()) return inputs.job.gpu_list_by;
    if (!inputs.job.rank_gpus_unknown.empty()) return inputs.job.rank_gpus_unknown;
    if (!inputs.job.gpu_bind.empty())
        return fmt::format("each task sees GPUs of its own ({})", inputs.job.gpu_bind);
    if (!ranks) return ranks_unknown_text(inputs.job);
    if (*ranks == 1) return "one rank may drive several GPUs";
    if (*ranks < 1 || static_cast<std::size_t>(*ranks) > machine.gpus.size())
        return "the ranks are not as many as GPUs";
    if (const std::string foreign = foreign_list(inputs); !foreign.empty()) return foreign;
    if (inputs.job.launcher == "shell" && inputs.job.nodes.value_or(1) != 1)
        return "what a shell starts may run on other nodes, whose GPUs are others";
    if (std::any_of(machine.gpus.begin(), machine.gpus.end(),
                    [](const detect::Gpu& gpu) { return gpu.mig.value_or(false); }))
        return "MIG instances are chosen by hand";
    if (models_differ(machine)) return "the GPUs are of different models";
    return {};
}

/// One that takes a single process has it for certain where more is used than without a process:
/// CUDA's context alone is larger.
constexpr std::uint64_t kExclusiveBusyBytes = std::uint64_t{256} << 20;

std::uint64_t busy_bytes(const detect::Gpu& gpu) {
    return gpu.compute_mode == "exclusive-process" ? kExclusiveBusyBytes : kBusyBytes;
}

/// GPUs that nobody uses as far as is known, and that have no fault.
std::vector<int> idle_gpus(const detect::Machine& machine) {
    std::vector<int> idle;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        if (machine.gpus[i].memory_used_bytes.value_or(0) <= busy_bytes(machine.gpus[i]) &&
            !machine.gpus[i].row_remap_failed.value_or(false) &&
            machine.gpus[i].responding.value_or(true) &&
            machine.gpus[i].compute_mode != "prohibited")
            idle.push_back(static_cast<int>(i));
    return idle;
}

bool use_known(const detect::Machine& machine) {
    return std::all_of(machine.gpus.begin(), machine.gpus.end(),
                       [](const detect::Gpu& gpu) { return gpu.memory_used_bytes.has_value(); });
}

/// Unknown counts as one, unless there is a rendezvous to meet others at.
bool one_node(const Job& job) {
    return job.nodes ? *job.nodes == 1 : job.rendezvous.empty();
}

struct Choice {
    std::vector<int> gpus;  ///< empty: as without toporun
    std::string reason;
    std::string evidence;
};

std::string order_note(const PairRates& rates, std::vector<int>& gpus, const Inputs& inputs) {
    if (!one_node(inputs.job)) return {};  // ranks of one number share a rail between nodes
    const RankOrder given = order_as_given(rates, gpus);
    const RankOrder best = best_order(rates, gpus);
    if (best.gpus == given.gpus) return {};
    if (!clearly(best.ring, given.ring, kClearOrder) &&
        !clearly(best.sum, given.sum, kClearOrder) &&
        (gpus.size() % 2 != 0 || !clearly(best.pairs, given.pairs, kClearPairs)))
        return {};
    gpus = best.gpus;
    const bool pairs_alone = best.sum == given.sum;
    return fmt::format(
        "in this order {} exchange {} together, in the order of their numbers {} (estimated)",
        pairs_alone ? "ranks 0 and 1, 2 and 3, ..." : "neighbouring ranks",
        rate_text(pairs_alone ? best.pairs : best.sum),
        rate_text(pairs_alone ? given.pairs : given.sum));
}

/// All GPUs are taken: only their order is a choice.
Choice choose_order(const Inputs& inputs, const PairRates& rates) {
    Choice choice{inputs.visible, "", ""};
    choice.evidence = order_note(rates, choice.gpus, inputs);
    if (choice.evidence.empty())
        return {{}, "all GPUs are used, and no other order of them is clearly faster", ""};
    choice.reason =
        "neighbouring ranks, which tensor and pipeline parallelism pair, get the fastest links; "
        "NCCL orders the ring of a data-parallel group by itself";
    return choice;
}

Choice choose_set(const Inputs& inputs, const PairRates& rates, int count) {
    const detect::Machine& machine = inputs.machine;
    const GpuPlaces places = gpu_places(machine);
    const bool several_nodes = !one_node(inputs.job);
    const std::vector<int> idle = idle_gpus(machine);
    const std::vector<int> first(inputs.visible.begin(), inputs.visible.begin() + count);
    const std::string use = use_known(machine) ? "" : "; which are in use is not known";
    if (idle.size() < static_cast<std::size_t>(count))
        return {{},
                fmt::format("{} of {} GPUs are free, the job needs {}", idle.size(),
                            machine.gpus.size(), count),
                ""};
    const auto best = best_gpu_set(rates, places, idle, count, several_nodes);
    if (!best) return {{}, "no set of GPUs can work together", ""};
    const GpuSet plain = judge_gpu_set(rates, places, first);
    const bool free = std::all_of(first.begin(), first.end(), [&](int gpu) {
        return std::find(idle.begin(), idle.end(), gpu) != idle.end();
    });
    const bool faster =
        clearly(best->pace, plain.pace, kClearSet) ||
        (best->pace >= plain.pace && (clearly(best->sum, plain.sum, kClearSet) ||
                                      (several_nodes && best->adapters > plain.adapters)));
    Choice choice;
    choice.gpus = free && !faster ? first : best->gpus;
    const std::string order = order_note(rates, choice.gpus, inputs);
    if (free && !faster && order.empty())
        return {{},
                fmt::format("the first {} GPUs are as good as any: collectives at {} (estimated){}",
                            count, rate_text(plain.pace), use),
                ""};
    const GpuSet& taken = free && !faster ? plain : *best;
    choice.reason = fmt::format(
        "{} of {} GPUs: {}", count, machine.gpus.size(),
        !free    ? "the first ones are in use or have a fault, these are the fastest of the rest"
        : faster ? "these are the fastest together"
                 : "the first ones, so ordered that neighbouring ranks get the fastest links");
    choice.evidence =
        fmt::format(
            "GPUs {}: collectives at {}, all pairs {} together; GPUs {}: {}, {} (estimated)",
            gpu_list(machine, taken.gpus), rate_text(taken.pace), rate_text(taken.sum),
            gpu_list(machine, first), rate_text(plain.pace), rate_text(plain.sum)) +
        (taken.adapters > plain.adapters && several_nodes
             ? fmt::format("; {} adapters near them instead of {}", taken.adapters, plain.adapters)
             : "") +
        (order.empty() ? "" : "; " + order) + use;
    return choice;
}

/// Full UUIDs, which the driver takes whatever the order of numbers is.
bool has_uuids(const detect::Machine& machine, const std::vector<int>& gpus) {
    std::set<std::string> seen;
    for (const detect::Gpu& gpu : machine.gpus) {
        const std::string uuid = gpu.uuid.value_or("");
        const bool plain = std::all_of(uuid.begin(), uuid.end(), [](unsigned char c) {
            return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                   c == '-';
        });
        if (!uuid.starts_with("GPU-") || uuid.size() < 8 || !plain || !seen.insert(uuid).second)
            return false;
    }
    return !gpus.empty();
}

/// The driver's numbers are positions in the list: no GPU of the host is missing in it.
bool numbers_hold(const detect::Machine& machine) {
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        if (machine.gpus[i].index != static_cast<int>(i)) return false;
    return true;
}

std::string list_text(const detect::Machine& machine, const std::vector<int>& gpus, bool uuids) {
    std::vector<std::string> words;
    for (const int gpu : gpus)
        words.push_back(uuids ? *machine.gpus[static_cast<std::size_t>(gpu)].uuid
                              : std::to_string(gpu));
    return join(words, ",");
}

/// The settings for the list, empty when it cannot be written with certainty.
std::vector<Setting> write_list(const Inputs& inputs, const Choice& choice,
                                const std::string& without) {
    const bool uuids = !inputs.rccl && has_uuids(inputs.machine, choice.gpus);
    std::vector<Setting> settings;
    if (!uuids && !numbers_hold(inputs.machine)) return settings;
    settings.push_back(detected(inputs.rccl ? kHip : kCudaVisibleDevices,
                                list_text(inputs.machine, choice.gpus, uuids), choice.reason,
                                choice.evidence, without));
    if (uuids || inputs.rccl) return settings;
    if (inputs.user.variable(kCudaOrder).value_or("PCI_BUS_ID") != "PCI_BUS_ID") return {};
    settings.push_back(detected(
        kCudaOrder, "PCI_BUS_ID", "the numbers in CUDA_VISIBLE_DEVICES are those of nvidia-smi",
        "the UUIDs of the GPUs are not known", "CUDA counts the fastest GPU first"));
    return settings;
}

}  // namespace

GpuDecision decide_gpus(const Inputs& inputs) {
    GpuDecision decision{{}, inputs.visible, inputs.visible_note};
    const detect::Machine& machine = inputs.machine;
    const char* name = inputs.rccl ? kHip : kCudaVisibleDevices;
    if (machine.gpus.size() < 2) return decision;
    const std::string without = "rank r uses GPU r of the machine";
    const auto leave = [&](const std::string& reason, const std::string& evidence) {
        decision.settings = {settle(inputs, left_alone(name, reason, evidence, without))};
        return decision;
    };
    if (const std::string reason = obstacle(inputs); !reason.empty()) return leave(reason, "");
    const int count = *inputs.job.ranks_per_node;
    const auto rates = estimate_pair_rates(inputs, count);
    if (!rates) return leave("the paths between the GPUs are not known", "");
    const Choice choice = static_cast<std::size_t>(count) < machine.gpus.size()
                              ? choose_set(inputs, *rates, count)
                              : choose_order(inputs, *rates);
    if (choice.gpus.empty()) return leave(choice.reason, choice.evidence);
    std::vector<Setting> settings = write_list(inputs, choice, without);
    if (settings.empty())
        return leave("the GPUs have no certain names: neither UUIDs nor numbers are sure",
                     fmt::format("best would be GPUs {}; {}", gpu_list(machine, choice.gpus),
                                 choice.evidence));
    bool taken = true;
    for (Setting& setting : settings) {
        const bool own = setting.name == kCudaOrder && inputs.user.variable(kCudaOrder);
        setting = settle(inputs, std::move(setting));
        taken = taken && (setting.exported || own);
    }
    if (taken) {
        decision.visible = choice.gpus;
        decision.visible_note = fmt::format("{}, toporun's choice", name);
    } else {  // one without the other would name other GPUs
        for (Setting& setting : settings)
            if (setting.exported)
                setting = left_alone(setting.name, fmt::format("{} is left alone", kCudaOrder),
                                     setting.evidence, setting.nccl_default);
    }
    decision.settings = std::move(settings);
    return decision;
}

}  // namespace toporun::env
