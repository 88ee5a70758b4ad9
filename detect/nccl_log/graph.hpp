#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

/// Messages of the subsystem GRAPH: the tree of the node and its paths, as versions 2.8 to 2.30 and
/// RCCL print them (NCCL src/graph/topo.cc, paths.cc), and the distances between GPUs and adapters.
/// Pure like line.hpp: a message in, an event out; no input makes it throw.
namespace toporun::detect::nccl_log {

/// `GPU/1A000` (up to 2.20), `GPU/0-1a000`.
struct GraphNode {
    std::string kind;           ///< "GPU", "CPU", "PCI", "NVS", "NIC", "NET", "DEV", ...
    std::optional<int> system;  ///< number of the host, 2.21 and later
    std::uint64_t id = 0;       ///< bus id as one number; NUMA node of a CPU, number of a NET
    friend bool operator==(const GraphNode&, const GraphNode&) = default;
};

/// `=== System : maxBw 240.0 totalBw 240.0 ===`, the line that begins the tree.
struct SystemHeader {};

/// The line of `=` that ends the tree.
struct SystemEnd {};

/// A line of the tree: `CPU/0 (1/1/2)`, `  + PCI[24.0] - GPU/1A000 (0)`.
struct TreeLine {
    std::size_t indent = 0;  ///< blanks before; a child stands further to the right
    std::string link;        ///< "PCI", "NVL", "NET", ...; "" for a CPU
    double gbytes_per_s = 0;
    GraphNode node;
    std::string detail;  ///< between the brackets, "" without
};

struct PathEntry {
    GraphNode to;
    int hops = 0;
    double gbytes_per_s = 0;
    std::string type;  ///< "PIX"
};

/// `GPU/0-1a000 :GPU/0-1a000 (0/5000.0/LOC) ...`
struct PathLine {
    GraphNode from;
    std::vector<PathEntry> to;
    bool cut = false;  ///< the line ends within an entry: NCCL cuts long ones
};

/// `GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)`, up to 2.29.
struct GpuDirectDistance {
    bool enabled = false;
    std::string gpu;   ///< bus id in hex up to 2.23, rank from 2.24 on, as printed
    std::string hca;   ///< number of the adapter as printed
    int distance = 0;  ///< a number of the path type, which depends on the version
};

/// `NET/IB : GPU Direct RDMA Enabled for HCA 0 'mlx5_0'`, 2.13 and later: names the adapters of any
/// network.
struct GpuDirectDevice {
    std::string network;  ///< "NET/IB"
    bool enabled = false;
    int number = 0;    ///< of the NET in the tree
    std::string name;  ///< "mlx5_0"; an interface of NET/Socket
};

using GraphEvent = std::variant<std::monostate, SystemHeader, TreeLine, SystemEnd, PathLine,
                                GpuDirectDistance, GpuDirectDevice>;

/// The event in a message (Record::message), nothing (monostate) for other messages.
GraphEvent parse_graph(std::string_view message);

}  // namespace toporun::detect::nccl_log
