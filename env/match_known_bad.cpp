#include "env/match_known_bad.hpp"

#include <algorithm>
#include <string>

#include "env/hca.hpp"
#include "env/matrix.hpp"

namespace toporun::env {
namespace {

using detect::Machine;
using detect::PathType;
using detect::PeerAccess;
using profiles::KnownBadRow;

bool name_has(const std::string& name, const std::vector<std::string>& parts) {
    return std::any_of(parts.begin(), parts.end(), [&](const std::string& part) {
        return name.find(part) != std::string::npos;
    });
}

bool in_range(const std::optional<std::string>& version, const std::string& since,
              const std::string& until) {
    if (since.empty() && until.empty()) return true;
    return version && profiles::version_in_range(*version, since, until);
}

bool on_platform(const std::string& word, const Inputs& inputs) {
    const Machine& machine = inputs.machine;
    if (word == "vm") return machine.virtual_machine;
    if (word == "container") return machine.container;
    const auto usable = std::count_if(machine.nics.begin(), machine.nics.end(), rdma_usable);
    if (word == "one-port") return usable == 1;
    if (word == "port-per-gpu")
        return usable > 0 && usable >= static_cast<std::ptrdiff_t>(inputs.visible.size());
    return word == "slingshot" &&
           std::any_of(machine.nics.begin(), machine.nics.end(), [](const detect::Nic& nic) {
               return nic.name.starts_with("hsn") || nic.driver.find("cxi") != std::string::npos;
           });
}

struct Pairs {
    int count = 0;
    int ok = 0;
    int refused = 0;
    int nvlink = 0;
    bool on_path = false;
    bool paths_known = false;
};

std::optional<PathType> wanted_path(const KnownBadRow& row) {
    return row.path.empty() ? std::nullopt : detect::parse_path_name(row.path);
}

Pairs pairs_of(const std::vector<int>& gpus, const KnownBadRow& row, const Machine& machine) {
    const PairMatrix matrix(machine);
    Pairs pairs;
    pairs.paths_known = matrix.known();
    for (std::size_t i = 0; i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j) {
            ++pairs.count;
            const PathType path = matrix.path(gpus[i], gpus[j]);
            const bool nvlink = path == PathType::NVL || path == PathType::NVB;
            const PeerAccess access = matrix.peer_access(gpus[i], gpus[j]);
            pairs.ok += access == PeerAccess::ok;
            pairs.refused += access == PeerAccess::refused;
            pairs.nvlink += nvlink;
            pairs.on_path = pairs.on_path || (!nvlink && path == wanted_path(row));
        }
    return pairs;
}

bool pairs_hold(const KnownBadRow& row, const std::vector<int>& gpus, const Machine& machine) {
    if (row.peer_access.empty() && row.links.empty() && row.path.empty()) return true;
    const Pairs pairs = pairs_of(gpus, row, machine);
    if (row.peer_access == "ok" && pairs.ok == 0) return false;
    if (row.peer_access == "refused" && pairs.refused == 0) return false;
    if (row.peer_access == "not-ok" && pairs.ok > 0) return false;
    if (row.peer_access == "possible" && pairs.count > 0 && pairs.refused == pairs.count)
        return false;
    if ((!row.links.empty() || !row.path.empty()) && !pairs.paths_known) return false;
    if (row.links == "none" && pairs.nvlink > 0) return false;
    if (row.links == "some" && pairs.nvlink == 0) return false;
    return row.path.empty() || pairs.on_path;
}

}  // namespace

std::optional<std::vector<int>> match_known_bad(const KnownBadRow& row, const Inputs& inputs) {
    const Machine& machine = inputs.machine;
    if (inputs.rccl) return std::nullopt;  // NVIDIA's versions do not apply
    if (!in_range(machine.software.driver, row.driver_since, row.driver_until)) return std::nullopt;
    if (!in_range(machine.software.nccl_version, row.nccl_since, row.nccl_until))
        return std::nullopt;
    if (row.driver_open && machine.software.driver_open != row.driver_open) return std::nullopt;
    if (!row.architecture.empty() && machine.cpu.architecture != row.architecture)
        return std::nullopt;
    if (!row.kernel.empty() && machine.software.kernel.find(row.kernel) == std::string::npos)
        return std::nullopt;
    if (inputs.job.nodes.value_or(2) < row.nodes_min) return std::nullopt;
    for (const std::string& word : row.platform)
        if (!on_platform(word, inputs)) return std::nullopt;
    std::vector<int> gpus;
    for (const int position : inputs.visible) {
        const std::string& name = machine.gpus[static_cast<std::size_t>(position)].name;
        if ((row.gpus.empty() || name_has(name, row.gpus)) && !name_has(name, row.not_gpus))
            gpus.push_back(position);
    }
    const int count = static_cast<int>(gpus.size());
    if (!row.gpus.empty() && count == 0) return std::nullopt;
    if (count < row.gpu_count_min) return std::nullopt;
    if (row.gpu_count_max > 0 && count > row.gpu_count_max) return std::nullopt;
    if (!pairs_hold(row, gpus, machine)) return std::nullopt;
    return gpus;
}

const profiles::StockRefusal* stock_refusal(const Inputs& inputs, int gpu) {
    const Machine& machine = inputs.machine;
    const std::string& name = machine.gpus[static_cast<std::size_t>(gpu)].name;
    const auto& refusals = inputs.knowledge.known_bad.stock_refusals;
    const auto found =
        std::find_if(refusals.begin(), refusals.end(), [&](const profiles::StockRefusal& refusal) {
            return name_has(name, refusal.gpus) && !name_has(name, refusal.not_gpus) &&
                   (!refusal.guest || machine.virtual_machine) &&
                   (!machine.software.driver ||
                    profiles::version_in_range(*machine.software.driver, refusal.driver_since, ""));
        });
    return found == refusals.end() ? nullptr : &*found;
}

}  // namespace toporun::env
