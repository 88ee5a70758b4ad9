#include <fmt/format.h>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// Limits of the processes: files, threads, CPU time.
namespace toporun::env::doctor {
namespace {

using detect::Machine;

constexpr std::string_view kFamily = "limits";
/// The soft limit that Linux starts with (INR_OPEN_CUR, include/uapi/linux/fs.h): only less was
/// somebody's choice.
constexpr std::uint64_t kFewFiles = 1024;
/// The hard limit of the same kernels (INR_OPEN_MAX): what every rank may ask for. A rank of a
/// large job has a socket for each channel and peer beside the descriptors of its loaders.
constexpr std::uint64_t kFewFilesOfManyNodes = 4096;
/// Threads of a rank: CUDA, NCCL's proxies, OpenMP, autograd and a dozen loaders with theirs; an
/// estimate, at which nothing could start any more.
constexpr std::uint64_t kThreadsOfRank = 128;

void open_files(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (patient.inputs.visible.empty()) return;
    const auto& limit = machine.limits.nofile;
    if (!limit) return verdict.unknown("the limit of open files");
    const bool few = *limit < kFewFiles;
    const bool many_nodes =
        several_nodes(patient) && ranks_here(patient) >= 4 && *limit < kFewFilesOfManyNodes;
    if (!few && !many_nodes) return;
    verdict.find(few ? Severity::slow : Severity::note,
                 {.what = fmt::format("a process may open only {} files", *limit),
                  .evidence = "RLIMIT_NOFILE (ulimit -n)",
                  .effect = "NCCL's connections and the loaders' shared tensors end in 'Too many "
                            "open files'",
                  .fix = "ulimit -n 65536",
                  .remark = "or docker run --ulimit nofile=65536:65536"});
}

void threads(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (patient.inputs.visible.empty()) return;
    const auto& limit = machine.limits.nproc;
    if (!limit) return verdict.unknown("the limit of processes");
    const auto ranks = static_cast<std::uint64_t>(std::max(1, ranks_here(patient)));
    if (*limit >= ranks * kThreadsOfRank) return;
    verdict.slow({.what = fmt::format("{} processes and threads are allowed for {} rank{}", *limit,
                                      ranks, ranks == 1 ? "" : "s"),
                  .evidence = "RLIMIT_NPROC (ulimit -u) and the cgroup's pids.max",
                  .effect = "'Resource temporarily unavailable' as threads or loader workers start",
                  .fix = "ulimit -u unlimited",
                  .remark = "or docker run --pids-limit=-1"});
}

void cpu_quota(const Patient& patient, Verdict& verdict) {
    const auto& quota = patient.machine().limits.cpu_quota;
    const int ranks = ranks_here(patient);
    if (!quota || patient.inputs.visible.empty() || ranks < 1 || *quota >= ranks) return;
    verdict.slow({.what = fmt::format("a quota of {:g} CPUs for {} rank{}", *quota, ranks,
                                      ranks == 1 ? "" : "s"),
                  .evidence = "cgroup cpu.max",
                  .effect = "the kernel stops all ranks for part of every 100 ms, and each "
                            "collective waits for the last",
                  .fix = "docker run --cpus=N",
                  .remark = "or resources.limits.cpu in Kubernetes: at least 2 for each rank and 1 "
                            "for each loader worker"});
}

constexpr Check kChecks[] = {
    {{"nofile-small", kFamily, Severity::slow, "the limit of open files"}, open_files},
    {{"nproc-small", kFamily, Severity::slow,
      "the limit of processes and threads against the number of ranks"},
     threads},
    {{"cpu-quota-small", kFamily, Severity::slow,
      "the CPU quota of the cgroup against the number of ranks"},
     cpu_quota},
};

}  // namespace

std::span<const Check> limit_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
