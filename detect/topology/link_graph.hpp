#pragma once

#include <optional>
#include <vector>

#include "detect/machine.hpp"
#include "detect/topology/system_tree.hpp"

namespace toporun::detect {

enum class NodeKind { cpu, pci, gpu, nvswitch, nic, net };

inline constexpr double kUnlimitedGbytes = 5000;  ///< NCCL's LOC_BW

struct GraphLink {
    std::size_t to = 0;
    PathType kind = PathType::LOC;  ///< LOC, NVL, C2C, PIX (= PCI) or SYS
    double gbytes_per_s = 0;
    bool both_ways = true;  ///< false: the other end does not know of it, NCCL refuses to start
};

struct GraphNode {
    NodeKind kind = NodeKind::cpu;
    /// Widest first; among equals NVLinks, PCIe downwards, PCIe upwards, as NCCL sorts them.
    std::vector<GraphLink> links;
};

/// The tree as nodes and links (src/graph/topo.cc). The lists hold positions in `nodes`, in the
/// order of the tree; nets in the order of adapters, then ports.
struct LinkGraph {
    std::vector<GraphNode> nodes;
    std::vector<std::size_t> cpus;
    std::vector<std::size_t> gpus;
    std::vector<std::size_t> nets;
};

LinkGraph make_link_graph(const SystemTree& tree, std::optional<int> nccl_version);

}  // namespace toporun::detect
