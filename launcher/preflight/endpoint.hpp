#pragma once

#include <optional>
#include <string>
#include <vector>

#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {

/// "2" or "1:4": the most nodes; 1 where it was left out; nothing for other texts.
std::optional<int> most_nodes(const std::optional<Said>& nnodes);

/// Likewise the least.
std::optional<int> least_nodes(const std::optional<Said>& nnodes);

/// The ranks meet at an address that one node listens on, the one of rank 0.
bool static_backend(const LaunchLine& line);

struct Endpoint {
    std::string host;
    std::string port;
    std::string words;
};

/// As parse_rendezvous_endpoint (torch/distributed/elastic/rendezvous/utils.py): the port stands
/// behind the last colon, or there is none.
Endpoint parse_endpoint(const std::string& text, std::string words);

/// localhost, ::1, 127.x, and 0.0.0.0, which to a connection is this host.
bool is_loopback_name(const std::string& host);

/// Each is an address that no other host reaches; true for none at all.
bool all_loopback(const std::vector<std::string>& addresses);

/// Where the ranks of the line meet, as it was said in the end.
struct MeetingPlace {
    Endpoint endpoint;
    bool several = false;      ///< nodes
    bool fixed_first = false;  ///< rank 0's node listens on it; else any node of that name does
    std::optional<bool> here;  ///< rank 0's node is this one; nothing = not known
};

/// Nothing where no address was said.
std::optional<MeetingPlace> meeting_place(const LaunchLine& line);

}  // namespace toporun::launcher
