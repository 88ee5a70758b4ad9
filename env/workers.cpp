#include "env/workers.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "base/text.hpp"

namespace toporun::env {
namespace {

constexpr const char* kThreads = "OMP_NUM_THREADS";
constexpr const char* kWorkers = "TOPORUN_NUM_WORKERS";
// More threads than this rarely help an operator of a GPU rank (pytorch issues 22260 and 22501:
// between 1, which never hurts, and the share of the CPUs, which was fastest on a DGX-2).
constexpr int kMaxThreadsOfGpuRank = 8;

// More loader workers than this rarely feed a rank faster, each holds prefetched batches and a copy
// of what the data set keeps in memory (pytorch issue 105841, lightning issues 18149 and 19391: no
// gain beyond 4 to 8).
constexpr int kMostLoaders = 8;
// What a container gets unless it asks for more (Docker's --shm-size).
constexpr std::uint64_t kSmallShm = std::uint64_t{64} << 20;

/// What one rank has.
struct Share {
    int ranks = 1;
    int cores = 0;             ///< physical, of the smallest share; 0 = unknown
    int unbound = 0;           ///< what it would have of all allowed cores
    std::optional<int> quota;  ///< whole CPUs of the quota
    bool gpu = false;
    bool partial = false;  ///< only the cores near the GPUs are told: a lower bound
    std::string evidence;

