#pragma once

#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// What the GPUs of the job should be told of, beside the choice of them: MIG instances that one
/// process cannot use together, GPUs that a scheduler hides from the other ranks, a GPU outside the
/// NVLinks of the rest, and halves of the machine that are faster than the whole.
std::vector<Finding> gpu_advice(const Inputs& inputs);

/// `bind` (Job::gpu_bind) shows each task GPUs of its own; by "closest" alone a task may see all
/// GPUs of its node.
bool sees_some_gpus(const std::string& bind);

}  // namespace toporun::env
