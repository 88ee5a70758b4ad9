#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace toporun::env {

enum class HostOrderKind {
    topology_conf,  ///< Slurm's topology.conf: SwitchName= lines, or BlockName= lines
    addresses,      ///< SLURM_TOPOLOGY_ADDR of each node, one a line: "spine1.leaf3.gpu-7"
    hosts,          ///< one host a line, in the order that is wanted
};

/// What a file says of the place of hosts.
struct HostPlaces {
    HostOrderKind kind = HostOrderKind::hosts;
    /// Each host's switches from the top down, or its place in the list as one number of eight
    /// digits.
    std::map<std::string, std::vector<std::string>> places;
    std::vector<std::string> notes;  ///< lines that were passed over
};

/// Reads any of the three kinds; a line may hold "NODE ADDRESS" or SLURM_TOPOLOGY_ADDR=ADDRESS
/// too. `#` begins a comment. Throws Error, with file:line, for what is none of them.
HostPlaces read_host_places(std::string_view text, const std::string& file);

}  // namespace toporun::env
