#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"
#include "detect/topology/compute_paths.hpp"
#include "detect/topology/system_tree.hpp"

/// What a tree and its paths say, in the form of Machine.
namespace toporun::detect {

/// NVLinks of each pair of GPUs, symmetric: those that both ends know of, else what both have to
/// the switches.
std::vector<std::vector<int>> pair_links(const SystemTree& tree);

/// Whether NVLinks lead to switches.
bool has_nvswitch(const SystemTree& tree);

/// Fills gpu_paths and gpu_path_gbytes_per_s, GPUs in the order of the tree. Nothing on the
/// diagonal and where the path has no limit that NCCL knows of.
void take_gpu_paths(const TreePaths& paths, Machine& machine);

}  // namespace toporun::detect
