#pragma once

#include <vector>

#include "profiles/known_bad.hpp"
#include "profiles/measured.hpp"
#include "profiles/profile.hpp"

namespace toporun::profiles {

/// What decisions know beyond the machine itself.
struct Knowledge {
    std::vector<Profile> profiles;  ///< the first one that matches is used
    ProfilerVersions profiler_versions;
    KnownBad known_bad;
    std::vector<Measured> measured;
};

/// What is compiled into the program. Nothing is measured in it.
Knowledge builtin_knowledge();

}  // namespace toporun::profiles
