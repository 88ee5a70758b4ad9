#pragma once

#include <optional>

#include "env/inputs.hpp"

namespace toporun::env {

/// GLOO_SOCKET_IFNAME for PyTorch's Gloo, which takes the interface that the host's name resolves
/// to: the interface of NCCL's bootstrap, where NCCL_SOCKET_IFNAME had to be chosen for a job of
/// several nodes that torchrun starts. `chosen`: the decision on NCCL_SOCKET_IFNAME. Nothing where
/// nobody needs it.
std::optional<Setting> decide_gloo(const Inputs& inputs, const Setting& chosen);

}  // namespace toporun::env
