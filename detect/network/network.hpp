#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/detect.hpp"
#include "detect/machine.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {

/// Fills `nics` and `routes`, with a note for each address that has no route.
void detect_network(const Sources& sources, PciTree& pci, Machine& machine);

/// The network interfaces in kernel order (on a tree: by ifindex, without addresses), with the RDMA
/// device of the same port merged in, then the RDMA ports that have no interface. `deep` as in
/// Sources.
std::vector<Nic> detect_nics(PciTree& pci, bool deep, std::optional<int> gid_index,
                             std::vector<std::string>& notes);

/// What kind of interface /sys/class/net/`name` is.
NicKind interface_kind(const Files& files, const std::string& name);

/// The kind behind a driver's word: "vxlan" (IFLA_INFO_KIND of rtnetlink, DEVTYPE in sysfs).
std::optional<NicKind> kind_of_driver_word(std::string_view word);

/// The kind that a hardware type of linux/if_arp.h settles by itself: loopback, IPoIB, tunnels.
std::optional<NicKind> kind_of_hardware_type(long long type);

}  // namespace toporun::detect
