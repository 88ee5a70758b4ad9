#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/inputs.hpp"
#include "env/interface_model.hpp"

namespace toporun::env {

struct InterfaceDecision {
    Setting setting;                      ///< NCCL_SOCKET_IFNAME
    std::vector<std::string> interfaces;  ///< NCCL's own pick, in its order
    std::vector<Finding> findings;
};

/// NCCL_SOCKET_IFNAME: exported only where NCCL's own pick cannot reach the other nodes, or
/// contains an interface that cannot or that is clearly worse than the rest.
InterfaceDecision decide_interface(const Inputs& inputs);

/// Positions of the interfaces that NCCL's sockets use with the plan, the bootstrap's first: by the
/// user's list, toporun's choice or NCCL's own search.
std::vector<int> socket_interfaces(const Inputs& inputs);

/// What else of the user's steers NCCL's search.
SearchContext search_context(const Inputs& inputs);

/// Whether the job spans several hosts, and how that is known.
struct Span {
    bool several = false;
    std::string evidence;
};
Span job_span(const Inputs& inputs);

/// Address or host of the rendezvous: the command line's, else MASTER_ADDR; "" = none known.
std::string rendezvous_of(const Inputs& inputs);

inline const detect::Nic& nic_at(const Inputs& inputs, int position) {
    return inputs.machine.nics[static_cast<std::size_t>(position)];
}

/// Why an interface is of no use towards other hosts: "down", "bridge", "link-local address" ...;
/// "" when nothing that is told speaks against it. `family`: NCCL_SOCKET_FAMILY. A bridge or veth
/// with the default route is the host's or container's own way out, and so is a bridge with a
/// physical port. Where no route is told, a bridge or veth is a flaw by its name or its members
/// only: a pod's interfaces look like a host's ends of pods.
std::string interface_flaw(const detect::Machine& machine, const detect::Nic& nic,
                           const std::string& family = "");

/// The value that names this interface alone: plain, or `=name` where the name is a prefix of
/// another.
std::string ifname_value(const detect::Machine& machine, const std::string& name);

}  // namespace toporun::env
