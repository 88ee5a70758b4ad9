#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

/// Driver, network plugins, queue pairs, NVLink between nodes, in-network reduction (NCCL
/// src/init.cc, plugin/net.cc, transport/net_ib*, coll_net.cc, mnnvl.cc). Pure like line.hpp.
namespace toporun::detect::nccl_log {

/// `cudaDriverVersion 12040`, 2.13 and later.
struct CudaDriver {
    int version = 0;  ///< 12040 = CUDA 12.4, the driver's API level
};

/// `Initialized NET plugin IB`, `Assigned NET plugin IB to comm`, `Failed to initialize NET plugin
/// IB`, 2.27 and later.
struct NetworkPlugin {
    enum class State { initialized, assigned, failed };
    std::string name;
    State state = State::initialized;
};

/// `NET/IB: NCCL Dev 0 IbDev 0 Port 1 qpn 1234 mtu 5 .. GID 3 (0/A0A0000A0000)`
struct QueuePair {
    int device = 0;  ///< number of the adapter in "NET/IB : Using"
    int port = 0;
    int mtu_bytes = 0;             ///< of the path
    std::optional<int> gid_index;  ///< RoCE
    std::optional<int> lid;        ///< InfiniBand
};

/// `NET/IB : Made virtual device [8] name=mlx5_0+mlx5_1 speed=400000 ndevs=2`, 2.24 and later.
struct VirtualDevice {
    int number = 0;
    std::string name;
    int mbit_per_s = 0;
    int ports = 0;
};

/// `Failed to open libibverbs.so[.1]`: no InfiniBand and no RoCE in this process.
struct NoVerbs {};

/// `MNNVL 1 cliqueId 0 cliqueSize 8 cliqueRank 0`: NVLink between nodes.
struct Mnnvl {
    bool used = false;
    int clique_ranks = 0;
};

/// `CollNet 00/0 : 0 [send] via COLLNET/SHARP/0/GDRDMA` (`Coll 00 : ..` in 2.8).
struct CollNet {
    int rank = 0;
    std::string network;  ///< "SHARP"
    bool gpu_direct = false;
};

/// `Could not find a path for pattern 4, falling back to simple order`, 2.27 and later.
struct NoGraph {
    int pattern = 0;  ///< as in Pattern
};

}  // namespace toporun::detect::nccl_log
