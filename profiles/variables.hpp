#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toporun::profiles {

/// Why a profile must not name the variable at all (it is no tuning variable, or it is never set
/// automatically); nothing when it may.
std::optional<std::string> refused_variable(std::string_view name);

}  // namespace toporun::profiles
