#pragma once

#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// What the GPUs of the job should be told of, beside the choice of them: MIG instances that one
/// process cannot use together, GPUs that a scheduler hides from the other ranks, a GPU outside the
/// NVLinks of the rest, and halves of the machine that are faster than the whole.
std::vector<Finding> gpu_advice(const Inputs& inputs);

}  // namespace toporun::env
