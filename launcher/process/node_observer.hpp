#pragma once

#include "launcher/process/observer.hpp"

namespace toporun::launcher {

/// Follows the ranks of a node that a launcher on another host has started, until `ranks` of them
/// have come and the last has ended, or for 60 s without any; then writes the node's report into
/// the run directory, where that is on this host too, and removes the private directory. Returns in
/// a process of its own session without any descriptor but /dev/null: the caller goes on at once.
void leave_node_observer(ObserverTask task, std::size_t ranks);

}  // namespace toporun::launcher
