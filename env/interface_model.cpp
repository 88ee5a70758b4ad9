#include "env/interface_model.hpp"

#include <arpa/inet.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {
namespace {

constexpr std::size_t kMaxInterfaces = 16;   // MAX_IFS of NCCL's net_socket.cc
constexpr std::size_t kMaxEntryLength = 63;  // of struct netIf, NCCL src/misc/utils.cc

bool requires_running(const SearchContext& context) {
    return !context.nccl || *context.nccl >= 22803;
}

/// The address NCCL would take of an interface, in the given family.
bool has_family(const detect::Nic& nic, bool v6) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const std::string& text) {
        const auto address = parse_ip(text);
        return address && address->v6 == v6 && !(v6 && loopback(*address));
    });
}

/// Usable interfaces in the order of getifaddrs: the kernel lists all IPv4 addresses before the
/// IPv6 ones.
std::vector<int> in_order(const detect::Machine& machine, const SearchContext& context) {
    std::vector<int> order;
    for (const bool v6 : {false, true}) {
        if (context.family == (v6 ? "AF_INET" : "AF_INET6")) continue;
        for (std::size_t i = 0; i < machine.nics.size(); ++i) {
            const detect::Nic& nic = machine.nics[i];
            const int position = static_cast<int>(i);
            if (!has_family(nic, v6)) continue;
            if (requires_running(context) && nic.state == "down") continue;
            if (std::find(order.begin(), order.end(), position) == order.end())
                order.push_back(position);
        }
    }
    return order;
}

template <class Predicate>
std::vector<int> those(const detect::Machine& machine, const std::vector<int>& order,
                       Predicate&& wanted) {
    std::vector<int> found;
    for (const int position : order)
        if (found.size() < kMaxInterfaces &&
            wanted(machine.nics[static_cast<std::size_t>(position)]))
            found.push_back(position);
    return found;
}

bool in_subnet_of(const detect::Nic& nic, const IpAddress& peer) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const std::string& text) {
        const auto address = parse_ip(text);
        return address && same_subnet(*address, peer);
    });
}

}  // namespace

std::optional<IpAddress> parse_ip(std::string_view text) {
    IpAddress address;
    std::string_view number = text;
    std::optional<long long> prefix;
    if (const std::size_t slash = text.find('/'); slash != std::string_view::npos) {
        number = text.substr(0, slash);
        prefix = to_integer(text.substr(slash + 1));
        if (!prefix) return std::nullopt;
    }
    number = number.substr(0, number.find('%'));  // the zone of a link-local address
    const std::string word(number);
    if (inet_pton(AF_INET, word.c_str(), address.bytes.data()) != 1) {
        address.v6 = true;
        if (inet_pton(AF_INET6, word.c_str(), address.bytes.data()) != 1) return std::nullopt;
    }
    const long long longest = address.v6 ? 128 : 32;
    if (prefix.value_or(longest) < 0 || prefix.value_or(longest) > longest) return std::nullopt;
    address.prefix = static_cast<int>(prefix.value_or(longest));
    return address;
}

bool same_subnet(const IpAddress& of, const IpAddress& other) {
    if (of.v6 != other.v6) return false;
    for (int bit = 0; bit < of.prefix; ++bit) {
        const auto byte = static_cast<std::size_t>(bit / 8);
        const int mask = 0x80 >> (bit % 8);
        if ((of.bytes[byte] & mask) != (other.bytes[byte] & mask)) return false;
    }
    return true;
}

bool link_local(const IpAddress& address) {
    if (address.v6) return address.bytes[0] == 0xfe && (address.bytes[1] & 0xc0) == 0x80;
    return address.bytes[0] == 169 && address.bytes[1] == 254;
}

bool loopback(const IpAddress& address) {
    if (!address.v6) return address.bytes[0] == 127;
    return std::all_of(address.bytes.begin(), address.bytes.end() - 1,
                       [](unsigned char byte) { return byte == 0; }) &&
           address.bytes.back() == 1;
}

