#pragma once

#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// The network interfaces in kernel order (on a tree: by ifindex, without addresses), with the RDMA
/// device of the same port merged in, then the RDMA ports that have no interface.
std::vector<Nic> detect_nics(const Files& files);

/// What kind of interface /sys/class/net/`name` is.
NicKind interface_kind(const Files& files, const std::string& name);

}  // namespace toporun::detect
