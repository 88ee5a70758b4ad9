#pragma once

#include <optional>

#include "detect/machine.hpp"

namespace toporun::detect {

/// What one NVLink of the GPU carries in one direction, GB/s, as its maker states it: by the
/// driver's word for the link, else by the compute capability. Nothing when unknown. NCCL's own
/// constants are in detect/topology/link_bandwidth.hpp.
std::optional<double> nominal_nvlink_gbytes_per_s(const Gpu& gpu);

}  // namespace toporun::detect
