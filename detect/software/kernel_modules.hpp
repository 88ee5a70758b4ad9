#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/files.hpp"
#include "detect/machine.hpp"

namespace toporun::detect {

/// Fills of Software what the kernel's modules and their device files tell: modules, driver_open,
/// peer_memory_clients, imex_channels, verbs_devices.
void detect_kernel_modules(const Files& files, Software& software);

/// The modules of a fixed list that are loaded, sorted; nothing where neither /sys/module nor
/// /proc/modules can be seen.
std::optional<std::vector<std::string>> loaded_modules(const Files& files);

/// Those of the fixed list that the text of /proc/modules or lsmod names, sorted.
std::vector<std::string> modules_in(std::string_view text);

/// NVIDIA's kernel modules are the open ones; nothing without them.
std::optional<bool> is_open_driver(const Files& files);

}  // namespace toporun::detect
