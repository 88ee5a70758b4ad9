#pragma once

#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"
#include "detect/network/interface_list.hpp"

namespace toporun::detect {

/// The bond or bridge that the interface is a member of, "" for none.
std::string master_of(const Files& files, const ListedInterface& listed,
                      const std::vector<ListedInterface>& all);

/// The interface below a VLAN, a tunnel, a macvlan or an IPoIB child; "" for none, for hardware,
/// and where it lies in another network namespace.
std::string parent_of(const Files& files, const ListedInterface& listed, NicKind kind,
                      const std::vector<ListedInterface>& all);

/// Name of the driver of a device directory, from its link or its uevent file; "" for none.
std::string driver_of(const Files& files, const std::string& device_directory);

/// The device is an SR-IOV virtual function: it has a physical function here or, as in a virtual
/// machine that was given one, an id or a driver that only virtual functions have.
bool is_virtual_function(const Files& files, const std::string& device_directory,
                         const std::string& driver);

}  // namespace toporun::detect
