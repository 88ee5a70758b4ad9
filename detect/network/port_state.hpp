#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toporun::detect {

/// Nic::port_state of what sysfs ("4: ACTIVE"), ibstat ("Initializing"), ibv_devinfo
/// ("PORT_ACTIVE (4)") and rdma ("ACTIVE") say; "" where they say that it is unknown, nothing for a
/// text that is none of their words. A port that defers an error counts as down: NCCL takes active
/// ones only.
std::optional<std::string> port_state_of(std::string_view text);

}  // namespace toporun::detect
