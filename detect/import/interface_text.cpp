#include "detect/import/interface_text.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "detect/network/interface_names.hpp"
#include "detect/network/network.hpp"
#include "detect/network/port_state.hpp"
#include "detect/network/port_tables.hpp"

namespace toporun::detect {
namespace {

/// Link types of `ip` (ARPHRD_* of linux/if_arp.h). "ether" says nothing more.
constexpr std::array<std::pair<std::string_view, NicKind>, 13> kLinkTypes = {{
    {"loopback", NicKind::loopback},
    {"infiniband", NicKind::ipoib},
    {"none", NicKind::tunnel},
    {"unspec", NicKind::other},  // a link that net-tools has no word for, see ifconfig.cpp
    {"ppp", NicKind::tunnel},
    {"ipip", NicKind::tunnel},
    {"tunnel", NicKind::tunnel},
    {"tunnel6", NicKind::tunnel},
    {"sit", NicKind::tunnel},
    {"gre", NicKind::tunnel},
    {"gre6", NicKind::tunnel},
    {"[65534]", NicKind::tunnel},
    {"ieee802.11", NicKind::ethernet},
}};

bool digit(char c) {
    return c >= '0' && c <= '9';
}

template <std::size_t size>
std::optional<NicKind> look_up(const std::array<std::pair<std::string_view, NicKind>, size>& table,
                               std::string_view word) {
    for (const auto& [name, kind] : table)
        if (name == word) return kind;
    return std::nullopt;
}

/// What an interface is whose own words do not say it, by the one behind its `@`: that of another
/// network namespace is the far end of a virtual pair; that of this one is what a VLAN lies on,
/// unless the name tells another kind.
std::optional<NicKind> kind_by_relation(const PastedInterface& pasted) {
    if (pasted.below.empty()) return std::nullopt;
    if (pasted.below.starts_with("if") && number_in(pasted.below.substr(2), 1, INT32_MAX))
        return NicKind::veth;
    const auto by_name = kind_of_name(pasted.name);
    return by_name && *by_name != NicKind::ethernet ? by_name : NicKind::vlan;
}

/// `ip` prints the link type of everything: what ends before it may be of any kind.
bool is_cut(const PastedInterface& pasted) {
    return pasted.details_cut ||
           (pasted.os_index != 0 && !pasted.flags.empty() && pasted.link_type.empty());
}

NicKind kind_of(const PastedInterface& pasted) {
    if (pasted.flag("LOOPBACK")) return NicKind::loopback;
    const auto by_link = look_up(kLinkTypes, pasted.link_type);
    if (by_link == NicKind::loopback || by_link == NicKind::ipoib) return *by_link;
    if (const auto kind = kind_of_driver_word(pasted.info_kind)) return *kind;
    if (pasted.flag("MASTER")) return NicKind::bond;  // IFF_MASTER: set by the bonding driver
    if (by_link) return *by_link;
    if (virtual_function_name(pasted.name)) return NicKind::vf;
    const auto by_name = kind_of_name(pasted.name);
    if (is_cut(pasted) && by_name.value_or(NicKind::ethernet) == NicKind::ethernet)
        return NicKind::other;
    if (const auto kind = kind_by_relation(pasted)) return *kind;
    // A name of an IPoIB interface on an Ethernet link is somebody's fancy.
    if (by_name && !(by_name == NicKind::ipoib && pasted.link_type == "ether")) return *by_name;
    return pasted.link_type == kUntoldLink ? NicKind::other : NicKind::ethernet;
}

/// The kernel's RUNNING flag, by which NCCL takes or leaves an interface. iproute2 does not print
/// it: NO-CARRIER is its word for "UP and not RUNNING", and the operational state is UP or UNKNOWN
/// exactly where a running interface has the flag (net/core/dev.c, dev_get_flags).
std::string state_of(const PastedInterface& pasted) {
    const bool oper_known = !pasted.operstate.empty();
    const bool oper_up = pasted.operstate == "UP" || pasted.operstate == "UNKNOWN";
    if (pasted.flags.empty()) return !oper_known ? "unknown" : oper_up ? "up" : "down";
    if (!pasted.flag("UP") || pasted.flag("NO-CARRIER")) return "down";
    if (pasted.flag("RUNNING")) return "up";
    if (oper_known) return oper_up ? "up" : "down";
    return pasted.flag("LOWER_UP") ? "up" : "unknown";
}

std::string lower(std::string_view text) {
    std::string out(text);
    for (char& c : out)
        if (c >= 'A' && c <= 'Z') c = static_cast<char>(c - 'A' + 'a');
    return out;
}

/// "0x0002c90300000001", "0002:c903:0000:0001": groups of four hexadecimal digits.
std::string guid_text(std::string_view text) {
    std::string digits;
    const std::string word = lower(text);
    for (const char c : word.starts_with("0x") ? std::string_view(word).substr(2) : word) {
        if (digit(c) || (c >= 'a' && c <= 'f'))
            digits += c;
        else if (c != ':')
            return {};
    }
    if (digits.size() != 16 || digits.find_first_not_of('0') == std::string::npos) return {};
    for (const std::size_t at : {12u, 8u, 4u}) digits.insert(at, ":");
    return digits;
}

NicKind port_kind(const PastedPort& pasted) {
    const std::string layer = lower(pasted.link_layer);
    if (layer == "infiniband") return NicKind::infiniband;
    // 0x1d0f is Amazon. EFA calls its link layer unspecified.
    if (lower(pasted.vendor_id) == "0x1d0f" || pasted.device.starts_with("efa_"))
        return NicKind::efa;
    if (pasted.iwarp) return NicKind::other;
    if (layer == "ethernet") return NicKind::roce;
    if (layer == "unspecified" && pasted.device.starts_with("rdmap")) return NicKind::efa;
    if (!layer.empty() || pasted.interface.empty()) return NicKind::other;
    const NicKind kind = nic_of_name(pasted.interface).kind;
    return kind == NicKind::ipoib ? NicKind::infiniband : NicKind::roce;
}

/// The port's Nic becomes that of its interface.
void take_interface(const PastedPort& port, Nic& nic) {
    const Nic interface = nic_of_name(port.interface);
    nic.name = interface.name;
    nic.virtual_function = interface.virtual_function;
    nic.parent = interface.parent;
    if (!port.interface_state.empty()) nic.state = port.interface_state;
    if (nic.kind == NicKind::infiniband)
        nic.kind = NicKind::ipoib;
    else if (interface.kind != NicKind::ethernet && interface.kind != NicKind::ipoib &&
             interface.kind != NicKind::other)
        nic.kind = interface.kind;  // as detection: bonds, VLANs and VFs keep theirs
}

/// A port that is listed again with another state: the first stays.
void note_other_state(const std::vector<Nic>& known, const Nic& again,
                      std::vector<std::string>& notes) {
    constexpr std::size_t kMost = 20;
    for (const Nic& nic : known) {
        if (nic.rdma_device != again.rdma_device || nic.port != again.port) continue;
        if (nic.port_state.empty() || again.port_state.empty() || notes.size() >= kMost ||
            nic.port_state == again.port_state)
            continue;
        notes.push_back(fmt::format("port {} of {} is listed as {} and as {}: the first is kept",
                                    again.port.value_or(1), *again.rdma_device, nic.port_state,
                                    again.port_state));
    }
}

}  // namespace

bool PastedInterface::flag(std::string_view word) const {
    return std::find(flags.begin(), flags.end(), word) != flags.end();
}

bool interface_name(std::string_view word) {
    if (word.empty() || word.size() > 15 || word == "." || word == "..") return false;  // IFNAMSIZ
    return std::none_of(word.begin(), word.end(), [](char c) {
        return static_cast<unsigned char>(c) <= ' ' || c == '/' || c == ':' || c == '\x7f';
    });
}

bool rdma_name(std::string_view word) {
    if (word.empty() || word.size() > 63) return false;
    return std::all_of(word.begin(), word.end(), [](char c) {
        return digit(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_' ||
               c == '-' || c == '.';
    });
}

std::pair<std::string_view, std::string_view> split_at_sign(std::string_view word) {
    const std::size_t at = word.find('@');
    if (at == std::string_view::npos) return {word, {}};
    const std::string_view below = word.substr(at + 1);
    return {word.substr(0, at), below == "NONE" ? std::string_view() : below};
}

std::optional<int> number_in(std::string_view word, int low, int high) {
    int value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || end != word.data() + word.size()) return std::nullopt;
    return value >= low && value <= high ? std::optional(value) : std::nullopt;
}

std::optional<std::string> address_with_prefix(std::string_view text, std::optional<int> prefix) {
    const std::size_t slash = text.find('/');
    const std::string address(text.substr(0, std::min(slash, std::size_t{64})));
    std::array<unsigned char, 16> bytes{};
    const bool v4 = inet_pton(AF_INET, address.c_str(), bytes.data()) == 1;
    if (!v4 && inet_pton(AF_INET6, address.c_str(), bytes.data()) != 1) return std::nullopt;
    std::array<char, INET6_ADDRSTRLEN> out{};
    inet_ntop(v4 ? AF_INET : AF_INET6, bytes.data(), out.data(), out.size());
    const int longest = v4 ? 32 : 128;
    if (slash != std::string_view::npos) {
        prefix = number_in(text.substr(slash + 1), 0, longest);
        if (!prefix) return std::nullopt;
    }
    if (!prefix || *prefix < 0 || *prefix > longest) return std::string(out.data());
    return fmt::format("{}/{}", out.data(), *prefix);
}

Nic to_nic(const PastedInterface& pasted) {
    Nic nic;
    nic.name = printable(pasted.name);
    nic.kind = kind_of(pasted);
    nic.state = state_of(pasted);
    nic.mtu = pasted.mtu;
    nic.addresses = pasted.addresses;
    nic.os_index = pasted.os_index;
    nic.master = printable(pasted.master);
    nic.virtual_function = virtual_function_name(pasted.name);
    if (nic.kind == NicKind::vlan || nic.kind == NicKind::tunnel || nic.kind == NicKind::ipoib ||
        nic.kind == NicKind::ethernet)
        nic.parent = printable(pasted.below);
    if (nic.kind == NicKind::vlan && nic.parent.empty()) nic.parent = vlan_parent(nic.name);
    return nic;
}

Nic nic_of_name(std::string_view name) {
    PastedInterface pasted;
    pasted.name = name;
    Nic nic = to_nic(pasted);
    nic.kind = kind_of_name(name).value_or(NicKind::other);
    return nic;
}

std::optional<std::pair<std::string_view, std::string_view>> key_and_value(std::string_view line) {
    const std::size_t colon = line.find(':');
    if (colon == std::string_view::npos) return std::nullopt;
    return std::pair(trim(line.substr(0, colon)), trim(line.substr(colon + 1)));
}

std::optional<double> listed_rate(std::string_view text) {
    double value = 0;
    const std::string_view word = trim(text);
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc() || !(value > 0) || value > 1e6) return std::nullopt;
    return value;
}

