#pragma once

#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// What is worth saying of the user's other NCCL variables: empty values, conf lines that NCCL
/// takes for something else, an environment plugin that may hide every value.
std::vector<Finding> user_value_findings(const Inputs& inputs);

}  // namespace toporun::env
