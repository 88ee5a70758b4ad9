#include "env/hca.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {

using detect::Machine;
using detect::Nic;
using detect::NicKind;

std::string port_name(const Nic& nic) {
    if (!nic.rdma_device) return nic.name;
    return nic.port ? fmt::format("{}:{}", *nic.rdma_device, *nic.port) : *nic.rdma_device;
}

std::vector<int> verbs_ports(const Machine& machine) {
    std::vector<int> ports;
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        if (machine.nics[i].rdma_device && machine.nics[i].kind != NicKind::efa)
            ports.push_back(static_cast<int>(i));
    return ports;
}

bool has_efa(const Machine& machine) {
    return std::any_of(machine.nics.begin(), machine.nics.end(),
                       [](const Nic& nic) { return nic.kind == NicKind::efa; });
}

bool is_roce(const Nic& nic) {
    if (!nic.rdma_device || nic.kind == NicKind::efa || nic.iwarp) return false;
    if (nic.kind == NicKind::roce) return true;
    return std::any_of(nic.gids.begin(), nic.gids.end(),
                       [](const detect::Gid& gid) { return gid.type.starts_with("RoCE"); });
}

std::optional<detect::PathType> nic_path(const Machine& machine, int gpu, int nic) {
    const auto row = static_cast<std::size_t>(gpu), column = static_cast<std::size_t>(nic);
    if (machine.gpu_nic_paths.size() != machine.gpus.size() ||
        row >= machine.gpu_nic_paths.size() || column >= machine.gpu_nic_paths[row].size())
        return std::nullopt;
    const auto path = machine.gpu_nic_paths[row][column];
    return path == detect::PathType::DIS ? std::nullopt : path;
}

std::optional<detect::PathType> nearest_path(const Machine& machine, int gpu,
                                             const std::vector<int>& ports) {
    std::optional<detect::PathType> best;
    for (const int port : ports)
        if (const auto path = nic_path(machine, gpu, port); path && (!best || *path < *best))
            best = path;
    return best;
}

HcaList parse_hca_list(std::string_view value) {
    HcaList list;
    if (value.starts_with('^')) list.exclude = true, value.remove_prefix(1);
    if (value.starts_with('=')) list.exact = true, value.remove_prefix(1);
    for (const std::string& part : split(value, ',')) {
        const std::vector<std::string> words = split(part, ':');
        if (words.front().empty() || list.entries.size() == kMostHcaEntries) continue;
        list.entries.push_back(
            {words.front(), words.size() > 1 ? to_integer(words[1]) : std::nullopt});
    }
    return list;
}

bool HcaList::takes(const Nic& nic) const {
    if (entries.empty()) return !exclude;  // a list of nothing takes everything (matchIfList)
    const std::string device = nic.rdma_device.value_or("");
    const bool listed = std::any_of(entries.begin(), entries.end(), [&](const HcaEntry& entry) {
        const bool name = exact ? device == entry.device : device.starts_with(entry.device);
        return name && (!entry.port || !nic.port || *entry.port == *nic.port);
    });
    return listed != exclude;
}

}  // namespace toporun::env
