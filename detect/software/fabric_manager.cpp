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

bool any_fabric_manager(const Files& files) {
    std::size_t looked_at = 0;
    for (const std::string& name : files.list("/proc")) {
        if (!to_integer(name)) continue;
        if (++looked_at > kMostProcesses) return false;
        if (is_fabric_manager(files, name)) return true;
    }
    return false;
}

}  // namespace

std::optional<bool> runs_fabric_manager(const Files& files, bool contained, bool scan) {
    const auto process = files.integer(kPidFile);
    if (process && *process > 0 && is_fabric_manager(files, std::to_string(*process))) return true;
    if (scan && any_fabric_manager(files)) return true;
    if (!contained && (process || scan)) return false;
    return std::nullopt;
}

}  // namespace toporun::detect
