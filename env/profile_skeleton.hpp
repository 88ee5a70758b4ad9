#pragma once

#include <string>

#include "env/plan.hpp"

namespace toporun::env {

/// A profile of this machine as text for a file: its own features as [match], and as values what
/// was chosen here and what the user has set of the variables that a profile may set. Each value
/// says where it is from; of the user's own it says that the reason is not known. `origin` names
/// the machine for the sources: "toporun 0.9 on this machine". Throws Error when nothing is known
/// by which the machine could be recognised.
std::string profile_skeleton(const std::string& name, const detect::Machine& machine,
                             const Plan& plan, const UserEnvironment& user,
                             const std::string& origin);

}  // namespace toporun::env
