#include "env/gpu_advice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <optional>

#include "base/text.hpp"
#include "env/matrix.hpp"
#include "env/pair_rates.hpp"
#include "env/ring.hpp"

namespace toporun::env {
namespace {

constexpr int kHalvesFaster = 150;  ///< percent: halves that are worth a word

std::string numbers_of(const detect::Machine& machine, const std::vector<int>& gpus) {
    std::vector<std::string> words;
    for (const int gpu : gpus)
        words.push_back(std::to_string(machine.gpus[static_cast<std::size_t>(gpu)].index));
    return join(words, ",");
}

std::optional<Finding> several_instances(const Inputs& inputs) {
    const auto list = inputs.user.variable(kCudaVisibleDevices);
    if (!list) return std::nullopt;
    const std::vector<std::string> words = split(*list, ',');
    const auto count = std::count_if(words.begin(), words.end(), [](const std::string& word) {
        return trim(word).starts_with("MIG-");
    });
    if (count < 2) return std::nullopt;
    const bool ranks = inputs.job.ranks_per_node.value_or(1) > 1;
    return Finding{
        "mig-several-instances",
        ranks ? Severity::broken : Severity::slow,
        fmt::format("CUDA_VISIBLE_DEVICES lists {} MIG instances, CUDA takes only the first",
                    count),
        fmt::format("{}={}", kCudaVisibleDevices, *list),
        ranks ? "all ranks land on one instance, or stop with an invalid device"
              : "the other instances stay idle",
        "give each process one MIG UUID of its own",
        ""};
}

/// The scheduler's word for GPUs that differ from task to task; "" = none.
std::string task_binding(const Inputs& inputs) {
    if (!inputs.job.gpu_bind.empty())
        return sees_some_gpus(inputs.job.gpu_bind) ? inputs.job.gpu_bind : std::string();
    for (const char* name : {"SLURMD_TRES_BIND", "SLURM_TRES_BIND", "SLURM_GPU_BIND"}) {
        const std::string value = inputs.user.variable(name).value_or("");
        for (const std::string_view word : {"per_task", "single:", "map_gpu:"})
            if (value.find(word) != std::string::npos) return fmt::format("{}={}", name, value);
    }
    return {};
}

std::optional<Finding> one_gpu_per_task(const Inputs& inputs) {
    const std::string binding = task_binding(inputs);
    const bool inside = inputs.user.variable("SLURM_LOCALID").has_value();
    const auto local = to_integer(inputs.user.variable("SLURM_LOCALID").value_or(""));
    const auto list = inputs.user.variable(kCudaVisibleDevices);
    // A list of one beside a higher local rank says the same without the binding's name.
    const bool hidden = local.value_or(0) > 0 && inputs.user.variable("SLURM_STEP_ID") && list &&
                        !list->empty() && list->find(',') == std::string::npos;
    if (binding.empty() && !hidden) return std::nullopt;
    const int ranks = inputs.job.ranks_per_node.value_or(2);
    if (!hidden && !inside && ranks < 2) return std::nullopt;
    Finding finding;
    finding.id = "one-gpu-per-task";
    finding.severity = Severity::slow;
    finding.what =
        hidden
            ? fmt::format("task {} sees 1 GPU but its local rank is {}: device {} does not exist",
                          *local, *local, *local)
            : fmt::format("each task sees GPUs of its own only, one GPU per task ({})", binding);
    finding.evidence =
        hidden ? fmt::format("SLURM_LOCALID={}, {}={}", *local, kCudaVisibleDevices, *list)
               : binding;
    finding.effect =
        "code that takes device LOCAL_RANK stops ('invalid device ordinal'); where the tasks have "
        "device cgroups CUDA IPC fails and NCCL goes through shared memory";
    const bool flux = inputs.job.launcher == "flux";
    finding.fix = flux ? "flux run -o gpu-affinity=off"
                       : (binding.starts_with("--tres") ? "srun --tres-bind=gres/gpu:none"
                                                        : "srun --gpu-bind=none");
    finding.remark =
        fmt::format("every task then sees all GPUs of its node and chooses by local rank{}",
                    flux ? "" : "; Slurm 24.05 and later: --tres-bind=gres/gpu:none");
    return finding;
}

/// One GPU of the job without NVLink, all others joined with each other.
std::optional<Finding> outside_fabric(const Inputs& inputs, const std::vector<int>& gpus) {
    const PairMatrix matrix(inputs.machine);
    if (gpus.size() < 4 || !matrix.known()) return std::nullopt;
    const auto joined = [&](int a, int b) {
        return matrix.direct_nvlink(a, b) ||
               (matrix.path(a, b) == detect::PathType::NVB && !matrix.mig(a, b));
    };
    std::vector<int> outside;
    for (const int gpu : gpus) {
        if (std::any_of(gpus.begin(), gpus.end(), [&](int other) {
                return other != gpu && matrix.path(gpu, other) == detect::PathType::DIS;
            }))
            return std::nullopt;
        if (std::none_of(gpus.begin(), gpus.end(),
                         [&](int other) { return other != gpu && joined(gpu, other); }))
            outside.push_back(gpu);
    }
    if (outside.size() != 1) return std::nullopt;
    for (const int a : gpus)
        for (const int b : gpus)
            if (a != b && a != outside.front() && b != outside.front() && !joined(a, b))
                return std::nullopt;
    const detect::Gpu& facts = inputs.machine.gpus[static_cast<std::size_t>(outside.front())];
    return Finding{"gpu-outside-fabric",
                   Severity::slow,
                   fmt::format("GPU {} has no NVLink, the other {} GPUs of the job have",
                               facts.index, gpus.size() - 1),
                   "the paths between the GPUs",
                   "every ring through it runs at the pace of PCIe",
                   fmt::format("leave it out: {} ranks on this host", gpus.size() - 1),
                   fmt::format("GPU {}", facts.index)};
}

/// The two groups into which the GPUs fall when slow ways are cut; empty when it is another number
/// or they differ in size.
std::vector<std::vector<int>> halves(const std::vector<int>& rates, int count, int least) {
    std::vector<int> group(static_cast<std::size_t>(count), -1);
    std::vector<std::vector<int>> groups;
    for (int start = 0; start < count; ++start) {
        if (group[static_cast<std::size_t>(start)] >= 0) continue;
        std::vector<int> members = {start};
        group[static_cast<std::size_t>(start)] = static_cast<int>(groups.size());
        for (std::size_t i = 0; i < members.size(); ++i)
            for (int b = 0; b < count; ++b)
                if (group[static_cast<std::size_t>(b)] < 0 &&
                    rates[static_cast<std::size_t>(members[i] * count + b)] >= least) {
                    group[static_cast<std::size_t>(b)] = static_cast<int>(groups.size());
                    members.push_back(b);
                }
        std::sort(members.begin(), members.end());
        groups.push_back(std::move(members));
    }
    if (groups.size() != 2 || groups[0].size() != groups[1].size()) return {};
    return groups;
}

std::vector<int> at_positions(const std::vector<int>& gpus, const std::vector<int>& positions) {
    std::vector<int> found;
    for (const int position : positions) found.push_back(gpus[static_cast<std::size_t>(position)]);
    return found;
}

Finding halves_finding(const Inputs& inputs, int count, std::string what, std::string evidence,
                       std::string effect) {
    const std::string where = inputs.job.launcher == "shell" ? "on this machine" : "here";
    return {"gpu-halves-faster",
            Severity::note,
            fmt::format("one job over {} GPUs {}", count, what),
            std::move(evidence),
            std::move(effect),
            fmt::format("where the model fits: two jobs of {} {}, or groups of {} that shard and "
                        "reduce inside and meet once a step (tensor parallelism, hybrid sharding)",
                        count / 2, where, count / 2),
            ""};
}

/// Two sides whose ring is much faster than one over both.
std::optional<Finding> slow_ring(const Inputs& inputs, const std::vector<int>& gpus) {
    const int count = static_cast<int>(gpus.size());
    const auto rates = estimate_pair_rates(inputs, count);
    if (!rates) return std::nullopt;
    const std::vector<int> all = rates->among(gpus);
    const int whole = ring_rate(all, count);
    if (whole == 0) return std::nullopt;
    const auto groups = halves(all, count, (whole * kHalvesFaster + 99) / 100);
    if (groups.empty()) return std::nullopt;
    const std::vector<int> a = at_positions(gpus, groups[0]), b = at_positions(gpus, groups[1]);
    const int half =
        std::min(ring_rate(rates->among(a), count / 2), ring_rate(rates->among(b), count / 2));
    if (half * 100 < whole * kHalvesFaster) return std::nullopt;
    return halves_finding(
        inputs, count, fmt::format("crosses a slow link that two jobs of {} would not", count / 2),
        fmt::format("a ring over all runs at {}, over GPUs {} and over GPUs {} at {} (estimated)",
                    rate_text(whole), numbers_of(inputs.machine, a), numbers_of(inputs.machine, b),
                    rate_text(half)),
        "large collectives over all GPUs run at the pace of that link");
}

/// A daisy chain: each half below a switch of its own, one link of switches between them. A ring
/// crosses it once in each direction, everything else shares it.
std::optional<Finding> daisy_chain(const Inputs& inputs, const std::vector<int>& gpus) {
    const PairMatrix matrix(inputs.machine);
    const int count = static_cast<int>(gpus.size());
    std::vector<int> near(static_cast<std::size_t>(count * count), 0);
    for (int i = 0; i < count; ++i)
        for (int j = 0; j < count; ++j) {
            if (i == j) continue;
            const detect::PathType path =
                matrix.path(gpus[static_cast<std::size_t>(i)], gpus[static_cast<std::size_t>(j)]);
            if (path != detect::PathType::PIX && path != detect::PathType::PXB) return std::nullopt;
            near[static_cast<std::size_t>(i * count + j)] = path == detect::PathType::PIX ? 1 : 0;
        }
    const auto groups = halves(near, count, 1);
    if (groups.empty()) return std::nullopt;
    return halves_finding(
        inputs, count, "shares one link between two PCIe switches",
        fmt::format("GPUs {} and GPUs {} are below one switch each, PXB between them",
                    numbers_of(inputs.machine, at_positions(gpus, groups[0])),
                    numbers_of(inputs.machine, at_positions(gpus, groups[1]))),
        fmt::format("all-to-all and several groups at a time get a {}th of a GPU's PCIe between "
                    "the halves",
                    count / 2));
}

std::optional<Finding> halves_faster(const Inputs& inputs, const std::vector<int>& gpus) {
    const int count = static_cast<int>(gpus.size());
    if (inputs.job.nodes.value_or(1) != 1 || inputs.job.ranks_per_node != count || count < 8 ||
        count % 2 != 0 || count > kMostExactGpus)
        return std::nullopt;
    if (auto found = slow_ring(inputs, gpus)) return found;
    return daisy_chain(inputs, gpus);
}

}  // namespace

bool sees_some_gpus(const std::string& bind) {
    return bind.find("closest") == std::string::npos || bind.find("-per-") != std::string::npos ||
           bind.find("_PER_") != std::string::npos;
}

std::vector<Finding> gpu_advice(const Inputs& inputs) {
    std::vector<Finding> findings;
    const std::vector<int> gpus = gpus_in_job(inputs);
    for (auto& finding : {several_instances(inputs), one_gpu_per_task(inputs),
                          outside_fabric(inputs, gpus), halves_faster(inputs, gpus)})
        if (finding) findings.push_back(*finding);
    return findings;
}

}  // namespace toporun::env
