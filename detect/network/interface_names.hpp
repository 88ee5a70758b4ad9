#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "detect/machine.hpp"

namespace toporun::detect {

/// What its name tells of an interface, by the habits of the kernel, systemd and the common virtual
/// network software; nothing for a name that follows none. Weaker than everything a tool says.
std::optional<NicKind> kind_of_name(std::string_view name);

/// Whether the name is systemd's for an SR-IOV virtual function ("enp3s0f0v1").
bool virtual_function_name(std::string_view name);

/// "bond0" of "bond0.2093", "" for a name without the number of a VLAN behind its last dot.
std::string vlan_parent(std::string_view name);

}  // namespace toporun::detect
