#pragma once

#include <vector>

#include "env/interface.hpp"
#include "env/interface_model.hpp"

namespace toporun::env {

/// What is worth saying of the user's own NCCL_SOCKET_IFNAME. `wanted` is toporun's own choice.
std::vector<Finding> interface_user_findings(const Inputs& inputs, const Span& span,
                                             const SearchContext& context, const Setting& wanted);

}  // namespace toporun::env
