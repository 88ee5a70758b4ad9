#include "env/interface.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "detect/network/interface_names.hpp"
#include "env/carrier.hpp"
#include "env/interface_choice.hpp"
#include "env/interface_user.hpp"
#include "env/profile_word.hpp"

namespace toporun::env {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;

/// USB and internal Ethernet to a server's management controller or to a BlueField's own processor:
/// the drivers of USB gadgets, and the names that such devices get.
bool management_link(const Nic& nic) {
    for (const char* driver : {"cdc_ether", "cdc_eem", "cdc_subset", "rndis_host"})
        if (nic.driver == driver) return true;
    return nic.name.starts_with("usb") || nic.name.starts_with("idrac") ||
           nic.name.starts_with("tmfifo_net");
}

/// Names that people and hypervisors give to a bridge over the host's own port ("br0", "vmbr0",
/// "br-ex"), unlike those of container software's inner bridges.
bool may_be_uplink_bridge(std::string_view name) {
    if (name.starts_with("br-"))  // Docker's have an identifier behind it: "br-1f2e3d4c5b6a"
        return name.find_first_not_of("0123456789abcdef", 3) != std::string_view::npos ||
               name.find_first_of("0123456789") == std::string_view::npos;
    for (const std::string_view stem : {"br", "bridge", "vmbr", "xenbr", "ovsbr"}) {
        if (!name.starts_with(stem) || name.size() == stem.size()) continue;
        const char next = name[stem.size()];
        if (next >= '0' && next <= '9') return true;
    }
    return false;
}

/// A name that container and VPN software gives its interfaces, whatever kind the kernel reports.
bool virtual_name(std::string_view name) {
    const auto kind = detect::kind_of_name(name);
    return (kind == NicKind::bridge && !may_be_uplink_bridge(name)) || kind == NicKind::veth ||
           kind == NicKind::tunnel;
}

/// The interface that carries the default route, nullptr where none is told to.
const Nic* routed_interface(const Machine& machine) {
    const auto found = std::find_if(machine.nics.begin(), machine.nics.end(),
                                    [](const Nic& nic) { return nic.default_route; });
    return found == machine.nics.end() ? nullptr : &*found;
}

bool is_wire(const Nic& nic) {
    switch (nic.kind) {
        case NicKind::ethernet:
        case NicKind::roce:
        case NicKind::efa:
        case NicKind::bond:
        case NicKind::vlan:
        case NicKind::vf:
            return !virtual_name(nic.name);
        default:
            return false;
    }
}

/// "bridge" where the bridge joins nothing but guests, "" where it may lead out.
std::string bridge_flaw(const Machine& machine, const Nic& bridge) {
    bool members = false;
    for (const Nic& nic : machine.nics) {
        if (nic.master != bridge.name) continue;
        members = true;
        if (is_wire(nic)) return "";
    }
    const bool inner = virtual_name(bridge.name);
    return inner || members || routed_interface(machine) != nullptr ? "bridge" : "";
}

/// "veth" for the host's end of a pair. A pod sees its own interfaces as far ends, macvlan ones
/// too: they are meant to reach others.
std::string veth_flaw(const Machine& machine, const Nic& nic) {
    if (virtual_name(nic.name) || !nic.master.empty()) return "veth";
    const Nic* routed = routed_interface(machine);
    return routed != nullptr && routed->kind != NicKind::veth ? "veth" : "";
}

std::string nic_list(const Inputs& inputs, const std::vector<int>& positions) {
    std::vector<std::string> parts;
    for (const int position : positions) {
        const Nic& nic = nic_at(inputs, position);
        const std::string flaw = flaw_for_job(inputs, nic);
        parts.push_back(flaw.empty() ? nic.name : fmt::format("{} ({})", nic.name, flaw));
    }
    return parts.empty() ? "none" : join(parts, ", ");
}

std::string value_of(const Inputs& inputs, const std::vector<int>& positions) {
    if (positions.size() == 1)
        return ifname_value(inputs.machine, nic_at(inputs, positions[0]).name);
    std::vector<std::string> names;
    for (const int position : positions) names.push_back(nic_at(inputs, position).name);
    return "=" + join(names, ",");
}

Finding no_interface(const Inputs& inputs) {
    const auto& nics = inputs.machine.nics;
    const auto lo = std::find_if(nics.begin(), nics.end(), [](const Nic& nic) {
        return nic.kind == NicKind::loopback || nic.name == "lo";
    });
    Finding finding;
    finding.id = "iface-none";
    finding.severity = Severity::broken;
    finding.what = "no network interface that NCCL could use";
    finding.evidence = lo == nics.end() ? "there is no lo"
                       : lo->state == "down" || lo->addresses.empty()
                           ? "lo is down or has no address"
                           : "no interface has an address of the family asked for";
    finding.effect = "NCCL's bootstrap stops with 'no socket interface found', on one node too";
    finding.fix = "ip link set lo up";
    finding.remark = "or start the container with a network";
    return finding;
}

/// On one node any interface does, NCCL's search falls to lo by itself; only a name that is not
/// `lo` itself or an old version's view of a down interface can still go wrong.
Setting for_one_node(const Inputs& inputs, const Span& span, const std::vector<int>& own,
                     const std::string& nccl_default) {
    const auto& nics = inputs.machine.nics;
    const bool only_lo = std::none_of(nics.begin(), nics.end(), [](const Nic& nic) {
        return nic.kind != NicKind::loopback && nic.name != "lo" && nic.state != "down" &&
               !nic.addresses.empty();
    });
    const auto lo = std::find_if(nics.begin(), nics.end(), [](const Nic& nic) {
        return nic.name == "lo" && nic.state != "down" && !nic.addresses.empty();
    });
    const std::string evidence =
        fmt::format("{}; NCCL's own pick: {}", span.evidence, nic_list(inputs, own));
    if (only_lo && lo != nics.end())
        return detected(kSocketIfname, ifname_value(inputs.machine, "lo"),
                        "nothing but the loopback interface is up, and on one node it is enough",
                        evidence, nccl_default);
    return left_alone(kSocketIfname,
                      inputs.job.nodes ? "one node: any interface serves"
                                       : "nothing says that there are other nodes to reach",
                      evidence, nccl_default);
}

std::string bad_list(const Inputs& inputs, const std::vector<BadInterface>& bad) {
    std::vector<std::string> parts;
    for (const BadInterface& one : bad)
        parts.push_back(
            fmt::format("{} ({})", printable(nic_at(inputs, one.position).name), one.why));
    return join(parts, ", ");
}

/// Where sockets carry the data: interfaces of which one is clearly slower, "" when there is none.
std::string speeds_text(const Inputs& inputs, const std::vector<int>& own) {
    std::optional<int> slowest, fastest;
    for (const int position : own) {
        const auto speed = nic_at(inputs, position).speed_gbits;
        if (!speed) continue;
        if (!slowest || *speed < *nic_at(inputs, *slowest).speed_gbits) slowest = position;
        if (!fastest || *speed > *nic_at(inputs, *fastest).speed_gbits) fastest = position;
    }
    if (!slowest || data_over_rdma(inputs)) return "";
    const Nic &slow = nic_at(inputs, *slowest), &fast = nic_at(inputs, *fastest);
    if (*fast.speed_gbits < 2 * *slow.speed_gbits) return "";
    return fmt::format(
        "; {} has {:g} Gb/s beside {} with {:g} Gb/s, but nothing proves that the "
        "faster one reaches the other nodes",
        printable(slow.name), *slow.speed_gbits, printable(fast.name), *fast.speed_gbits);
}

Setting for_several_nodes(const Inputs& inputs, const Span& span, const std::vector<int>& own,
                          const std::string& nccl_default) {
    const std::string evidence = fmt::format("{}; {}; NCCL's own pick: {}", span.evidence,
                                             data_carrier(inputs).evidence, nic_list(inputs, own));
    const InterfaceChoice choice = choose_interfaces(inputs, own);
    if (own.empty())
        return left_alone(kSocketIfname, "there is no interface to choose", evidence, nccl_default);
    if (choice.bad.empty())
        return left_alone(kSocketIfname,
                          "NCCL's own pick holds nothing that is known not to reach other nodes" +
                              speeds_text(inputs, own),
                          evidence, nccl_default);
    if (choice.positions.empty())
        return left_alone(kSocketIfname, "no interface is certain to reach the other nodes",
                          evidence, nccl_default);
    return detected(
        kSocketIfname, value_of(inputs, choice.positions),
        fmt::format("NCCL's own pick contains {}; {} instead: {}", bad_list(inputs, choice.bad),
                    nic_list(inputs, choice.positions), choice.reason),
        evidence, nccl_default);
}

std::string ifname_default_text(const Inputs& inputs, const std::vector<int>& own) {
    return fmt::format("{}: the bootstrap takes {}, NET/Socket {}{}", library_text(inputs),
                       own.empty() ? "nothing" : nic_at(inputs, own.front()).name,
                       own.size() > 1 ? "all of " + nic_list(inputs, own) : "the same",
                       inputs.nccl ? "" : " (by the rules of 2.28.3 and later)");
}

}  // namespace

