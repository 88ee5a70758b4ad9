#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toporun::profiles {

/// What a profile's entry does with its variable.
enum class Use {
    set,
    leave,  ///< says why it is not set
};

/// Why a profile must not name the variable (it is no tuning variable, toporun decides it, or for
/// Use::set it is never set automatically); nothing when it may.
std::optional<std::string> refused_variable(std::string_view name, Use use = Use::set);

}  // namespace toporun::profiles
