#pragma once

#include <string>
#include <vector>

namespace ring_allreduce {

struct Interface {
    std::string name;
    std::string address;  ///< numeric, without port
};

/// The interfaces that NCCL 2.28 would take on this machine, in kernel order: those that `wanted`
/// (NCCL_SOCKET_IFNAME) names, or the first group of its automatic search when `wanted` has fewer
/// than two characters. `family` is NCCL_SOCKET_FAMILY.
std::vector<Interface> nccl_interfaces(const std::string& wanted, const std::string& family);

/// Whether the interface is in the list, by NCCL's grammar: `^` excludes, `=` compares whole names,
/// else names are prefixes; what follows a colon is a port.
bool interface_matches(const std::string& list, const std::string& name);

}  // namespace ring_allreduce
