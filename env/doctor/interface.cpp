#include "env/interface.hpp"
#include "env/interface_choice.hpp"

#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/text.hpp"
#include "env/carrier.hpp"
#include "env/doctor/facts.hpp"

/// Interfaces that carry the bootstrap and NET/Socket.
namespace toporun::env::doctor {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;

constexpr std::string_view kFamily = "interface";
/// NCCL spreads data evenly over the interfaces: at this factor both together carry half of what
/// the fast one does alone.
constexpr double kMixedSpeeds = 4;
constexpr double kSlowInterfaceGbits = 0.1;

/// What is missing where interfaces_known() says no.
std::string unknown_interfaces(const Machine& machine) {
    const bool listed = std::any_of(machine.nics.begin(), machine.nics.end(), [](const Nic& nic) {
        return nic.rdma_device != nic.name && (nic.state == "up" || nic.state == "down");
    });
    return listed ? "the addresses of the interfaces" : "the network interfaces";
}

bool is_amazon(const Machine& machine) {
    return machine.vendor.find("Amazon") != std::string::npos || has_efa(machine);
}

/// The interfaces that the sockets of this job use without toporun: the user's choice or NCCL's
/// own.
std::vector<int> used_interfaces(const Patient& patient) {
    const Inputs& inputs = patient.inputs;
    if (const auto value = user_value(inputs, kSocketIfname))
        if (const IfnameList list = parse_ifname(*value); !list.ignored)
            return listed_search(inputs.machine, search_context(inputs), list);
    return automatic_search(inputs.machine, search_context(inputs));
}

/// An IPv4 subnet that several interfaces have addresses in.
struct CommonSubnet {
    IpAddress network;
    std::vector<const Nic*> nics;        ///< kernel order
    std::vector<std::string> addresses;  ///< of each: "10.0.0.2"
    bool used = false;                   ///< NCCL's sockets use one of them

    std::string text() const {
        return fmt::format("{}.{}.{}.{}/{}", network.bytes[0], network.bytes[1], network.bytes[2],
                           network.bytes[3], network.prefix);
    }
};

IpAddress network_of(IpAddress address) {
    for (int bit = address.prefix; bit < 32; ++bit) {
        auto& byte = address.bytes[static_cast<std::size_t>(bit / 8)];
        byte = static_cast<unsigned char>(byte & ~(0x80 >> (bit % 8)));
    }
    return address;
}

/// Of one port, or of the same wires: a VLAN and what it lies upon.
bool same_wires(const Nic& a, const Nic& b) {
    return a.name == b.name || a.parent == b.name || b.parent == a.name;
}

/// Each subnet of the interfaces with its members.
std::vector<CommonSubnet> subnets(const Patient& patient) {
    const Machine& machine = patient.machine();
    const std::vector<int> used = used_interfaces(patient);
    std::vector<CommonSubnet> found;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        const Nic& nic = machine.nics[i];
        if (!interface_flaw(machine, nic).empty()) continue;
        for (const std::string& text : nic.addresses) {
            const auto address = parse_ip(text);
            if (!address || address->v6 || address->prefix >= 31 || address->prefix == 0 ||
                link_local(*address) || loopback(*address))
                continue;
            auto subnet = std::find_if(found.begin(), found.end(), [&](const CommonSubnet& known) {
                return same_subnet(known.network, *address);
            });
            if (subnet == found.end()) {
                found.emplace_back();
                subnet = found.end() - 1;
                subnet->network = network_of(*address);
            }
            const bool again = std::any_of(subnet->nics.begin(), subnet->nics.end(),
                                           [&](const Nic* one) { return same_wires(*one, nic); });
            if (again) continue;
            subnet->nics.push_back(&nic);
            subnet->addresses.push_back(text.substr(0, text.find('/')));
            subnet->used = subnet->used ||
                           std::find(used.begin(), used.end(), static_cast<int>(i)) != used.end();
        }
    }
    return found;
}

/// Of all members but the first, which keeps the main table: a table of its own for each.
std::string tables_command(const CommonSubnet& subnet, int& table) {
    constexpr std::size_t kMostShown = 4;
    std::string command;
    for (std::size_t i = 1; i < std::min(subnet.nics.size(), kMostShown); ++i, ++table)
        command +=
            fmt::format("ip rule add from {} table {} && ip route add {} dev {} table {} && ",
                        subnet.addresses[i], table, subnet.text(), subnet.nics[i]->name, table);
    return command + "sysctl net.ipv4.conf.all.arp_ignore=1 net.ipv4.conf.all.arp_announce=2";
}

