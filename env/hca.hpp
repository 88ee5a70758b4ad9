#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"

/// RDMA ports as NCCL's verbs transport (NET/IB) sees them, and its list of them.
namespace toporun::env {

using detect::rdma_usable;

/// "mlx5_0:1", or the interface's name.
std::string port_name(const detect::Nic& nic);

/// Positions in Machine::nics of the RDMA ports that are no EFA.
std::vector<int> verbs_ports(const detect::Machine& machine);
bool has_efa(const detect::Machine& machine);

/// A verbs port whose link is Ethernet.
bool is_roce(const detect::Nic& nic);

/// Path between GPU and NIC by position; nothing when unknown.
std::optional<detect::PathType> nic_path(const detect::Machine& machine, int gpu, int nic);

/// The best path of the GPU to one of `ports`; nothing when none is known.
std::optional<detect::PathType> nearest_path(const detect::Machine& machine, int gpu,
                                             const std::vector<int>& ports);

struct HcaEntry {
    std::string device;
    std::optional<long long> port;  ///< nothing: every port
};

/// NCCL_IB_HCA as NCCL takes it apart: `[^][=]device[:port],...`. Without `=` a name is a prefix
/// (src/misc/utils.cc parseStringList, src/transport/net_ib.cc).
struct HcaList {
    bool exclude = false;
    bool exact = false;
    std::vector<HcaEntry> entries;

    bool takes(const detect::Nic& nic) const;
};
inline constexpr std::size_t kMostHcaEntries = 32;  // MAX_IB_DEVS of NCCL's net_ib.cc
HcaList parse_hca_list(std::string_view value);

}  // namespace toporun::env
