#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detect/processor/hwloc_cpu.hpp"

namespace toporun::detect {

/// The text in which a helper process tells what hwloc told it.
std::string hwloc_report(const HwlocCpu& cpu);

/// What such a text says; nothing when it is cut or damaged.
std::optional<HwlocCpu> parse_hwloc_report(std::string_view text);

}  // namespace toporun::detect