/// A host answers for all its addresses on every port (arp_ignore 0), and the route of a subnet is
/// one port's. Adapters whose data goes by verbs choose the port themselves. Rules of policy
/// routing, which cure it, are not read: vendors deliver layouts of many ports in one subnet with
/// them (Slingshot, several ENIs), so those are no more than a note.
void same_subnet_ports(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!interfaces_known(machine)) return verdict.unknown(unknown_interfaces(machine));
    if (!maybe_several_nodes(patient) || is_amazon(machine)) return;
    // Where the capture does not say which interface an adapter has, the clouds' names do.
    const auto is_rdma = [&](const Nic* nic) {
        return nic->rdma_device.has_value() || nic->kind == NicKind::ipoib ||
               (nic->name.starts_with("rdma") && data_over_rdma(patient.inputs));
    };
    int table = 100;
    for (const CommonSubnet& subnet : subnets(patient)) {
        const std::size_t count = subnet.nics.size();
        if (count < 2 || !subnet.used) continue;
        if (std::all_of(subnet.nics.begin(), subnet.nics.end(), is_rdma)) continue;
        std::vector<std::string> names, addresses;
        for (std::size_t i = 0; i < count; ++i) {
            names.push_back(subnet.nics[i]->name);
            addresses.push_back(
                fmt::format("{} has {}", names.back(), join(subnet.nics[i]->addresses, ", ")));
        }
        constexpr std::size_t kUsualPorts = 2;
        const bool certain = count <= kUsualPorts && !data_over_rdma(patient.inputs);
        verdict.find(
            certain ? Severity::slow : Severity::note,
            {.what = fmt::format("{} share the subnet {}", and_list(names), subnet.text()),
             .evidence = join(addresses, "; ") + (certain ? "" : "; ip rule is not known"),
             .effect = "the kernel sends by the route, so traffic may leave by the other port than "
                       "the one that NCCL chose, and connections may time out",
             .fix = tables_command(subnet, table),
             .remark = "as root, until the next boot, unless `ip rule` has such rules already; "
                       "better give them different subnets"});
    }
}

/// The host's own address where it is on lo alone, as with BGP down to the host: NCCL takes
/// 127.0.0.1 there (NVIDIA/nccl issue 1053).
std::string address_on_lo(const Machine& machine) {
    for (const Nic& nic : machine.nics) {
        if (nic.kind != NicKind::loopback && nic.name != "lo") continue;
        for (const std::string& text : nic.addresses)
            if (const auto address = parse_ip(text);
                address && !loopback(*address) && !link_local(*address))
                return text;
    }
    return "";
}

/// Without a value of the user's, NCCL's own pick.
void unreachable_pick(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!interfaces_known(machine)) return verdict.unknown(unknown_interfaces(machine));
    if (!several_nodes(patient) || user_has(patient.inputs, kSocketIfname)) return;
    std::vector<std::string> bad;
    std::vector<int> used = used_interfaces(patient);
    for (const int position : used) {
        const std::string flaw = flaw_for_job(patient.inputs, nic_at(patient, position));
        if (!flaw.empty())
            bad.push_back(fmt::format("{} ({})", nic_at(patient, position).name, flaw));
    }
    if (bad.empty()) return;
    const bool first = !flaw_for_job(patient.inputs, nic_at(patient, used.front())).empty();
    std::string fix = "set NCCL_SOCKET_IFNAME to the interface that the other nodes reach";
    std::string remark;
    if (const std::string own = address_on_lo(machine); !own.empty() && bad.size() == used.size()) {
        fix = fmt::format(
            "ip link add dummy0 type dummy && ip addr add {} dev dummy0 && ip link "
            "set dummy0 up && export NCCL_SOCKET_IFNAME=dummy0",
            own);
        remark = "as root; the host's address is on lo, of which NCCL takes 127.0.0.1";
    }
    for (const Setting& setting : patient.plan.settings)
        if (setting.name == kSocketIfname && setting.value) {
            fix = fmt::format("export NCCL_SOCKET_IFNAME={}", shell_word(*setting.value));
            remark.clear();
        }
    verdict.slow(
        {.what = fmt::format("NCCL by itself takes {}", and_list(bad)),
         .evidence = fmt::format("NCCL's own search gives {}", join(patient.plan.interfaces, ", ")),
         .effect = first ? "the bootstrap takes the first, which other nodes may not "
                           "reach: the job hangs at its start"
                         : "NET/Socket spreads the data over all of them, and other "
                           "nodes may not reach these",
         .fix = std::move(fix),
         .remark = std::move(remark)});
}

bool sockets_carry_data(const Patient& patient) {
    return data_carrier(patient.inputs).kind == Carrier::sockets;
}

