#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `ip route`, `ip -6 route`, `ip route get`, and `route -n` (also `netstat -rn`): one route a
/// line.
namespace toporun::detect {
namespace {

struct PastedRoute {
    std::string_view interface;
    bool is_default = false;
    bool next_hop = false;  ///< one of several ways of the route above
    bool v6 = false;
    std::int64_t metric = 0;
    bool no_carrier = false;
    std::string address;                ///< of the interface, where the kernel made the route of it
    std::optional<Route> towards_peer;  ///< an answer to `ip route get`
};

std::string_view after(const std::vector<std::string_view>& parts, std::string_view word) {
    const auto found = std::find(parts.begin(), parts.end(), word);
    return found == parts.end() || found + 1 == parts.end() ? std::string_view() : *(found + 1);
}

bool has(const std::vector<std::string_view>& parts, std::string_view word) {
    return std::find(parts.begin(), parts.end(), word) != parts.end();
}

std::int64_t metric_of(std::string_view word) {
    return number_in(word, 0, INT32_MAX).value_or(0);
}

/// "10.0.0.1 via 10.9.0.254 dev eth0 src 10.9.0.7 uid 1000".
std::optional<Route> peer_route(const std::vector<std::string_view>& parts) {
    const auto destination = address_with_prefix(parts[0]);
    const auto source = address_with_prefix(after(parts, "src"));
    if (!destination || !source || parts[0].find('/') != std::string_view::npos) return {};
    if (has(parts, "proto") || has(parts, "scope")) return {};
    return Route{*destination, printable(after(parts, "dev")), *source};
}

std::optional<PastedRoute> read_ip_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() < 3 || !interface_name(after(parts, "dev"))) return std::nullopt;
    PastedRoute route;
    route.interface = after(parts, "dev");
    route.no_carrier = has(parts, "linkdown");
    route.metric = metric_of(after(parts, "metric"));
    route.v6 = after(parts, "via").find(':') != std::string_view::npos;
    if (parts[0] == "default" || parts[0] == "nexthop") {
        route.is_default = parts[0] == "default";
        route.next_hop = !route.is_default;
        return has(parts, "via") || parts[1] == "dev" ? std::optional(route) : std::nullopt;
    }
    if (!address_with_prefix(parts[0])) return std::nullopt;
    if (parts[1] != "dev" && parts[1] != "via") return std::nullopt;
    route.towards_peer = peer_route(parts);
    const bool kernels = after(parts, "proto") == "kernel" && after(parts, "scope") == "link";
    const std::size_t slash = parts[0].find('/');
    if (kernels && slash != std::string_view::npos)
        route.address =
            address_with_prefix(after(parts, "src"), number_in(parts[0].substr(slash + 1), 0, 128))
                .value_or("");
    return route;
}

/// Destination Gateway Genmask Flags Metric Ref Use Iface; netstat has three other numbers.
std::optional<PastedRoute> read_table_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.size() != 8 || !interface_name(parts[7])) return std::nullopt;
    const bool any = parts[0] == "default" || parts[0] == "0.0.0.0";
    const auto ipv4 = [](std::string_view word) {
        return word.find('.') != std::string_view::npos && address_with_prefix(word).has_value();
    };
    if ((!any && !ipv4(parts[0])) || !ipv4(parts[2]) || !parts[3].starts_with('U'))
        return std::nullopt;
    for (const std::size_t column : {4u, 5u, 6u})
        if (!number_in(parts[column], 0, INT32_MAX)) return std::nullopt;
    PastedRoute route;
    route.interface = parts[7];
    route.is_default = any && parts[2] == "0.0.0.0";
    route.metric = metric_of(parts[4]);
    return route;
}

std::optional<PastedRoute> read_line(std::string_view text) {
    auto route = read_ip_line(text);
    return route ? route : read_table_line(text);
}

/// The metric of "default proto bgp metric 20", with "nexthop via 10.0.0.1 dev eth0 weight 1"
/// below.
std::optional<std::int64_t> several_ways_metric(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    if (parts.empty() || parts[0] != "default" || has(parts, "dev")) return std::nullopt;
    return metric_of(after(parts, "metric"));
}

bool frame_line(std::string_view text) {
    const std::vector<std::string_view> parts = words(text);
    return parts.empty() || parts[0] == "cache" || text.starts_with("Kernel IP routing table") ||
           (parts[0] == "Destination" && parts.back() == "Iface") ||
           (parts[0] == "default" && parts.size() < 6) || parts[0] == "unreachable" ||
           parts[0] == "blackhole" || (parts[0] == "local" && has(parts, "dev"));
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(),
                       [](const PastedLine& line) { return read_line(line.text).has_value(); });
}

/// IPv4 before IPv6, then the smallest metric, then the first.
bool better(const PastedRoute& route, const PastedRoute& best) {
    return route.v6 != best.v6 ? best.v6 : route.metric < best.metric;
}

Reading read(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = false;
    std::map<std::string, std::size_t, std::less<>> known;
    std::optional<PastedRoute> best;
    std::optional<std::int64_t> several_ways;  ///< metric of a default route without `dev`
    for (const PastedLine& line : lines.lines) {
        auto route = read_line(line.text);
        reading.understood.push_back(route || frame_line(line.text));
        if (!route || !route->next_hop) several_ways = several_ways_metric(line.text);
        if (!route) continue;
        if (route->next_hop && several_ways) {
            route->is_default = true;
            route->metric = *several_ways;
        }
        const auto [at, added] =
            known.try_emplace(std::string(route->interface), machine.nics.size());
        if (added) machine.nics.push_back(nic_of_name(route->interface));
        Nic& nic = machine.nics[at->second];
        if (route->no_carrier) nic.state = "down";
        if (!route->address.empty()) nic.addresses.push_back(route->address);
        if (route->towards_peer) machine.routes.push_back(*route->towards_peer);
        if (route->is_default && (!best || better(*route, *best))) best = route;
    }
    if (best) machine.nics[known.find(best->interface)->second].default_route = true;
    for (Nic& nic : machine.nics) {  // an address may have several routes
        std::sort(nic.addresses.begin(), nic.addresses.end());
        nic.addresses.erase(std::unique(nic.addresses.begin(), nic.addresses.end()),
                            nic.addresses.end());
    }
    return reading;
}

}  // namespace

Importer ip_route_importer() {
    return {"ip route", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
