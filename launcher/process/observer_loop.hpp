#pragma once

#include "launcher/process/observer.hpp"

namespace toporun::launcher {

/// What the observer's process does: follows the run over `link`, the observer's end, until the
/// report is written or nothing is to be reported. `error_copy` is its own standard error; -1 =
/// none.
void run_observer(ObserverTask task, int link, int error_copy);

}  // namespace toporun::launcher
