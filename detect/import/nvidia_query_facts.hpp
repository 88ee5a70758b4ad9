#pragma once

#include <string_view>

#include "detect/machine.hpp"

/// What the keys of `nvidia-smi -q` mean, as text and as XML (-x).
namespace toporun::detect {

/// Takes what `path` of a GPU says: its sections and its key joined by '/', "MIG Mode/Current".
/// Unknown paths, and values that the driver does not have, are left alone.
void take_query_fact(std::string_view path, std::string_view value, Gpu& gpu);
/// The same for the elements of -x: "mig_mode/current_mig".
void take_query_element(std::string_view path, std::string_view value, Gpu& gpu);

/// The driver's words for a value that it does not have.
bool is_missing_value(std::string_view value);

}  // namespace toporun::detect
