#pragma once

#include <string>

#include "detect/files.hpp"

namespace toporun::detect {

/// The interface of the default route with the smallest metric, IPv4, else IPv6; "" when there is
/// none.
std::string default_route_interface(const Files& files);

}  // namespace toporun::detect
