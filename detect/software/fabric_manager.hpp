#pragma once

#include <optional>

#include "detect/files.hpp"

namespace toporun::detect {

/// A fabric manager runs on this host: by its pid file, or, `scan`, by the names of all processes.
/// False needs evidence: a pid file whose process is gone, or a scan of the host's own processes.
/// Inside a container (`contained`), or where /proc shows only the user's own processes (hidepid),
/// what is not found may run all the same: nothing.
std::optional<bool> runs_fabric_manager(const Files& files, bool contained, bool scan);

}  // namespace toporun::detect
