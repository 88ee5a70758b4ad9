#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "detect/gpu/nvml_report.hpp"
#include "detect/machine.hpp"

/// From the numbers of a checked report to the facts of the machine. No I/O.
namespace toporun::detect {

/// The 24-bit PCI class of a device, nothing when it is not visible.
using PciClassOf = std::function<std::optional<unsigned>(const PciAddress&)>;

/// Puts what NVML told of a GPU over `gpu`, which may hold what sysfs told; links aside.
void take_nvml_facts(const NvmlGpu& told, Gpu& gpu);

/// The NVLinks of GPU `position`: those that exist, by the driver's number.
std::vector<GpuLink> nvml_links(const NvmlReport& report, std::size_t position,
                                const PciClassOf& class_of);

/// What holds the clocks down: "hw-slowdown", "hw-thermal", "sw-thermal", "power-brake",
/// "power-cap" (the power limit, at work under load on a healthy GPU). Idle and application clocks
/// are no fault and have no name. `reasons` are nvmlClocksEventReason* bits.
std::vector<std::string> clock_reason_names(std::int32_t reasons);

/// What NVML_GPU_FABRIC_HEALTH_MASK_* says is wrong: "bandwidth degraded", ...; empty when nothing.
std::vector<std::string> fabric_faults(std::uint32_t health);

/// NVLink generation by nvmlNvlinkVersion_t (3 is NVLink 2.2, 4 is 3.0, 6 is 4.0). Some drivers
/// give the generation itself: a number that is the one of `capability` is taken as it is.
std::optional<int> nvlink_version(std::int32_t told, std::int32_t capability);

}  // namespace toporun::detect
