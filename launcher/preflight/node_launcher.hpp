#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {

/// A launcher that runs once on each node and starts the ranks there, and its options as its manual
/// spells them; "" = it has none.
struct NodeLauncher {
    std::string_view kind;  ///< as in LauncherOptions
    std::string_view command;
    std::string_view nodes;
    std::string_view ranks;  ///< of a node, or all
    std::string_view node_rank;
    std::string_view address;
    std::string_view default_port;
    std::string_view default_address;  ///< "" = it ends with an error
};

/// torchrun, accelerate launch, deepspeed, composer, fabric run; nullptr for other kinds.
const NodeLauncher* node_launcher(std::string_view kind);

/// What the launcher was told, in torchrun's terms.
void read_node_launcher(LaunchLine& line);

/// The words that start the launcher on each of the nodes: one srun, c10d for torchrun, else node
/// ranks that each task fills in. `toporun`: with toporun in front of it. They name MASTER_ADDR.
std::string start_on_each_node(const LaunchLine& line, std::optional<int> nodes,
                               bool toporun = false);

}  // namespace toporun::launcher
