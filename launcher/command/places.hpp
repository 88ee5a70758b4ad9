#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "launcher/command/command.hpp"
#include "launcher/command/host.hpp"

/// On which hosts a launcher starts its ranks.
namespace toporun::launcher {

constexpr std::size_t kListBytes = 1 << 20;  ///< of a host file that is read

/// Where the ranks may go, as far as the command line and the allocation say.
struct Places {
    std::set<std::string> hosts;
    std::vector<std::string> order;  ///< the same as they were named
    bool unknown = false;            ///< a list that cannot be read here
    std::optional<int> slots;
    std::map<std::string, int> slots_of;  ///< of the hosts that name a number

    void add(const std::string& name) {
        if (hosts.insert(name).second) order.push_back(name);
    }
};

/// Adds the hosts of a file: each line's first word; in a rank file (`rank 0=node slot=0`) what
/// follows the `=`.
void add_host_file(Places& places, const std::string& path, bool ranks, const Host& host);
/// Adds the hosts of `node-a:4,node-b`, with their slots.
void add_host_list(Places& places, const std::string& list);
/// Adds what a resource manager has given: more than one node of Slurm, or a list in a file.
void add_allocation(Places& places, const Environment& environment, const Host& host);

/// The hosts with every name of this one as "localhost".
std::set<std::string> distinct_hosts(const std::set<std::string>& names, const Host& host);
/// A host of `places` that is not this one; "" = none is named.
std::string other_host(const Places& places, const Host& host);

/// Leaves the hosts that get ranks when each takes its slots in order. Returns the ranks of each of
/// them; nothing where the hosts' slots are not known or the hosts get different numbers.
std::optional<int> fill_by_slot(Places& places, int ranks);

/// Why ranks may start on another host; "" = they start here.
std::string not_here(const Places& places, const Host& host);

/// Sets the job's hosts and whether its ranks start here. Returns not_here().
std::string settle_places(env::Job& job, const Places& places, const Host& host);

}  // namespace toporun::launcher
