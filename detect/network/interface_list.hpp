#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/network/netlink.hpp"

namespace toporun::detect {

/// An interface as the kernel lists it, before sysfs is read.
struct ListedInterface {
    std::string name;
    std::string state = "unknown";
    std::vector<std::string> addresses;
    std::optional<KernelLink> link;  ///< nothing on a tree, or where rtnetlink is refused
    /// /sys/class/net speaks of this interface. Not so in a network namespace that was entered
    /// without mounting /sys anew: an equal name there may be another interface.
    bool in_sysfs = true;
};

/// In kernel order; on a tree by ifindex and without addresses.
std::vector<ListedInterface> list_interfaces(const Files& files);

}  // namespace toporun::detect