void mixed_speeds(const Patient& patient, Verdict& verdict) {
    if (!interfaces_known(patient.machine()))
        return verdict.unknown(unknown_interfaces(patient.machine()));
    if (!several_nodes(patient) || !sockets_carry_data(patient)) return;
    const Nic *slowest = nullptr, *fastest = nullptr;
    for (const int position : used_interfaces(patient)) {
        const Nic& nic = nic_at(patient, position);
        if (!nic.speed_gbits || !interface_flaw(patient.machine(), nic).empty()) continue;
        if (slowest == nullptr || *nic.speed_gbits < *slowest->speed_gbits) slowest = &nic;
        if (fastest == nullptr || *nic.speed_gbits > *fastest->speed_gbits) fastest = &nic;
    }
    if (slowest == nullptr || *fastest->speed_gbits < kMixedSpeeds * *slowest->speed_gbits) return;
    verdict.slow(
        {.what = fmt::format("NET/Socket uses {} ({:g} Gb/s) beside {} ({:g} Gb/s)", slowest->name,
                             *slowest->speed_gbits, fastest->name, *fastest->speed_gbits),
         .evidence = "both are in the list that NCCL uses",
         .effect = "the data is spread evenly over them, so the slow one sets the pace",
         .fix = fmt::format("export NCCL_SOCKET_IFNAME={}",
                            ifname_value(patient.machine(), fastest->name))});
}

void low_speed(const Patient& patient, Verdict& verdict) {
    if (!interfaces_known(patient.machine()))
        return verdict.unknown(unknown_interfaces(patient.machine()));
    if (!maybe_several_nodes(patient)) return;
    for (const int position : used_interfaces(patient)) {
        const Nic& nic = nic_at(patient, position);
        if (!nic.speed_gbits || *nic.speed_gbits > kSlowInterfaceGbits || nic.state != "up")
            continue;
        if (nic.kind != NicKind::ethernet) continue;
        verdict.slow(
            {.what = fmt::format("{} runs at {:g} Mb/s", nic.name, *nic.speed_gbits * 1000),
             .evidence = fmt::format("/sys/class/net/{}/speed", nic.name),
             .effect = "12 MB/s at most: mostly a bad cable, or a switch port with a fixed speed",
             .fix = fmt::format("ethtool {}", nic.name),
             .remark = "replace the cable"});
    }
}

/// The kernel's own answer against the interfaces that NCCL announces, for peers in their subnet.
void route_differs(const Patient& patient, Verdict& verdict) {
    if (!several_nodes(patient)) return;
    const std::vector<int> used = used_interfaces(patient);
    for (const detect::Route& route : patient.machine().routes) {
        const auto peer = parse_ip(route.destination);
        if (!peer || route.interface.empty() || route.interface == "lo") continue;
        std::vector<std::string> near;
        bool taken = false;
        for (const int position : used) {
            const Nic& nic = nic_at(patient, position);
            taken = taken || nic.name == route.interface;
            for (const std::string& text : nic.addresses)
                if (const auto own = parse_ip(text); own && same_subnet(*own, *peer))
                    near.push_back(nic.name);
        }
        if (taken || near.empty()) continue;
        verdict.slow(
            {.what = fmt::format("traffic to {} leaves by {}, NCCL announces {}", route.destination,
                                 route.interface, and_list(near)),
             .evidence = fmt::format("ip route get {}", route.destination),
             .effect = "connections may time out, or use the slower interface",
             .fix = fmt::format("ip route replace {} dev {}", route.destination, near.front()),
             .remark = "as root; better correct the route of the whole subnet",
             .where = route.interface});
    }
}

std::map<std::string, std::vector<const Nic*>> members_by_bond(const Machine& machine) {
    std::map<std::string, std::vector<const Nic*>> members;
    for (const Nic& bond : machine.nics) {
        if (bond.kind != NicKind::bond) continue;
        for (const Nic& nic : machine.nics)
            if (nic.master == bond.name) members[bond.name].push_back(&nic);
    }
    return members;
}

void bond_member_down(const Patient& patient, Verdict& verdict) {
    for (const auto& [bond, members] : members_by_bond(patient.machine()))
        for (const Nic* nic : members)
            if (nic->state == "down")
                verdict.slow({.what = fmt::format("{}, a member of {}, is down", nic->name, bond),
                              .evidence = fmt::format("/sys/class/net/{}/operstate", nic->name),
                              .effect = "the bond has less bandwidth, or no spare",
                              .fix = fmt::format("ip link set {} up", nic->name),
                              .remark = "check its cable and switch port",
                              .where = bond});
}

