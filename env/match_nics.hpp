#pragma once

#include <string>

#include "env/match_profile.hpp"

namespace toporun::env {

/// Whether the machine has as many adapters of the set as it wants. Unknown when too few are sure
/// to be of the set and of others a feature is not known.
Fit fit_of_nics(const detect::Machine& machine, const profiles::NicSet& set);

/// "8 roce adapters of 400 Gb/s" of those that the machine has; "" when nothing is known.
std::string found_nics_text(const detect::Machine& machine, const profiles::NicSet& set);

}  // namespace toporun::env
