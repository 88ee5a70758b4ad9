#pragma once

#include <string>

#include "env/inputs.hpp"

namespace toporun::env {

struct MeasureDecision {
    Setting setting;  ///< NCCL_PROFILER_PLUGIN
    bool measures = false;
    std::string reason;      ///< why not, when it does not
    bool on_demand = false;  ///< not loaded, but --measure=always would
};

/// Whether the profiler plugin is loaded: by the table of versions, --measure and the user's own
/// plugin.
MeasureDecision decide_measure(const Inputs& inputs);

}  // namespace toporun::env
