#include <algorithm>

#include "env/inputs.hpp"
#include "env/matrix.hpp"

namespace toporun::env {
namespace {

bool every_gpu_has_a_name_of(const detect::Machine& machine,
                             const std::vector<std::string>& parts) {
    return std::all_of(machine.gpus.begin(), machine.gpus.end(), [&](const detect::Gpu& gpu) {
        return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
            return gpu.name.find(part) != std::string::npos;
        });
    });
}

/// "nvswitch", "nvlink" (of some pair), "none"; "" when the paths are not known.
std::string links_of(const detect::Machine& machine) {
    const PairMatrix matrix(machine);
    if (!matrix.known()) return "";
    const int count = static_cast<int>(machine.gpus.size());
    int direct = 0, pairs = 0;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b) ++pairs, direct += matrix.direct_nvlink(a, b) ? 1 : 0;
    if (direct == 0) return "none";
    return machine.nvswitch && direct == pairs ? "nvswitch" : "nvlink";
}

/// "ok" or "refused" when every pair says the same, "" otherwise.
std::string peer_access_of(const detect::Machine& machine) {
    const PairMatrix matrix(machine);
    const int count = static_cast<int>(machine.gpus.size());
    int pairs = 0, ok = 0, refused = 0;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b) {
            const detect::PeerAccess access = matrix.peer_access(a, b);
            ++pairs;
            ok += access == detect::PeerAccess::ok ? 1 : 0;
            refused += access == detect::PeerAccess::refused ? 1 : 0;
        }
    if (pairs == 0) return "";
    return ok == pairs ? "ok" : refused == pairs ? "refused" : "";
}

bool matches(const detect::Machine& machine, const profiles::Match& match) {
    const int count = static_cast<int>(machine.gpus.size());
    if (!match.gpu_names.empty() &&
        (count == 0 || !every_gpu_has_a_name_of(machine, match.gpu_names)))
        return false;
    if (match.gpu_count && *match.gpu_count != count) return false;
    if (match.gpu_count_min && count < *match.gpu_count_min) return false;
    if (!match.links.empty() && match.links != links_of(machine)) return false;
    if (!match.peer_access.empty() && match.peer_access != peer_access_of(machine)) return false;
    if (!match.vendor.empty() && machine.vendor.find(match.vendor) == std::string::npos)
        return false;
    return match.product.empty() || machine.product.starts_with(match.product);
}

}  // namespace

const profiles::Profile* match_profile(const detect::Machine& machine,
                                       const std::vector<profiles::Profile>& known) {
    for (const profiles::Profile& profile : known)
        if (matches(machine, profile.match)) return &profile;
    return nullptr;
}

}  // namespace toporun::env
