#pragma once

#include "detect/gpu/nvml_report.hpp"

namespace toporun::detect {

/// Asks a GPU for its NVLinks and NVLink-C2C links; `gpu` already has its compute capability.
///
/// The state comes from where NCCL takes it (src/graph/xml.cc): field NVLINK_GET_STATE from compute
/// capability 9.0 on, nvmlDeviceGetNvLinkState before and where the field fails. A link that sleeps
/// counts as active: it wakes on use.
void ask_links(const nvml::Functions& functions, nvml::Device device, NvmlGpu& gpu);

/// Deep: version, speed and partner of the links that `gpu` has.
void ask_link_details(const nvml::Functions& functions, nvml::Device device, NvmlGpu& gpu);

}  // namespace toporun::detect
