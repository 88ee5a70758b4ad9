#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "detect/machine.hpp"

/// Which GPU and which NIC lies where: what the drawings of a machine have in common. The model
/// holds paths, no switches: devices that reach each other by PIX share one, by PXB a tree of them.
namespace toporun::launcher {

/// GPUs and NICs below one PCIe switch, or a single device. Positions in Machine::gpus and nics.
struct SwitchGroup {
    std::vector<std::size_t> gpus;
    std::vector<std::size_t> nics;
    bool is_switch() const { return gpus.size() + nics.size() > 1; }
};

/// Groups that reach each other by PXB: more than one means a tree of switches.
struct SwitchTree {
    std::vector<SwitchGroup> groups;
};

/// A NUMA node with its devices. Without a number: GPUs whose node is unknown but that reach each
/// other through one CPU and some other GPU by SYS, with their NICs; or, not `located`, all other
/// devices.
struct Place {
    std::optional<int> numa_node;
    bool located = true;            ///< other places that are located are reached by SYS
    std::vector<SwitchTree> trees;  ///< in the order of the first device, GPUs before NICs
    std::string title;              ///< "NUMA node 0, CPUs 0-55, 1 TiB", not yet printable()
};

/// NUMA nodes by number, then places without one; on a machine with one node everything is on it.
/// Nodes with neither CPUs nor devices are left out, and so are interfaces that are no devices
/// (bridges, veth, loopback) or carry nothing.
std::vector<Place> layout_of(const detect::Machine& machine);

/// "GPU 0" and "mlx5_0"; safe for a terminal.
std::string gpu_title(const detect::Gpu& gpu);
std::string nic_title(const detect::Nic& nic);
std::string nic_words(const detect::Nic& nic);  ///< "400 Gb/s, down"

/// "NVL18, 450 GB/s": path of a pair and what is known of its bandwidth in one direction.
std::string pair_text(const detect::Machine& machine, std::size_t a, std::size_t b);

/// Whether the pair is joined by NVLinks of its own: through no switch and no third GPU.
bool linked_directly(const detect::Machine& machine, std::size_t a, std::size_t b);

/// "18 links, 450 GB/s" of a GPU to the NVSwitches; "" where it has none.
std::string switch_links_text(const detect::Machine& machine, std::size_t gpu);

}  // namespace toporun::launcher
