#pragma once

#include <optional>
#include <string>
#include <string_view>

namespace toporun::profiles {

struct ValueFault {
    std::string what;  ///< "'nvl' is no value of NCCL_P2P_LEVEL"
    std::string hint;
};

/// What is wrong with a value for NCCL's variable `name`, for the versions from `since` on ("" =
/// any): NCCL ignores most words it does not know without a message. Nothing for a good value and
/// for variables whose values are not known here.
std::optional<ValueFault> value_fault(std::string_view name, const std::string& value,
                                      std::string_view since);

}  // namespace toporun::profiles