std::string interface_flaw(const Machine& machine, const Nic& nic, const std::string& family) {
    if (nic.state == "down") return "down";
    if (nic.kind == NicKind::loopback || nic.name == "lo") return "loopback";
    if (!nic.default_route) {
        std::string flaw;
        if (nic.kind == NicKind::bridge) flaw = bridge_flaw(machine, nic);
        if (nic.kind == NicKind::veth) flaw = veth_flaw(machine, nic);
        if (!flaw.empty()) return flaw;
    }
    if (nic.kind == NicKind::tunnel) return "tunnel";
    if (!nic.default_route && nic.kind != NicKind::bridge && virtual_name(nic.name))
        return "virtual";
    if (management_link(nic)) return "link to the management controller";
    const auto address = announced_address(nic, family);
    if (!address) return "no address";
    if (loopback(*address)) return "loopback address";
    return link_local(*address) ? "link-local address" : "";
}

std::string ifname_value(const detect::Machine& machine, const std::string& name) {
    const bool prefix = std::any_of(machine.nics.begin(), machine.nics.end(), [&](const Nic& nic) {
        return nic.name != name && nic.name.starts_with(name);
    });
    return prefix || name.size() < 2 ? "=" + name : name;
}

std::string rendezvous_of(const Inputs& inputs) {
    if (!inputs.job.rendezvous.empty()) return inputs.job.rendezvous;
    return inputs.user.variable("MASTER_ADDR").value_or("");
}

