#include "detect/network/interface_names.hpp"

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// How much of the name has to match: all of it, the stem and then a number, or the stem alone.
enum class Match { whole, number, stem };

struct NameRule {
    std::string_view stem;
    Match match;
    NicKind kind;
};

/// The first that matches counts.
constexpr NameRule kNameRules[] = {
    {"lo", Match::whole, NicKind::loopback},
    {"docker", Match::number, NicKind::bridge},  // Docker, and the k8s, LXD, libvirt bridges
    {"docker_gwbridge", Match::whole, NicKind::bridge},
    {"br-", Match::stem, NicKind::bridge},
    {"br", Match::number, NicKind::bridge},
    {"bridge", Match::number, NicKind::bridge},
    {"virbr", Match::number, NicKind::bridge},
    {"cni", Match::number, NicKind::bridge},
    {"cni-podman", Match::stem, NicKind::bridge},
    {"podman", Match::number, NicKind::bridge},
    {"nerdctl", Match::number, NicKind::bridge},
    {"cbr", Match::number, NicKind::bridge},
    {"kube-bridge", Match::whole, NicKind::bridge},
    {"lxcbr", Match::number, NicKind::bridge},
    {"lxdbr", Match::number, NicKind::bridge},
    {"mpqemubr", Match::number, NicKind::bridge},
    {"vmbr", Match::number, NicKind::bridge},
    {"xenbr", Match::number, NicKind::bridge},
    {"ovs-system", Match::whole, NicKind::bridge},
    {"ovsbr", Match::number, NicKind::bridge},
    {"veth", Match::stem, NicKind::veth},
    {"cali", Match::stem, NicKind::veth},  // Calico's end of a pod
    {"lxc", Match::stem, NicKind::veth},   // Cilium's and LXC's
    {"cilium_host", Match::whole, NicKind::veth},
    {"cilium_net", Match::whole, NicKind::veth},
    {"flannel", Match::stem, NicKind::tunnel},  // VXLAN
    {"cilium_vxlan", Match::whole, NicKind::tunnel},
    {"vxlan", Match::stem, NicKind::tunnel},
    {"genev_sys", Match::stem, NicKind::tunnel},
    {"antrea-tun", Match::stem, NicKind::tunnel},
    {"tunl", Match::number, NicKind::tunnel},
    {"tun", Match::stem, NicKind::tunnel},
    {"tap", Match::stem, NicKind::tunnel},
    {"vnet", Match::number, NicKind::tunnel},  // libvirt's tap of a guest
    {"utun", Match::number, NicKind::tunnel},
    {"tailscale", Match::stem, NicKind::tunnel},
    {"wg", Match::stem, NicKind::tunnel},
    {"nordlynx", Match::stem, NicKind::tunnel},
    {"CloudflareWARP", Match::whole, NicKind::tunnel},
    {"zt", Match::stem, NicKind::tunnel},  // ZeroTier: zt and ten letters
    {"ppp", Match::number, NicKind::tunnel},
    {"gre", Match::number, NicKind::tunnel},
    {"gretap", Match::number, NicKind::tunnel},
    {"erspan", Match::number, NicKind::tunnel},
    {"sit", Match::number, NicKind::tunnel},
    {"ip6tnl", Match::number, NicKind::tunnel},
    {"ip6gre", Match::number, NicKind::tunnel},
    {"ip_vti", Match::number, NicKind::tunnel},
    {"ip6_vti", Match::number, NicKind::tunnel},
    {"ipip", Match::number, NicKind::tunnel},
    {"dummy", Match::number, NicKind::other},
    {"kube-ipvs", Match::number, NicKind::other},
    {"nodelocaldns", Match::whole, NicKind::other},
    {"ifb", Match::number, NicKind::other},
    {"bond", Match::stem, NicKind::bond},
    {"team", Match::number, NicKind::bond},
    {"vlan", Match::number, NicKind::vlan},
    {"ib", Match::number, NicKind::ipoib},
    {"ibp", Match::number, NicKind::ipoib},  // systemd: ib by path, slot, onboard index, MAC
    {"ibs", Match::number, NicKind::ipoib},
    {"ibo", Match::number, NicKind::ipoib},
    {"ibx", Match::stem, NicKind::ipoib},
    {"macvlan", Match::stem, NicKind::ethernet},
    {"macvtap", Match::stem, NicKind::ethernet},
    {"eth", Match::number, NicKind::ethernet},
    {"eno", Match::number, NicKind::ethernet},
    {"ens", Match::number, NicKind::ethernet},
    {"enp", Match::number, NicKind::ethernet},
    {"enP", Match::number, NicKind::ethernet},  // with a PCI domain
    {"enx", Match::stem, NicKind::ethernet},
    {"enc", Match::number, NicKind::ethernet},
    {"ena", Match::stem, NicKind::ethernet},
    {"em", Match::number, NicKind::ethernet},
    {"p", Match::number, NicKind::ethernet},  // biosdevname: p1p1
    {"usb", Match::number, NicKind::ethernet},
    {"wl", Match::stem, NicKind::ethernet},
};

bool digit(char c) {
    return c >= '0' && c <= '9';
}

bool number_to_4095(std::string_view word) {
    if (word.empty() || !digit(word.front())) return false;
    const auto number = to_integer(word);
    return number && *number >= 0 && *number <= 4095;
}

bool matches(const NameRule& rule, std::string_view name) {
    if (!name.starts_with(rule.stem)) return false;
    const std::string_view rest = name.substr(rule.stem.size());
    if (rule.match == Match::whole) return rest.empty();
    return rule.match == Match::stem || (!rest.empty() && digit(rest.front()));
}

bool vlan_name(std::string_view name) {
    const std::size_t dot = name.rfind('.');
    return dot != std::string_view::npos && dot > 0 && number_to_4095(name.substr(dot + 1));
}

}  // namespace

std::string vlan_parent(std::string_view name) {
    return vlan_name(name) ? std::string(name.substr(0, name.rfind('.'))) : std::string();
}

bool virtual_function_name(std::string_view name) {
    if (!name.starts_with("en") && !name.starts_with("ib")) return false;
    const std::size_t v = name.rfind('v');
    return v != std::string_view::npos && v > 3 && digit(name[v - 1]) &&
           number_to_4095(name.substr(v + 1));
}

std::optional<NicKind> kind_of_name(std::string_view name) {
    if (virtual_function_name(name)) return NicKind::vf;
    for (const NameRule& rule : kNameRules) {
        if (!matches(rule, name)) continue;
        const bool wire = rule.kind == NicKind::ethernet || rule.kind == NicKind::bond ||
                          rule.kind == NicKind::bridge;
        return wire && vlan_name(name) ? NicKind::vlan : rule.kind;
    }
    if (vlan_name(name)) return NicKind::vlan;
    return std::nullopt;
}

}  // namespace toporun::detect
