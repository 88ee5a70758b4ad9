#pragma once

#include <vector>

#include "env/inputs.hpp"

namespace toporun::env {

struct InterfaceDecision {
    Setting setting;                      ///< NCCL_SOCKET_IFNAME
    std::vector<std::string> interfaces;  ///< NCCL's own pick, in its order
    std::vector<Finding> findings;
};

/// NCCL_SOCKET_IFNAME: exported only where NCCL's own pick cannot reach the other nodes, or
/// contains an interface that cannot.
InterfaceDecision decide_interface(const Inputs& inputs);

/// Whether the job spans several hosts, and how that is known.
struct Span {
    bool several = false;
    std::string evidence;
};
Span job_span(const Inputs& inputs);

inline const detect::Nic& nic_at(const Inputs& inputs, int position) {
    return inputs.machine.nics[static_cast<std::size_t>(position)];
}

/// Why an interface is of no use towards other hosts: "down", "bridge", "link-local address only"
/// ...;
/// "" when nothing speaks against it.
std::string interface_flaw(const detect::Nic& nic);

/// The value that names this interface alone: plain, or `=name` where the name is a prefix of
/// another.
std::string ifname_value(const detect::Machine& machine, const std::string& name);

}  // namespace toporun::env
