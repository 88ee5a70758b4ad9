#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// How many ranks torchrun starts on this machine for --nproc-per-node=`word`: `gpu` the visible
/// GPUs, `cpu` the CPUs that Python counts, `auto` the GPUs and without any the CPUs
/// (torch/distributed/run.py). Nothing for other words and where the count is not certain.
std::optional<int> resolve_ranks_word(const std::string& word, const detect::Machine& machine,
                                      const UserEnvironment& user);

/// More ranks than GPUs.
std::vector<Finding> rank_count_findings(const Inputs& inputs);

}  // namespace toporun::env