void bond_members_differ(const Patient& patient, Verdict& verdict) {
    for (const auto& [bond, members] : members_by_bond(patient.machine())) {
        std::vector<std::string> words;
        bool differ = false;
        for (const Nic* nic : members) {
            const Nic& first = *members.front();
            differ = differ || (nic->mtu && first.mtu && nic->mtu != first.mtu) ||
                     (nic->state == "up" && first.state == "up" && nic->speed_gbits &&
                      first.speed_gbits && nic->speed_gbits != first.speed_gbits);
            words.push_back(fmt::format(
                "{} {}{}", nic->name,
                nic->speed_gbits ? fmt::format("{:g} Gb/s", *nic->speed_gbits) : "speed unknown",
                nic->mtu ? fmt::format(" MTU {}", *nic->mtu) : ""));
        }
        if (!differ) continue;
        verdict.slow({.what = fmt::format("the members of {} differ", bond),
                      .evidence = join(words, ", "),
                      .effect = "flows hashed to the weaker member are slower, and large packets "
                                "may be dropped there",
                      .fix = "give all members the same MTU and speed",
                      .where = bond});
    }
}

/// 25 Gb/s in packets of 1500 bytes are 2 million packets a second: the first speed of Ethernet at
/// which that is felt, and the slowest that is sold for the network between nodes.
constexpr double kFastGbits = 25;
constexpr int kPlainMtu = 1500;

/// Data that goes by TCP over fast Ethernet with the default size of packets. Of bonds the speed is
/// often not told: they are made for more than one port gives.
void small_mtu(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!interfaces_known(machine)) return verdict.unknown(unknown_interfaces(patient.machine()));
    if (!maybe_several_nodes(patient) || !sockets_carry_data(patient)) return;
    if (machine.gpus_known && patient.inputs.visible.empty()) return;
    std::vector<std::string> small;
    bool fast = false;  // told, not guessed
    for (const int position : used_interfaces(patient)) {
        const Nic& nic = nic_at(patient, position);
        const bool bond = nic.kind == NicKind::bond;
        if (!bond && nic.kind != NicKind::ethernet) continue;
        if (!nic.mtu || *nic.mtu > kPlainMtu || !interface_flaw(patient.machine(), nic).empty())
            continue;
        if (nic.speed_gbits ? *nic.speed_gbits < kFastGbits : !bond) continue;
        fast = fast || nic.speed_gbits >= kFastGbits;
        small.push_back(
            fmt::format("{} has MTU {}{}", nic.name, *nic.mtu,
                        nic.speed_gbits ? fmt::format(" at {:g} Gb/s", *nic.speed_gbits) : ""));
    }
    if (small.empty()) return;
    verdict.note(
        {.what = fmt::format("{}: {}", fast ? "small packets on a fast network" : "small packets",
                             join(small, ", ")),
         .evidence = "MTU of the interface (ip link)",
         .effect = "six times the packets of MTU 9000 for the same data by TCP, which the "
                   "CPUs pay for",
         .fix = "ip link set DEVICE mtu 9000",
         .remark =
             "on all nodes, and on the members of a bond, if every switch on the way passes it"});
}

constexpr Check kChecks[] = {
    {{"iface-same-subnet", kFamily, Severity::slow,
      "two interfaces of this host in one IPv4 subnet, one of them used by NCCL: the kernel may "
      "send from the wrong port (NVIDIA/nccl issue 1581)"},
     same_subnet_ports},
    {{"iface-pick-unreachable", kFamily, Severity::slow,
      "what NCCL's own search gives in a job of several nodes: bridges, veth pairs, tunnels and "
      "link-local addresses are not reached from other hosts"},
     unreachable_pick},
    {{"iface-mixed-speeds", kFamily, Severity::slow,
      "the speeds of the interfaces that NET/Socket spreads data over: a slow management port "
      "sets the pace"},
     mixed_speeds},
    {{"iface-low-speed", kFamily, Severity::slow,
      "the negotiated speed of the interfaces in use: 100 Mb/s and less is a bad cable"},
     low_speed},
    {{"iface-route-differs", kFamily, Severity::slow,
      "the kernel's route to the other nodes against the interfaces that NCCL uses in their "
      "subnet"},
     route_differs},
    {{"iface-mtu-small", kFamily, Severity::note,
      "the MTU of bonds and of Ethernet of 25 Gb/s and more, where the data between nodes goes by "
      "TCP"},
     small_mtu},
    {{"bond-member-down", kFamily, Severity::slow, "the members of a bond: one is down"},
     bond_member_down},
    {{"bond-members-differ", kFamily, Severity::slow,
      "speed and MTU of the members of a bond: they should be alike"},
     bond_members_differ},
};

}  // namespace

std::span<const Check> interface_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
