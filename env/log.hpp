#pragma once

#include <string>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

struct LogDecision {
    std::vector<Setting> settings;  ///< NCCL_DEBUG, NCCL_DEBUG_SUBSYS, NCCL_DEBUG_FILE
    bool takes_log = false;
    std::string reason;    ///< why not, when it does not
    std::string followed;  ///< the pattern of the user's own log that can be read; "" = none
};

/// The three variables of NCCL's log are one decision: all or none.
LogDecision decide_log(const Inputs& inputs);

}  // namespace toporun::env
