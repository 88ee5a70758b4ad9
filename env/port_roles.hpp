#pragma once

#include <string>
#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

/// An RDMA port that is no part of the compute network, and how that is seen.
struct LeftPort {
    int port = 0;     ///< position in Machine::nics
    std::string why;  ///< "farther from every GPU (SYS) than the others (PIX)"
};

struct PortRoles {
    std::vector<int> taken;  ///< what NCCL would take by itself: every active port
    std::vector<int> kept;   ///< those for the data between GPUs
    std::vector<LeftPort> left_out;
};

/// Tells the ports for the data between GPUs from storage and management ports and from duplicates:
/// iWARP ports, members beside their bond's device, virtual functions beside their card, the weaker
/// of InfiniBand and RoCE, ports behind no GPU's switch where every GPU has one behind its own,
/// ports of at most half the speed, RoCE ports without a routable address. What would take a GPU's
/// nearest port is not left out. Down ports are not among `taken`: NCCL skips them by itself.
PortRoles port_roles(const detect::Machine& machine);

/// For each GPU (by position) the RDMA devices nearest to it among what the job will use, rails
/// first: GPUs that share ports start each with another one.
std::vector<std::vector<std::string>> nearest_devices(const Inputs& inputs);

}  // namespace toporun::env
