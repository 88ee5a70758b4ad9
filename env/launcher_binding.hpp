#pragma once

#include "env/inputs.hpp"

namespace toporun::env {

/// What Open MPI's own binding of the ranks becomes: it binds each rank to one core or one NUMA
/// node unless it is told otherwise. Nothing for other launchers.
/// `places_ranks`: toporun binds ranks itself.
Decision decide_launcher_binding(const Inputs& inputs, bool places_ranks);

}  // namespace toporun::env