std::optional<Gid> listed_gid(int index, std::string_view address, std::string_view type,
                              std::string_view interface) {
    Gid gid;
    gid.index = index;
    gid.address = canonical_gid(std::string(trim(address)));
    if (gid.address.empty()) return std::nullopt;
    const std::string word = lower(trim(type));
    if (word.ends_with("v2"))
        gid.type = "RoCE v2";
    else if (word.ends_with("roce v1") || word == "v1")
        gid.type = "RoCE v1";
    else if (word == "ib" || word == "infiniband")
        gid.type = "IB";
    if (interface_name(interface)) gid.interface = printable(interface);
    return gid;
}

bool named_efa(std::string_view device) {
    return device.starts_with("rdmap") && device.size() > 5 && digit(device[5]);
}

bool empty_gid(std::string_view address) {
    return address_with_prefix(trim(address)) == "::";
}

bool take_state(std::string_view value, PastedPort& port) {
    const bool understood = port_state_of(value).has_value();
    if (understood) port.state = value;
    return understood;
}

bool take_link_layer(std::string_view value, PastedPort& port) {
    const std::string word = lower(value);
    for (const std::string_view layer : {"InfiniBand", "Ethernet", "Unspecified", "Unknown"}) {
        if (word != lower(layer) && !(word == "ib" && layer == "InfiniBand")) continue;
        port.link_layer = layer;
        return true;
    }
    return false;
}

