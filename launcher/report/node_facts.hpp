#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "launcher/command/job_place.hpp"
#include "launcher/report/run_facts.hpp"

/// What the nodes of a job should have in common, and the comparison. Pure: no file, no clock.
namespace toporun::launcher {

/// The first line of a node's facts, enough to tell whether two nodes agree.
struct NodeHead {
    std::uint64_t hash = 0;  ///< of the lines
    int node = 0;            ///< its number in the job
    std::string name;        ///< printable, without blanks
    friend bool operator==(const NodeHead&, const NodeHead&) = default;
};

/// One node before the start: NCCL and driver version, GPUs, interfaces and their MTU, RDMA
/// devices, and what was chosen.
struct NodeFacts {
    NodeHead head;
    std::vector<std::pair<std::string, std::string>> lines;  ///< key and printable value, in order
    friend bool operator==(const NodeFacts&, const NodeFacts&) = default;
};

NodeFacts node_facts(const RunFacts& facts, const JobPlace& place);

/// The small file that each node leaves at its start:
///
///     toporun-node 1 00f3a1b2c3d4e5f6 3 node-d
///     nccl 2.28.9
///     driver 570.86.15
///     ...
///     set NCCL_P2P_LEVEL NVL
std::string node_facts_text(const NodeFacts& facts);
/// Nothing for a text of another form or a cut one.
std::optional<NodeFacts> parse_node_facts(std::string_view text);
/// Of the first line alone; `text` may end anywhere behind it.
std::optional<NodeHead> parse_node_head(std::string_view text);
/// The first line is never longer (bytes).
inline constexpr std::size_t kMostHeadBytes = 128;

/// Of nodes with equal facts one, by position: what has to be read whole.
std::vector<std::size_t> representatives(std::span<const NodeHead> heads);

/// Nodes with equal facts.
struct NodeGroup {
    std::vector<NodeHead> nodes;
    std::vector<std::pair<std::string, std::string>> lines;
};
/// `facts` of the representatives, by hash; a head without its facts is left out. Groups with more
/// nodes first, then in the order of the nodes.
std::vector<NodeGroup> group_nodes(std::span<const NodeHead> heads,
                                   std::span<const NodeFacts> facts);

/// A fact in which nodes differ, as a finding: id `nodes-differ-KEY`, the values with their nodes,
/// what it does and what helps; the most harmful first. What a node does not know is no difference.
std::vector<env::Finding> node_differences(std::span<const NodeGroup> groups);

}  // namespace toporun::launcher
