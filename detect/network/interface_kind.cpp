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
/// IPv4 and IPv6 in IP, SIT, GRE, GRE over IPv6, and interfaces without link layer (tun,
/// WireGuard).
constexpr std::array<long long, 6> kTunnelTypes = {768, 769, 776, 778, 823, 65534};

/// DEVTYPE= of the kernel drivers that set one.
constexpr std::array<std::pair<std::string_view, NicKind>, 12> kDeviceTypes = {{
    {"bond", NicKind::bond},
    {"bridge", NicKind::bridge},
    {"vlan", NicKind::vlan},
    {"wireguard", NicKind::tunnel},
    {"vxlan", NicKind::tunnel},
    {"geneve", NicKind::tunnel},
    {"gre", NicKind::tunnel},
    {"gretap", NicKind::tunnel},
    {"ppp", NicKind::tunnel},
    {"macvlan", NicKind::ethernet},  // an address of its own on the parent's wire
    {"ipvlan", NicKind::ethernet},
    {"wlan", NicKind::ethernet},
}};

std::string device_type(const Files& files, const std::string& directory) {
    const std::string uevent = files.read(directory + "/uevent", 4096).value_or("");
    for (const std::string& line : split(uevent, '\n'))
        if (line.starts_with("DEVTYPE=")) return line.substr(8);
    return {};
}

}  // namespace

NicKind interface_kind(const Files& files, const std::string& name) {
    const std::string directory = "/sys/class/net/" + name;
    const auto type = files.integer(directory + "/type");
    if (type == kTypeLoopback) return NicKind::loopback;
    if (type == kTypeInfiniband) return NicKind::ipoib;
    if (files.exists(directory + "/bridge")) return NicKind::bridge;
    if (files.exists(directory + "/bonding")) return NicKind::bond;
    if (files.exists(directory + "/tun_flags")) return NicKind::tunnel;
    const std::string word = device_type(files, directory);
    for (const auto& [device_word, kind] : kDeviceTypes)
        if (word == device_word) return kind;
    if (files.exists("/proc/net/vlan/" + name)) return NicKind::vlan;
    if (type && std::find(kTunnelTypes.begin(), kTunnelTypes.end(), *type) != kTunnelTypes.end())
        return NicKind::tunnel;
    if (files.exists(directory + "/device/physfn")) return NicKind::vf;
    if (files.exists(directory + "/device"))
        return type.value_or(kTypeEthernet) == kTypeEthernet ? NicKind::ethernet : NicKind::other;
    const auto index = files.integer(directory + "/ifindex");
    const auto link = files.integer(directory + "/iflink");
    if (type == kTypeEthernet && index && link && *index != *link) return NicKind::veth;
    return NicKind::other;
}

}  // namespace toporun::detect
