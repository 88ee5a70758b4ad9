#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <vector>

namespace toporun::detect {

/// The GPUs, by NVML's index, that each process computes on now, by process id. Nothing when that
/// is unknown: NVML cannot be asked within `limit`, or this process is in a PID namespace of its
/// own, as in a container, where NVML's process ids mean other processes. A helper process asks:
/// call with one thread.
std::optional<std::map<pid_t, std::vector<int>>> gpu_processes(const std::string& nvml_library,
                                                               std::chrono::milliseconds limit);

}  // namespace toporun::detect