SearchContext search_context(const Inputs& inputs) {
    return {inputs.nccl, user_value(inputs, "NCCL_SOCKET_FAMILY").value_or(""),
            user_value(inputs, "NCCL_COMM_ID").value_or("")};
}

Span job_span(const Inputs& inputs) {
    const Job& job = inputs.job;
    if (job.nodes)
        return {*job.nodes > 1, *job.nodes > 1 ? fmt::format("{} nodes", *job.nodes) : "one node"};
    const std::string host = host_of(rendezvous_of(inputs));
    if (host.empty()) return {false, "the number of nodes is not known: treated as one node"};
    const auto address = parse_ip(host);
    const auto& machine = inputs.machine;
    const std::string own = machine.hostname.substr(0, machine.hostname.find('.'));
    bool local = host == "localhost" || (address && loopback(*address)) || host == "0.0.0.0" ||
                 host == "::" || (!own.empty() && host.substr(0, host.find('.')) == own);
    for (const Nic& nic : machine.nics)
        for (const std::string& text : nic.addresses)
            if (const auto mine = parse_ip(text);
                address && mine && mine->v6 == address->v6 && mine->bytes == address->bytes)
                local = true;
    if (local)
        return {false, fmt::format("the number of nodes is not known and the rendezvous {} is this "
                                   "host: treated as one node",
                                   host)};
    return {true, fmt::format("the rendezvous {} is another host: several nodes", host)};
}

InterfaceDecision decide_interface(const Inputs& inputs) {
    InterfaceDecision decision;
    const Span span = job_span(inputs);
    const SearchContext context = search_context(inputs);
    if (!interfaces_known(inputs.machine)) {
        decision.setting =
            settle(inputs, left_alone(kSocketIfname, "the network interfaces are not known",
                                      span.evidence, "NCCL searches by itself"));
        return decision;
    }
    const std::vector<int> own = automatic_search(inputs.machine, context);
    for (const int position : own) decision.interfaces.push_back(nic_at(inputs, position).name);
    const std::string nccl_default = ifname_default_text(inputs, own);
    Setting wanted = span.several ? for_several_nodes(inputs, span, own, nccl_default)
                                  : for_one_node(inputs, span, own, nccl_default);
    if (own.empty() && !user_has(inputs, kSocketIfname))
        decision.findings.push_back(no_interface(inputs));
    if (span.several)
        wanted = with_profile(
            inputs, std::move(wanted), decision.findings,
            [&](const std::string& value) -> std::string {
                const IfnameList list = parse_ifname(value);
                return list.ignored || listed_search(inputs.machine, context, list).empty()
                           ? "it selects no interface of this host"
                           : "";
            });
    for (Finding& finding : interface_user_findings(inputs, span, context, wanted))
        decision.findings.push_back(std::move(finding));
    decision.setting = settle(inputs, std::move(wanted));
    return decision;
}

std::vector<int> socket_interfaces(const Inputs& inputs) {
    const SearchContext context = search_context(inputs);
    if (const auto value = decide_interface(inputs).setting.value)
        if (const IfnameList list = parse_ifname(*value); !list.ignored)
            return listed_search(inputs.machine, context, list);
    return automatic_search(inputs.machine, context);
}

}  // namespace toporun::env
