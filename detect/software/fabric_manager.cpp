#include "detect/software/fabric_manager.hpp"

#include <algorithm>
#include <string>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr const char* kPidFile = "/var/run/nvidia-fabricmanager/nv-fabricmanager.pid";
constexpr std::size_t kMostProcesses = 20000;

/// The kernel keeps 15 characters of a name: "nv-fabricmanager" is cut.
bool is_fabric_manager(const Files& files, const std::string& process) {
    return files.line("/proc/" + process + "/comm").value_or("").starts_with("nv-fabricmanage");
}

/// Mounted with hidepid, /proc keeps other users' processes to itself: then not even the first
/// one's name can be read, and a process that is not seen may run all the same.
bool sees_all_processes(const Files& files) {
    return files.line("/proc/1/comm").has_value();
}

/// Nothing: more processes than are looked at.
std::optional<bool> any_fabric_manager(const Files& files) {
    std::size_t looked_at = 0;
    for (const std::string& name : files.list("/proc")) {
        if (!to_integer(name)) continue;
        if (++looked_at > kMostProcesses) return std::nullopt;
        if (is_fabric_manager(files, name)) return true;
    }
    return false;
}

}  // namespace

std::optional<bool> runs_fabric_manager(const Files& files, bool contained, bool scan) {
    const auto process = files.integer(kPidFile);
    const bool named = process && *process > 0;
    if (named && is_fabric_manager(files, std::to_string(*process))) return true;
    const auto found = scan ? any_fabric_manager(files) : std::nullopt;
    if (found.value_or(false)) return true;
    if (contained || !sees_all_processes(files)) return std::nullopt;
    return named || found ? std::optional(false) : std::nullopt;
}

}  // namespace toporun::detect
