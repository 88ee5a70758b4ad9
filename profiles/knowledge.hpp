#pragma once

#include <functional>
#include <vector>

#include "profiles/known_bad.hpp"
#include "profiles/measured.hpp"
#include "profiles/profile.hpp"

namespace toporun::profiles {

/// What decisions know beyond the machine itself.
struct Knowledge {
    std::vector<Profile> profiles;  ///< of each layer the most specific one that matches is used
    ProfilerVersions profiler_versions;
    KnownBad known_bad;
    std::vector<Measured> measured;
};

/// What is compiled into the program. Nothing is measured in it.
Knowledge builtin_knowledge();
/// The same with those profiles only that `wanted` wants: see builtin_profiles().
Knowledge builtin_knowledge(const std::function<bool(const Profile&)>& wanted);

}  // namespace toporun::profiles
