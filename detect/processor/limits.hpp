#pragma once

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// /dev/shm, locked memory, open files, processes, memory, and what the control groups allow.
Limits detect_limits(const Files& files);

}  // namespace toporun::detect