bool take_rate(std::string_view value, std::string_view unit, PastedPort& port) {
    const std::size_t end = std::min(value.find_first_not_of("0123456789."), value.size());
    if (!trim(value.substr(end)).starts_with(unit) || (unit.empty() && end != value.size()))
        return false;
    const auto rate = listed_rate(value.substr(0, end));
    if (rate) port.rate_gbits = rate;
    return rate || value.substr(0, end) == "0";
}

bool take_guid(std::string_view value, PastedPort& port) {
    port.guid = value;
    const auto zeros = value.find_first_not_of("0x:") == std::string_view::npos;
    return value.empty() || zeros || !guid_text(value).empty();
}

Nic to_nic(const PastedPort& pasted) {
    Nic nic;
    nic.name = printable(pasted.device);
    nic.rdma_device = nic.name;
    nic.port = pasted.port;
    nic.kind = port_kind(pasted);
    nic.port_state = port_state_of(pasted.state).value_or("");
    nic.state = nic.port_state.empty() ? "unknown" : nic.port_state == "active" ? "up" : "down";
    // A port without a link shows a rate that is no fact: the slowest one, "10".
    if (nic.port_state != "down") nic.speed_gbits = pasted.rate_gbits;
    nic.mtu = pasted.mtu;
    nic.guid = guid_text(pasted.guid);
    nic.pci = pasted.pci;
    nic.numa_node = pasted.numa_node;
    nic.iwarp = pasted.iwarp;
    nic.gids = pasted.gids;
    nic.errors = pasted.errors;
    return nic;
}

Machine machine_of_ports(const std::vector<PastedPort>& ports) {
    Machine machine;
    machine.gpus_known = false;
    std::set<std::pair<std::string, std::optional<int>>> seen;
    std::set<std::string> interfaces;
    for (const PastedPort& port : ports) {
        if (!seen.emplace(port.device, port.port).second) {
            note_other_state(machine.nics, to_nic(port), machine.notes);
            continue;
        }
        machine.nics.push_back(to_nic(port));
        Nic& nic = machine.nics.back();
        if (nic.state == "unknown" && !port.interface_state.empty())
            nic.state = port.interface_state;
        if (port.interface.empty()) continue;
        if (interfaces.insert(port.interface).second)
            take_interface(port, nic);
        else
            nic.master = printable(port.interface);
    }
    if (const std::size_t left_out = ports.size() - machine.nics.size(); left_out > 0)
        machine.notes.push_back(
            fmt::format("{} more port{} of devices that were listed before, taken for other "
                        "machines, left out",
                        left_out, left_out == 1 ? "" : "s"));
    return machine;
}

}  // namespace toporun::detect
