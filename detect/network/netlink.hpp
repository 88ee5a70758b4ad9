#pragma once

#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"

namespace toporun::detect {

/// An interface as the kernel describes it over rtnetlink (`ip -d link`). Other than /sys it always
/// speaks of the network namespace of this process.
struct KernelLink {
    int index = 0;
    std::string name;       ///< as the kernel has it, not made printable
    std::string kind;       ///< "vlan", "veth", "vxlan"; "" for hardware
    int hardware_type = 0;  ///< linux/if_arp.h
    std::optional<int> mtu;
    int master = 0;  ///< index of the bond or bridge, 0 = none
    int parent = 0;  ///< index of the interface below it in this namespace, 0 = none or itself
};

/// All interfaces, in kernel order; empty where rtnetlink is refused.
std::vector<KernelLink> kernel_links();

/// The kernel's answer to one address, or the error number.
struct RouteAnswer {
    std::optional<Route> route;
    bool is_address = true;  ///< false: nothing was asked
    int error = 0;           ///< errno, 0 with a route
};

/// Asks for the way to an IPv4 or IPv6 literal, "fe80::1%eth0" with its scope. No packet is sent.
RouteAnswer kernel_route(const std::string& destination);

}  // namespace toporun::detect
