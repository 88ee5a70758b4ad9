#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/json_entries.hpp"
#include "detect/import/open_end.hpp"
#include "detect/import/pasted_interfaces.hpp"

/// `ip -j addr`, `ip -j -d link`, `ip -j route` and `rdma -j link`: lists of JSON objects.
namespace toporun::detect {
namespace {

using Json = nlohmann::json;

/// What the lists of one text said.
struct Found {
    PastedInterfaces interfaces;
    std::vector<PastedPort> ports;
    std::string route_interface;  ///< of the default route with the smallest metric
    std::int64_t route_metric = 0;
    std::vector<std::string> notes;
    std::size_t entries = 0;  ///< that were something
};

std::string text(const Json& object, const char* key) {
    const auto found = object.find(key);
    return found != object.end() && found->is_string() ? found->get<std::string>() : std::string();
}

std::optional<std::int64_t> integer(const Json& object, const char* key, std::int64_t low,
                                    std::int64_t high) {
    const auto found = object.find(key);
    if (found == object.end() || !found->is_number_integer()) return std::nullopt;
    if (found->is_number_unsigned() && found->get<std::uint64_t>() > INT64_MAX) return std::nullopt;
    const auto value = found->get<std::int64_t>();
    return value >= low && value <= high ? std::optional(value) : std::nullopt;
}

std::optional<int> small(const Json& object, const char* key, int low, int high) {
    const auto value = integer(object, key, low, high);
    return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
}

/// The list under a key, or an empty one.
const Json& list(const Json& object, const char* key) {
    static const Json kNone = Json::array();
    const auto found = object.find(key);
    return found != object.end() && found->is_array() ? *found : kNone;
}

void read_addresses(const Json& entry, PastedInterface& pasted, Found& found) {
    for (const Json& address : list(entry, "addr_info")) {
        if (!address.is_object() || !address.contains("local")) continue;
        const std::string local = text(address, "local");
        if (const auto whole = address_with_prefix(local, small(address, "prefixlen", 0, 128)))
            pasted.addresses.push_back(*whole);
        else
            found.notes.push_back(fmt::format("{}: the address '{}' cannot be read, left out",
                                              printable(pasted.name),
                                              printable(local.substr(0, 64))));
    }
}

void read_interface(const Json& entry, const std::string& name, Found& found) {
    PastedInterface pasted;
    pasted.name = name;
    pasted.below = text(entry, "link");
    if (pasted.below.empty())
        if (const auto index = small(entry, "link_index", 1, INT32_MAX))
            pasted.below = fmt::format("if{}", *index);  // in another network namespace
    pasted.os_index = small(entry, "ifindex", 1, INT32_MAX).value_or(0);
    for (const Json& flag : list(entry, "flags"))
        if (flag.is_string()) pasted.flags.push_back(flag.get<std::string>());
    pasted.link_type = text(entry, "link_type");
    pasted.operstate = text(entry, "operstate");
    pasted.master = text(entry, "master");
    pasted.mtu = small(entry, "mtu", 1, 1 << 24);
    const auto info = entry.find("linkinfo");
    if (info != entry.end() && info->is_object()) pasted.info_kind = text(*info, "info_kind");
    read_addresses(entry, pasted, found);
    found.interfaces.add(std::move(pasted));
}

void read_port(const Json& entry, const std::string& name, Found& found) {
    PastedPort port;
    port.device = name.substr(0, name.find('/'));  // "mlx5_0/1" of older ones
    if (!rdma_name(port.device)) return;
    port.port = small(entry, "port", 1, 255);
    if (!port.port && port.device.size() < name.size())
        port.port = number_in(std::string_view(name).substr(port.device.size() + 1), 1, 255);
    port.state = text(entry, "state");
    if (entry.contains("sm_lid")) port.link_layer = "InfiniBand";
    port.guid = text(entry, "node_guid");
    if (const std::string netdev = text(entry, "netdev"); interface_name(netdev))
        port.interface = netdev;
    ++found.entries;
    found.ports.push_back(std::move(port));
}

void read_route(const Json& entry, Found& found) {
    const std::string interface = text(entry, "dev");
    if (!interface_name(interface)) return;
    ++found.entries;
    if (text(entry, "dst") != "default") return;
    const std::int64_t metric = integer(entry, "metric", 0, UINT32_MAX).value_or(0);
    if (!found.route_interface.empty() && metric >= found.route_metric) return;
    found.route_interface = interface;
    found.route_metric = metric;
}

void read_entry(const Json& entry, Found& found) {
    if (!entry.is_object()) return;
    const std::string name = text(entry, "ifname");
    if (name.empty() && entry.contains("dst")) return read_route(entry, found);
    if (entry.contains("physical_state") || entry.contains("node_guid"))
        return read_port(entry, name, found);
    if (name.empty()) return;  // `ip -j addr show up` prints {} for what it leaves out
    if (!interface_name(name)) {
        found.notes.push_back(fmt::format("'{}' is no name of an interface, left out",
                                          printable(name.substr(0, 64))));
        return;
    }
    ++found.entries;
    read_interface(entry, name, found);
}

/// The entries that can be read; the first fault stands in the error if there is none.
Found read_entries(const Lines& lines, const std::vector<JsonEntry>& entries) {
    Found found;
    std::optional<Error> fault;
    for (const JsonEntry& entry : entries) {
        const auto leave_out = [&](std::size_t at, const std::string& what) {
            Error here = json_error(lines, entry, at, what);
            found.notes.push_back(fmt::format("line {}: {}, the entry is left out",
                                              lines.lines[entry.first_line].number, here.what()));
            if (!fault) fault = std::move(here);
        };
        try {
            read_entry(Json::parse(entry.text), found);
        } catch (const Json::parse_error& error) {
            const std::size_t at = std::min(error.byte, entry.text.size());
            leave_out(
                at == 0 ? 0 : at - 1,
                entry.complete ? "not JSON" : "the JSON is cut: an entry has no closing bracket");
        } catch (const Json::out_of_range&) {
            leave_out(0, "a number is larger than any can be");
        }
    }
    if (found.entries == 0) {
        if (fault) throw *fault;
        // An empty list is an answer: there is no interface.
        if (!entries.empty() && found.notes.empty())
            throw json_error(lines, entries.front(), 0,
                             "expected entries with \"ifname\", as `ip -j addr` prints them");
    }
    return found;
}

/// The default route as a fact of the interface it names.
void add_route(const Found& found, std::vector<Nic>& nics) {
    if (found.route_interface.empty()) return;
    for (Nic& nic : nics)
        if (nic.name == printable(found.route_interface)) {
            nic.default_route = true;
            return;
        }
    nics.push_back(nic_of_name(found.route_interface));
    nics.back().default_route = true;
}

bool has(const Lines& lines, std::string_view key) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [&](const PastedLine& line) {
        return line.text.find(key) != std::string::npos;
    });
}

bool recognise(const Lines& lines) {
    const bool keys = has(lines, "\"ifname\"") || (has(lines, "\"dst\"") && has(lines, "\"dev\""));
    return keys && has_json_list(lines);
}

Reading read(const Lines& lines) {
    JsonEntries entries = json_entries(lines);
    Found found = read_entries(lines, entries.entries);
    Reading reading{found.interfaces.machine(), std::move(entries.understood)};
    Machine& machine = reading.machine;
    for (const std::string& note : found.notes) machine.notes.push_back(note);
    Machine ports = machine_of_ports(found.ports);
    std::move(ports.nics.begin(), ports.nics.end(), std::back_inserter(machine.nics));
    std::move(ports.notes.begin(), ports.notes.end(), std::back_inserter(machine.notes));
    add_route(found, machine.nics);
    return reading;
}

}  // namespace

Importer ip_json_importer() {
    return {"ip -j addr", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
