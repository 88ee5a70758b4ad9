#pragma once

#include <string>
#include <string_view>

#include "base/descriptors.hpp"

namespace toporun::launcher {

/// Holds a private directory as long as the descriptor, or a copy of it in another process, is
/// open: remove_abandoned() of other runs leaves it. Close-on-exec. Without one, where it cannot be
/// had, nobody removes the directory but its owner.
Descriptor hold_directory(const std::string& directory);

/// Removes directories beside `own` that were held once and are no longer: of this user, with a
/// name that begins with `start`. Their owners were killed, as mpirun and Slurm do with what is
/// left of a job.
void remove_abandoned(const std::string& own, std::string_view start);

/// Begins the name of a run's private directory (make_private_directory()).
inline constexpr std::string_view kPrivateStart = "toporun-";

}  // namespace toporun::launcher