    int usable() const { return quota ? std::min(cores, *quota) : cores; }
};

Share share_of_rank(const Inputs& inputs, const PlacementDecision& placement) {
    Share share;
    const auto all = static_cast<int>(allowed_cores(inputs.machine).size());
    share.partial = all > 0 && !tells_all_cores(inputs.machine);
    share.ranks = std::max(1, static_cast<int>(placement.ranks.size()));
    share.gpu = !placement.ranks.empty() && placement.ranks.front().gpu.has_value();
    // A task that sees one GPU of its own has it whatever its local rank.
    const Job& job = inputs.job;  // which GPU a rank uses need not be known
    if (job.task_of_step || !job.gpu_bind.empty() || !job.rank_gpus_unknown.empty())
        share.gpu = !inputs.visible.empty();
    share.cores = placement.ranks.empty() ? all : placement.cores_each;
    share.unbound = all / share.ranks;
    if (share.partial) {
        share.evidence = fmt::format("at least {} core{}", all, all == 1 ? "" : "s");
        share.cores = share.unbound = 0;
        return share;
    }
    if (all > 0) share.evidence = fmt::format("{} core{}", all, all == 1 ? "" : "s");
    if (placement.own_mask)
        share.evidence +=
            fmt::format(", this task's own: CPUs {}", inputs.machine.cpu.allowed.text());
    else if (all > 0 && inputs.job.ranks_per_node)
        share.evidence += fmt::format(
            " for {} rank{}: {} each{}", share.ranks, share.ranks == 1 ? "" : "s", share.cores,
            share.cores < share.unbound ? ", as near to the GPUs as there are" : "");
    if (const auto quota = inputs.machine.limits.cpu_quota; quota && *quota > 0) {
        const double each = std::floor(*quota / share.ranks);
        share.quota = static_cast<int>(std::clamp(each, 1.0, 1e6));
        share.evidence += fmt::format("{}quota of {:g} CPUs: {} each",
                                      share.evidence.empty() ? "" : "; ", *quota, *share.quota);
    }
    return share;
}

std::string cores_obstacle(const Share& share) {
    if (share.partial)
        return "only the CPUs near the GPUs are told: how many this job may use is not known";
    return share.cores == 0 ? "the CPUs that this job may use are not known" : "";
}

std::optional<int> count_of(const std::optional<std::string>& text) {
    if (!text) return std::nullopt;
    const auto number = to_integer(*text);
    if (!number || *number < 0 || *number > std::numeric_limits<int>::max()) return std::nullopt;
    return static_cast<int>(*number);
}

/// A core of a GPU rank is kept for NCCL's progress thread; loader workers the user announced count
/// too.
int threads_of(const Share& share, int loaders) {
    if (!share.gpu) return std::max(1, share.usable());
    return std::clamp(share.usable() - 1 - loaders, 1, kMaxThreadsOfGpuRank);
}

std::string threads_default(const Inputs& inputs) {
    return inputs.job.launcher == "torchrun"
               ? "torchrun sets 1 where it starts several workers; else one thread for each "
                 "allowed "
                 "CPU"
               : "one thread for each allowed CPU (libgomp), whatever the quota";
}

/// Why the thread count is not toporun's to set; "" when it is.
std::string threads_obstacle(const Inputs& inputs, const Share& share) {
    if (const std::string cores = cores_obstacle(share); !cores.empty()) return cores;
    if (!inputs.job.ranks_per_node) return ranks_unknown_text(inputs.job);
    if (!share.gpu && !inputs.machine.gpus_known)
        return "whether the ranks drive GPUs is not known, which want a core for NCCL";
    if (inputs.job.launcher == "plain" && *inputs.job.ranks_per_node == 1 &&
        (inputs.job.gpu_job_unknown || !share.gpu))
        return "a single process has the machine for itself";
    return "";
}

Setting threads_setting(const Inputs& inputs, const Share& share, int threads, int loaders) {
    const std::string reason = threads_obstacle(inputs, share);
    if (!reason.empty())
        return left_alone(kThreads, reason, share.evidence, threads_default(inputs));
    std::string evidence = share.evidence;
    if (share.gpu && loaders > 0) evidence += fmt::format("; {} loader workers announced", loaders);
    return detected(kThreads, std::to_string(threads),
                    share.gpu
                        ? fmt::format("the cores of a rank but one for NCCL's progress thread, "
                                      "at most {}",
                                      kMaxThreadsOfGpuRank)
                        : std::string("the physical cores of a rank"),
                    evidence, threads_default(inputs));
}

Setting workers_setting(const Inputs& inputs, const Share& share, int loaders) {
    const std::string nccl_default = "no framework reads it: one line of the program does";
    if (share.cores == 0 || !inputs.job.ranks_per_node)
        return left_alone(kWorkers,
                          share.cores == 0 ? cores_obstacle(share) : ranks_unknown_text(inputs.job),
                          share.evidence, nccl_default);
    const std::string bound =
        "an upper bound: each loader worker a core, one core for the rank itself";
    const bool capped = loaders == kMostLoaders && share.usable() - 1 > kMostLoaders;
    return detected(
        kWorkers, std::to_string(loaders),
        capped ? fmt::format("{}; more than {} rarely help", bound, kMostLoaders) : bound,
        share.evidence, nccl_default);
}

/// OMP_PROC_BIND and KMP_AFFINITY are read without regard to case (OpenMP 5.2, section 21.1.7;
/// LLVM's openmp/runtime/src/kmp_settings.cpp).
bool binds_nothing(std::string value) {
    std::transform(value.begin(), value.end(), value.begin(),
                   [](char c) { return c >= 'A' && c <= 'Z' ? static_cast<char>(c + 32) : c; });
    return value.empty() || value == "false" || value == "disabled" || value == "none";
}

/// What the user set against what there is.
void user_findings(const Inputs& inputs, const Share& share, std::vector<Finding>& findings) {
    const auto threads = count_of(inputs.user.variable(kThreads));
    const long long wanted = threads ? static_cast<long long>(*threads) * share.ranks : 0;
    if (share.cores > 0 && inputs.job.ranks_per_node && threads && *threads > share.usable())
        findings.push_back({"omp-more-than-share", Severity::slow,
                            fmt::format("{}={} is more than the {} core{} of a rank", kThreads,
                                        *threads, share.usable(), share.usable() == 1 ? "" : "s"),
                            share.evidence, fmt::format("{} threads compete for the cores", wanted),
                            fmt::format("unset {}", kThreads), "",
                            fmt::format("or export {}={}", kThreads, threads_of(share, 0))});
    for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "GOMP_CPU_AFFINITY", "KMP_AFFINITY"}) {
        const auto value = inputs.user.variable(name);
        if (!value || binds_nothing(*value)) continue;
        findings.push_back({"omp-affinity", Severity::slow,
                            fmt::format("{}={} binds threads one by one", name, shell_word(*value)),
                            "importing torch then narrows the main thread to one core, and its "
                            "loader workers inherit that (pytorch issue 99625)",
                            "loader workers share one core", fmt::format("unset {}", name), ""});
    }
}

