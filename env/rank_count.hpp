#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// Why what concerns GPUs is left alone in a job of Job::cpu_job.
inline constexpr const char* kCpuJob = "the command line says that the ranks run on CPUs";

inline constexpr const char* kRankCountVariable = "PET_NPROC_PER_NODE";
inline constexpr const char* kRankCountShortName = "nproc";

/// How many ranks torchrun starts on this machine for --nproc-per-node=`word`: `gpu` the visible
/// GPUs, `cpu` the CPUs that Python counts, `auto` the GPUs and without any the CPUs
/// (torch/distributed/run.py). Nothing for other words and where the count is not certain.
std::optional<int> resolve_ranks_word(const std::string& word, const detect::Machine& machine,
                                      const UserEnvironment& user);

struct RankCount {
    std::optional<int> filled_in;  ///< ranks of this host, where the command line left them out
    std::vector<Setting> settings;
    std::vector<Finding> findings;
};

/// torchrun without --nproc-per-node starts one rank. One for each visible GPU in its place, by
/// PET_NPROC_PER_NODE, which torchrun reads in all its versions (torch 1.9 and later,
/// torch/distributed/argparse_util.py). `--leave nproc` is the short name of the variable.
RankCount fill_in_rank_count(const Inputs& inputs);

/// More ranks than GPUs.
std::vector<Finding> rank_count_findings(const Inputs& inputs);

}  // namespace toporun::env
