#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"

/// NCCL's own search for IP interfaces (src/misc/socket.cc and src/os/linux.cc, 2.8 to 2.30;
/// checked against NCCL 2.28.9).
namespace toporun::env {

struct IpAddress {
    bool v6 = false;
    std::array<unsigned char, 16> bytes{};  ///< the first four for IPv4
    int prefix = 0;                         ///< 32 or 128 when the text has none
};

/// "10.0.0.1/24", "fe80::1%eth0"; nothing for anything else.
std::optional<IpAddress> parse_ip(std::string_view text);
bool same_subnet(const IpAddress& of, const IpAddress& other);  ///< by the prefix of `of`
bool link_local(const IpAddress& address);
bool loopback(const IpAddress& address);

/// The address that NCCL announces of an interface: the first IPv4 one, else the first IPv6 one
/// that is not the loopback; by NCCL_SOCKET_FAMILY ("AF_INET", "AF_INET6") of one family only.
std::optional<IpAddress> announced_address(const detect::Nic& nic, const std::string& family);

/// The host of "host:port", "10.0.0.1:29500", "[fd00::1]:29500", "host" or "fd00::1".
std::string host_of(std::string_view endpoint);

/// What else steers the search.
struct SearchContext {
    std::optional<int> nccl;  ///< unknown: as the newest
    std::string family;       ///< NCCL_SOCKET_FAMILY
    std::string comm_id;      ///< NCCL_COMM_ID, "" = not set
};

/// NCCL_SOCKET_IFNAME as NCCL takes it apart.
struct IfnameList {
    bool ignored = false;  ///< empty or one character: automatic search
    bool exclude = false;  ///< `^`
    bool exact = false;    ///< `=`
    std::vector<std::string> entries;

    bool matches(std::string_view interface) const;  ///< with `exclude`: is not excluded
};
IfnameList parse_ifname(std::string_view value);

/// Whether the host's interfaces are known with their addresses, so that an absence says something.
/// Captures of PCI devices or RDMA ports alone do not tell. Every host lists lo.
bool interfaces_known(const detect::Machine& machine);

/// Positions in Machine::nics that NCCL would use, in its order: those with an IPv4 address first,
/// then the rest, at most 16. The bootstrap takes the first, NET/Socket all.
std::vector<int> automatic_search(const detect::Machine& machine, const SearchContext& context);
std::vector<int> listed_search(const detect::Machine& machine, const SearchContext& context,
                               const IfnameList& list);

/// Likewise what the bootstrap chooses from, its own first: with NCCL_COMM_ID the interfaces in
/// that address's subnet alone, whatever `list` says (src/bootstrap.cc); else by the list or the
/// search.
std::vector<int> bootstrap_search(const detect::Machine& machine, const SearchContext& context,
                                  const IfnameList& list);

}  // namespace toporun::env
