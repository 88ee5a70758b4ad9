#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "detect/nccl_log/line.hpp"

namespace toporun::launcher {

/// Connections of one adapter port with the same path MTU and GID index.
struct LogQueuePairs {
    int device = 0;  ///< number of the adapter in NCCL's list
    int port = 0;
    int mtu_bytes = 0;
    std::optional<int> gid_index;  ///< of RoCE
    std::uint64_t count = 0;       ///< lines
};

/// Driver, adapters and NVLink between nodes, as far as the log says. Lists are bounded, distinct
/// and in order of first appearance.
struct LogFabric {
    /// RDMA ports that NCCL uses, by host: "mlx5_0:1/IB". The first list of each host.
    std::map<std::string, std::vector<std::string>> adapters;
    std::vector<int> cuda_drivers;  ///< API level, 12040 = CUDA 12.4
    std::vector<LogQueuePairs> queue_pairs;
    std::vector<detect::nccl_log::VirtualDevice> virtual_devices;
    std::vector<int> patterns_without_graph;  ///< numbers as in nccl_log::Pattern
    std::string collnet;                      ///< network of in-network reduction, "SHARP"
    std::optional<int> mnnvl_ranks;           ///< ranks that share NVLink between nodes, the most
    bool no_verbs = false;                    ///< libibverbs could not be opened

    void add_adapters(const std::string& host, const std::vector<std::string>& ports);
    /// False for events that are none of these.
    bool add(const detect::nccl_log::Event& event);
};

}  // namespace toporun::launcher
