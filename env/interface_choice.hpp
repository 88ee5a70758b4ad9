#pragma once

#include <string>
#include <vector>

#include "env/inputs.hpp"

/// Which interfaces reach the other nodes of a job of several.
namespace toporun::env {

/// interface_flaw() for this job: what was only doubted, a VPN, is none where the rendezvous
/// address shows that the other nodes are reached by it. `nic`: of inputs.machine.
std::string flaw_for_job(const Inputs& inputs, const detect::Nic& nic,
                         const std::string& family = {});

/// An interface of NCCL's own pick that should not be in it, and why.
struct BadInterface {
    int position = 0;
    std::string why;  ///< "veth", "VLAN of bond0: the same wires"
};

struct InterfaceChoice {
    std::vector<BadInterface> bad;  ///< empty: NCCL's own pick stands
    std::vector<int> positions;     ///< what to take instead; empty: nothing is certain
    std::string reason;
};

/// Judges NCCL's own pick `own` (positions in its order) and chooses in its place.
InterfaceChoice choose_interfaces(const Inputs& inputs, const std::vector<int>& own);

}  // namespace toporun::env
