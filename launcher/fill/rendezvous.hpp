#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"
#include "env/plan.hpp"
#include "launcher/fill/gaps.hpp"

/// Where the ranks of a job meet.
namespace toporun::launcher {

/// What this host says when it is asked.
struct RendezvousFacts {
    std::string first_host;              ///< the first of the host file; "" = there is none
    std::vector<std::string> addresses;  ///< of the first host as seen from here, best first
    std::string source;                  ///< what told them: "getent ahosts n1"
    bool unanswered = false;             ///< no name service has told in time: not known
    bool from_slurm = false;             ///< the address by which Slurm reaches the node
    std::set<int> listening;             ///< TCP ports that somebody listens on here
    long long process = 0;               ///< this process: tells apart jobs that have no number
};

/// One line of a process: ports of the state LISTEN in /proc/net/tcp or tcp6.
std::set<int> listening_ports(std::string_view proc_net_tcp);

/// The addresses in what `getent ahosts NAME` prints, each once, in its order.
std::vector<std::string> ahosts_addresses(std::string_view text);

/// NodeAddr of `scontrol show node`, where it is an address; "" else.
std::string node_address(std::string_view scontrol_text);

/// The address of `host` in SLURM_NODE_ALIASES ("n1:10.0.0.1:n1,n2:..."); "" where it has none.
std::string alias_address(std::string_view aliases, const std::string& host);

struct Rendezvous {
    std::string address;
    int port = 0;
    std::string reason;       ///< of the address
    bool known = true;        ///< false: there is no address, this is the name alone
    bool certain = true;      ///< false: it is a name that does not resolve here
    bool port_taken = false;  ///< somebody listens on it already, and it cannot be another
};

/// The address of the interface that was chosen on the first node, as this node reaches it; on one
/// node the loopback. The port follows from the job's number, so that tasks that decide each for
/// itself come to the same; where one toporun decides for all, it is one that nobody listens on.
Rendezvous choose_rendezvous(const Gaps& gaps, const RendezvousFacts& facts,
                             const Environment& environment, const detect::Machine& machine,
                             const env::Plan& plan);

/// The job's own port: below the range that kernels hand out by themselves (32768), and none of
/// PyTorch's defaults (29400, 29500).
int job_port(const Environment& environment, long long otherwise);

}  // namespace toporun::launcher