std::optional<IpAddress> announced_address(const detect::Nic& nic, const std::string& family) {
    for (const bool v6 : {false, true}) {
        if (family == (v6 ? "AF_INET" : "AF_INET6")) continue;
        for (const std::string& text : nic.addresses)
            if (const auto address = parse_ip(text);
                address && address->v6 == v6 && !(v6 && loopback(*address)))
                return address;
    }
    return std::nullopt;
}

std::string host_of(std::string_view endpoint) {
    endpoint = trim(endpoint);
    if (endpoint.starts_with('[')) {
        const std::size_t end = endpoint.find(']');
        return std::string(endpoint.substr(1, end == std::string_view::npos ? end : end - 1));
    }
    const std::size_t colon = endpoint.find(':');
    if (colon != std::string_view::npos && endpoint.find(':', colon + 1) != std::string_view::npos)
        return std::string(endpoint);  // a bare IPv6 address
    return std::string(endpoint.substr(0, colon));
}

bool IfnameList::matches(std::string_view interface) const {
    if (entries.empty()) return !exclude;  // a list of nothing takes everything (matchIfList)
    const bool listed = std::any_of(entries.begin(), entries.end(), [&](const std::string& entry) {
        return exact ? interface == entry : interface.starts_with(entry);
    });
    return listed != exclude;
}

IfnameList parse_ifname(std::string_view value) {
    IfnameList list;
    if (value.size() <= 1) {
        list.ignored = true;
        return list;
    }
    if (value.starts_with('^')) list.exclude = true, value.remove_prefix(1);
    if (value.starts_with('=')) list.exact = true, value.remove_prefix(1);
    for (const std::string& part : split(value, ',')) {
        std::string name = part.substr(0, part.find(':'));
        if (name.size() > kMaxEntryLength) name.resize(kMaxEntryLength);
        if (!name.empty() && list.entries.size() < kMaxInterfaces)
            list.entries.push_back(std::move(name));
    }
    return list;
}

std::vector<int> listed_search(const detect::Machine& machine, const SearchContext& context,
                               const IfnameList& list) {
    return those(machine, in_order(machine, context),
                 [&](const detect::Nic& nic) { return list.matches(nic.name); });
}

bool interfaces_known(const detect::Machine& machine) {
    if (machine.nics.empty()) return machine.nics_known;
    const auto address = [](const detect::Nic& nic) { return !nic.addresses.empty(); };
    const auto down = [](const detect::Nic& nic) { return nic.state == "down"; };
    return std::any_of(machine.nics.begin(), machine.nics.end(), address) ||
           std::all_of(machine.nics.begin(), machine.nics.end(), down);
}

std::vector<int> automatic_search(const detect::Machine& machine, const SearchContext& context) {
    const std::vector<int> order = in_order(machine, context);
    const auto starting = [&](std::string_view prefix) {
        return those(machine, order,
                     [&](const detect::Nic& nic) { return nic.name.starts_with(prefix); });
    };
    std::vector<int> found = starting("ib");
    if (!found.empty()) return found;
    if (!context.comm_id.empty()) {
        if (const auto peer = parse_ip(host_of(context.comm_id)))
            found = those(machine, order,
                          [&](const detect::Nic& nic) { return in_subnet_of(nic, *peer); });
        if (!found.empty()) return found;
    }
    const bool knows_virbr = requires_running(context);
    found = those(machine, order, [&](const detect::Nic& nic) {
        return !nic.name.starts_with("docker") && !nic.name.starts_with("lo") &&
               !(knows_virbr && nic.name.starts_with("virbr"));
    });
    if (found.empty()) found = starting("docker");
    if (found.empty()) found = starting("lo");
    if (found.empty() && knows_virbr) found = starting("virbr");
    return found;
}

std::vector<int> bootstrap_search(const detect::Machine& machine, const SearchContext& context,
                                  const IfnameList& list) {
    if (const auto peer = parse_ip(host_of(context.comm_id)))
        return those(machine, in_order(machine, context),
                     [&](const detect::Nic& nic) { return in_subnet_of(nic, *peer); });
    return list.ignored ? automatic_search(machine, context)
                        : listed_search(machine, context, list);
}

}  // namespace toporun::env