/// Loader workers beyond the cores. Where the number of ranks is not known: beyond all of them, as
/// PyTorch's own warning has it.
void too_many_loaders(const Inputs& inputs, const Share& share, int loaders,
                      std::vector<Finding>& findings) {
    const int workers = *inputs.job.loader_workers;
    const bool known = inputs.job.ranks_per_node.has_value();
    const int cores = known ? share.usable() : share.cores * share.ranks;
    if (workers <= cores) return;
    const std::string elsewhere =
        known && share.unbound > share.cores
            ? fmt::format("--bind=none, which leaves each rank {} cores, far ones too",
                          share.unbound)
            : std::string("more cores for the job");
    findings.push_back(
        {"loader-workers-exceed-cores", Severity::slow,
         fmt::format("{} given: {} loader worker{} {} {} core{}",
                     printable(inputs.job.loader_words), workers, workers == 1 ? "" : "s",
                     known ? "a rank on" : "on", cores, cores == 1 ? "" : "s"),
         share.evidence, "they take the cores from each other and from the rank itself",
         fmt::format("{} at most, or {}",
                     std::max(1, known ? loaders : std::min(cores - 1, kMostLoaders)), elsewhere),
         ""});
}

void small_shm(const Inputs& inputs, std::vector<Finding>& findings) {
    const auto& size = inputs.machine.limits.shm_bytes;
    if (!size || *size > kSmallShm) return;
    findings.push_back(
        {"shm-too-small", Severity::broken,
         fmt::format("/dev/shm has {} MiB for {} loader worker{} a rank", *size >> 20,
                     *inputs.job.loader_workers, *inputs.job.loader_workers == 1 ? "" : "s"),
         "size of /dev/shm (df -h /dev/shm)", "loader workers die with a bus error",
         inputs.machine.container ? "docker run --shm-size=16g"
                                  : "mount -o remount,size=16G /dev/shm",
         "",
         inputs.machine.container ? "or --ipc=host; no loader workers (0) until then"
                                  : "in a container: docker run --shm-size=16g or --ipc=host"});
}

/// What could be given where less was given, or nothing.
void spare_cores(const Inputs& inputs, int loaders, std::vector<Finding>& findings) {
    const Job& job = inputs.job;
    if (!job.ranks_per_node || loaders < 2) return;
    if (job.loader_workers && *job.loader_workers * 2 <= loaders)
        findings.push_back(
            {"loader-workers-few", Severity::note,
             fmt::format("{} given: up to {} possible", printable(job.loader_words), loaders),
             "cores of each rank that nothing else uses", "",
             "worth a try where the GPUs wait for data; --set-workers does it", ""});
    if (job.loader_workers || job.loader_add.empty() || job.loader_default * 2 > loaders) return;
    std::string add = job.loader_add;
    const std::string mark = "{workers}";
    add.replace(add.find(mark), mark.size(), std::to_string(loaders));
    findings.push_back({"loader-workers-few", Severity::note,
                        fmt::format("{} takes {} loader worker{} by itself: up to {} possible",
                                    job.loader_framework, job.loader_default,
                                    job.loader_default == 1 ? "" : "s", loaders),
                        "its options are on the command line", "", fmt::format("add {}", add), ""});
}

void loader_findings(const Inputs& inputs, const Share& share, int loaders,
                     std::vector<Finding>& findings) {
    if (share.cores == 0) return;
    if (inputs.job.loader_workers.value_or(0) > 0) {
        too_many_loaders(inputs, share, loaders, findings);
        small_shm(inputs, findings);
    }
    spare_cores(inputs, loaders, findings);
}

}  // namespace

WorkersDecision decide_workers(const Inputs& inputs, const PlacementDecision& placement) {
    WorkersDecision decision;
    const Share share = share_of_rank(inputs, placement);
    const int loaders = std::clamp(share.usable() - 1, 0, kMostLoaders);
    const bool known = share.cores > 0 && inputs.job.ranks_per_node;
    const int announced =
        inputs.job.loader_filled_in && known ? loaders : announced_workers(inputs).value_or(0);
    const int threads = share.cores > 0 ? threads_of(share, std::min(announced, share.cores)) : 1;
    if (share.cores > 0) decision.workers = {threads, loaders};
    Setting omp = settle(inputs, threads_setting(inputs, share, threads, announced));
    if (omp.origin == Origin::user) decision.workers.omp_num_threads = count_of(omp.value);
    Setting loader = settle(inputs, workers_setting(inputs, share, loaders));
    if (loader.origin == Origin::user) decision.workers.loader_workers = count_of(loader.value);
    decision.settings = {std::move(omp), std::move(loader)};
    user_findings(inputs, share, decision.findings);
    loader_findings(inputs, share, loaders, decision.findings);
    return decision;
}

}  // namespace toporun::env
