#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Software::iommu_mode of a command line that asks for none: the kernel's own choice, translating
/// on AMD's hosts where the firmware has the IOMMU on.
inline constexpr const char* kIommuDefault = "default";

/// "translating" when the IOMMU remaps the DMA of the GPUs, "pass-through", "off" (none, or
/// switched off), "" when neither their IOMMU group nor the kernel's command line tells.
std::string iommu_mode(const Files& files, const std::vector<Gpu>& gpus);

/// What a kernel's command line asks for, "" where it does not speak of the IOMMU.
std::string iommu_mode_of_command_line(std::string_view line);

}  // namespace toporun::detect
