#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "detect/network/network.hpp"

namespace toporun::detect {
namespace {

// Hardware types of linux/if_arp.h.
constexpr long long kTypeEthernet = 1;
constexpr long long kTypeInfiniband = 32;
constexpr long long kTypeLoopback = 772;
/// PPP, IPv4 and IPv6 in IP, SIT, GRE, GRE over IPv6, and interfaces without link layer (tun,
/// WireGuard).
constexpr std::array<long long, 7> kTunnelTypes = {512, 768, 769, 776, 778, 823, 65534};

/// Words of the kernel's drivers: rtnetlink's IFLA_INFO_KIND and DEVTYPE= in sysfs.
constexpr std::pair<std::string_view, NicKind> kDriverWords[] = {
    {"bond", NicKind::bond},        {"team", NicKind::bond},
    {"bridge", NicKind::bridge},    {"openvswitch", NicKind::bridge},
    {"vlan", NicKind::vlan},        {"veth", NicKind::veth},
    {"netkit", NicKind::veth},      {"ipoib", NicKind::ipoib},
    {"wireguard", NicKind::tunnel}, {"tun", NicKind::tunnel},
    {"vxlan", NicKind::tunnel},     {"geneve", NicKind::tunnel},
    {"bareudp", NicKind::tunnel},   {"ipip", NicKind::tunnel},
    {"ip6tnl", NicKind::tunnel},    {"sit", NicKind::tunnel},
    {"gre", NicKind::tunnel},       {"gretap", NicKind::tunnel},
    {"ip6gre", NicKind::tunnel},    {"ip6gretap", NicKind::tunnel},
    {"erspan", NicKind::tunnel},    {"ip6erspan", NicKind::tunnel},
    {"vti", NicKind::tunnel},       {"vti6", NicKind::tunnel},
    {"xfrm", NicKind::tunnel},      {"gtp", NicKind::tunnel},
    {"ovpn", NicKind::tunnel},      {"ovpn-dco", NicKind::tunnel},
    {"l2tpeth", NicKind::tunnel},   {"ppp", NicKind::tunnel},
    {"macvlan", NicKind::ethernet},  // an address of its own on the parent's wire
    {"ipvlan", NicKind::ethernet},  {"macsec", NicKind::ethernet},
    {"wlan", NicKind::ethernet},    {"dummy", NicKind::other},
    {"ifb", NicKind::other},        {"vrf", NicKind::other},
    {"nlmon", NicKind::other},      {"macvtap", NicKind::other},
    {"ipvtap", NicKind::other},
};

std::string device_type(const Files& files, const std::string& directory) {
    const std::string uevent = files.read(directory + "/uevent", 4096).value_or("");
    for (const std::string& line : split(uevent, '\n'))
        if (line.starts_with("DEVTYPE=")) return line.substr(8);
    return {};
}

}  // namespace

std::optional<NicKind> kind_of_driver_word(std::string_view word) {
    for (const auto& [known, kind] : kDriverWords)
        if (word == known) return kind;
    return std::nullopt;
}

std::optional<NicKind> kind_of_hardware_type(long long type) {
    if (type == kTypeLoopback) return NicKind::loopback;
    if (type == kTypeInfiniband) return NicKind::ipoib;
    if (std::find(kTunnelTypes.begin(), kTunnelTypes.end(), type) != kTunnelTypes.end())
        return NicKind::tunnel;
    return std::nullopt;
}

NicKind interface_kind(const Files& files, const std::string& name) {
    const std::string directory = "/sys/class/net/" + name;
    const auto type = files.integer(directory + "/type");
    if (type == kTypeLoopback) return NicKind::loopback;
    if (type == kTypeInfiniband) return NicKind::ipoib;
    if (files.exists(directory + "/bridge")) return NicKind::bridge;
    if (files.exists(directory + "/bonding")) return NicKind::bond;
    if (files.exists(directory + "/tun_flags")) return NicKind::tunnel;
    if (const auto kind = kind_of_driver_word(device_type(files, directory))) return *kind;
    if (files.exists("/proc/net/vlan/" + name)) return NicKind::vlan;
    if (const auto kind = type ? kind_of_hardware_type(*type) : std::nullopt) return *kind;
    if (files.exists(directory + "/device/physfn")) return NicKind::vf;
    if (files.exists(directory + "/device"))
        return type.value_or(kTypeEthernet) == kTypeEthernet ? NicKind::ethernet : NicKind::other;
    const auto index = files.integer(directory + "/ifindex");
    const auto link = files.integer(directory + "/iflink");
    if (type == kTypeEthernet && index && link && *index != *link) return NicKind::veth;
    return NicKind::other;
}

}  // namespace toporun::detect
