#include "env/interface.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"
#include "detect/network/interface_names.hpp"
#include "env/interface_model.hpp"
#include "env/interface_user.hpp"

namespace toporun::env {
namespace {

using detect::Nic;
using detect::NicKind;

/// A name that container and VPN software gives its interfaces, whatever kind the kernel reports.
bool virtual_name(std::string_view name) {
    const auto kind = detect::kind_of_name(name);
    return kind == NicKind::bridge || kind == NicKind::veth || kind == NicKind::tunnel;
}

std::string nic_list(const Inputs& inputs, const std::vector<int>& positions) {
    std::vector<std::string> parts;
    for (const int position : positions) {
        const Nic& nic = nic_at(inputs, position);
        const std::string flaw = interface_flaw(nic);
        parts.push_back(flaw.empty() ? nic.name : fmt::format("{} ({})", nic.name, flaw));
    }
    return parts.empty() ? "none" : join(parts, ", ");
}

bool point_to_point(const Nic& nic) {
    bool any = false;
    for (const std::string& text : nic.addresses) {
        const auto address = parse_ip(text);
        if (!address || link_local(*address)) continue;
        if (address->prefix != (address->v6 ? 127 : 31)) return false;
        any = true;
    }
    return any;
}

/// RDMA or a vendor's plugin carries the data, sockets only the rendezvous.
bool data_over_rdma(const Inputs& inputs) {
    if (nccl_integer(user_value(inputs, "NCCL_IB_DISABLE").value_or("0")) != 0) return false;
    const auto& machine = inputs.machine;
    return std::any_of(machine.software.nccl_plugins.begin(), machine.software.nccl_plugins.end(),
                       [](const std::string& name) {
                           return name.find("nccl-net") != std::string::npos;
                       }) ||
           std::any_of(machine.nics.begin(), machine.nics.end(), detect::rdma_usable);
}

std::optional<int> in_subnet_of_rendezvous(const Inputs& inputs, const std::vector<int>& from) {
    const auto peer = parse_ip(host_of(inputs.job.rendezvous));
    if (!peer) return std::nullopt;
    for (const int position : from)
        for (const std::string& text : nic_at(inputs, position).addresses)
            if (const auto address = parse_ip(text); address && same_subnet(*address, *peer))
                return position;
    return std::nullopt;
}

std::optional<int> with_default_route(const Inputs& inputs, const std::vector<int>& from) {
    for (const int position : from)
        if (nic_at(inputs, position).default_route) return position;
    return std::nullopt;
}

/// The fastest of `from` with a known speed; the first on a tie.
std::optional<int> fastest(const Inputs& inputs, const std::vector<int>& from) {
    std::optional<int> best;
    for (const int position : from) {
        const auto speed = nic_at(inputs, position).speed_gbits;
        if (speed && (!best || *speed > *nic_at(inputs, *best).speed_gbits)) best = position;
    }
    return best;
}

struct Pick {
    std::vector<int> positions;
    std::string reason;
};

/// The interface that reaches the other nodes. One that NCCL would have used and that is at least
/// twice as fast is not given up for it while sockets carry the data.
Pick pick_reachable(const Inputs& inputs, const std::vector<int>& usable,
                    const std::vector<int>& kept_of_nccls) {
    Pick pick;
    std::optional<int> route = in_subnet_of_rendezvous(inputs, usable);
    pick.reason = "it is in the subnet of the rendezvous address";
    if (!route) {
        route = with_default_route(inputs, usable);
        pick.reason = "it carries the default route";
    }
    if (!route && usable.size() == 1) {
        route = usable.front();
        pick.reason = "it is the only interface left";
    }
    const std::optional<int> fast = fastest(inputs, kept_of_nccls);
    if (route && fast && *fast != *route && !data_over_rdma(inputs)) {
        const auto route_speed = nic_at(inputs, *route).speed_gbits;
        if (route_speed && *nic_at(inputs, *fast).speed_gbits >= 2 * *route_speed) {
            pick.positions = {*fast};
            pick.reason =
                "it is at least twice as fast as the one with the route, and NCCL would "
                "have used it too";
            return pick;
        }
    }
    if (route) {
        pick.positions = {*route};
        return pick;
    }
    pick.positions = kept_of_nccls.empty() ? usable : kept_of_nccls;
    pick.reason =
        "nothing tells which of them reaches the other nodes: NCCL's own pick without the "
        "ones that cannot";
    return pick;
}

std::string value_of(const Inputs& inputs, const std::vector<int>& positions) {
    if (positions.size() == 1)
        return ifname_value(inputs.machine, nic_at(inputs, positions[0]).name);
    std::vector<std::string> names;
    for (const int position : positions) names.push_back(nic_at(inputs, position).name);
    return "=" + join(names, ",");
}

/// Names that NCCL's list cannot hold.
bool writable(const Nic& nic) {
    return !nic.name.empty() && nic.name.size() <= 15 &&
           nic.name.find_first_of(",:^= ") == std::string::npos && printable(nic.name) == nic.name;
}

std::vector<int> usable_interfaces(const Inputs& inputs) {
    std::vector<int> usable;
    for (std::size_t i = 0; i < inputs.machine.nics.size(); ++i)
        if (interface_flaw(inputs.machine.nics[i]).empty() && writable(inputs.machine.nics[i]))
            usable.push_back(static_cast<int>(i));
    return usable;
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
    finding.fix = "ip link set lo up, or start the container with a network";
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
    return left_alone(kSocketIfname, "one node: any interface serves", evidence, nccl_default);
}

struct Judged {
    std::vector<int> good;
    std::vector<int> bad;
};

Judged judge(const Inputs& inputs, const std::vector<int>& own, const std::vector<int>& usable) {
    Judged judged;
    const bool shared = std::any_of(usable.begin(), usable.end(), [&](int position) {
        return !point_to_point(nic_at(inputs, position));
    });
    for (const int position : own) {
        const Nic& nic = nic_at(inputs, position);
        // A routed two-host link (/31) reaches its switch, not the other nodes by itself; as long
        // as RDMA carries the data, or its speed is unknown, an interface of a shared subnet is
        // better.
        const bool rail =
            shared && point_to_point(nic) && (data_over_rdma(inputs) || !nic.speed_gbits);
        (interface_flaw(nic).empty() && !rail ? judged.good : judged.bad).push_back(position);
    }
    return judged;
}

Setting for_several_nodes(const Inputs& inputs, const Span& span, const std::vector<int>& own,
                          const std::string& nccl_default) {
    const std::string evidence =
        fmt::format("{}; NCCL's own pick: {}", span.evidence, nic_list(inputs, own));
    std::vector<int> usable = usable_interfaces(inputs);
    const Judged judged = judge(inputs, own, usable);
    if (judged.bad.empty())
        return left_alone(kSocketIfname,
                          "NCCL's own pick holds nothing that cannot reach other nodes", evidence,
                          nccl_default);
    std::erase_if(usable, [&](int position) {
        return std::find(judged.bad.begin(), judged.bad.end(), position) != judged.bad.end();
    });
    if (usable.empty())
        return left_alone(kSocketIfname, "no interface is certain to reach the other nodes",
                          evidence, nccl_default);
    std::vector<int> kept;
    for (const int position : judged.good)
        if (std::find(usable.begin(), usable.end(), position) != usable.end())
            kept.push_back(position);
    const Pick pick = pick_reachable(inputs, usable, kept);
    return detected(
        kSocketIfname, value_of(inputs, pick.positions),
        fmt::format("NCCL's own pick contains {}; {} instead: {}", nic_list(inputs, judged.bad),
                    nic_list(inputs, pick.positions), pick.reason),
        evidence, nccl_default);
}

std::string default_text(const Inputs& inputs, const std::vector<int>& own) {
    return fmt::format("{}: the bootstrap takes {}, NET/Socket {}{}", library_text(inputs),
                       own.empty() ? "nothing" : nic_at(inputs, own.front()).name,
                       own.size() > 1 ? "all of " + nic_list(inputs, own) : "the same",
                       inputs.nccl ? "" : " (by the rules of 2.28.3 and later)");
}

}  // namespace

std::string interface_flaw(const Nic& nic) {
    if (nic.state == "down") return "down";
    if (nic.kind == NicKind::loopback || nic.name == "lo") return "loopback";
    if (nic.kind == NicKind::bridge) return "bridge";
    if (nic.kind == NicKind::veth) return "veth";
    if (nic.kind == NicKind::tunnel) return "tunnel";
    if (virtual_name(nic.name)) return "virtual";
    bool any = false, routable = false;
    for (const std::string& text : nic.addresses) {
        const auto address = parse_ip(text);
        if (!address) continue;
        any = true;
        routable = routable || (!link_local(*address) && !loopback(*address));
    }
    if (!any) return "no address";
    return routable ? "" : "link-local address only";
}

std::string ifname_value(const detect::Machine& machine, const std::string& name) {
    const bool prefix = std::any_of(machine.nics.begin(), machine.nics.end(), [&](const Nic& nic) {
        return nic.name != name && nic.name.starts_with(name);
    });
    return prefix || name.size() < 2 ? "=" + name : name;
}

Span job_span(const Inputs& inputs) {
    const Job& job = inputs.job;
    if (job.nodes)
        return {*job.nodes > 1, *job.nodes > 1 ? fmt::format("{} nodes", *job.nodes) : "one node"};
    const std::string host = host_of(job.rendezvous);
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
    const SearchContext context{inputs.nccl, user_value(inputs, "NCCL_SOCKET_FAMILY").value_or(""),
                                user_value(inputs, "NCCL_COMM_ID").value_or("")};
    if (!interfaces_known(inputs.machine)) {
        decision.setting =
            settle(inputs, left_alone(kSocketIfname, "the network interfaces are not known",
                                      span.evidence, "NCCL searches by itself"));
        return decision;
    }
    const std::vector<int> own = automatic_search(inputs.machine, context);
    for (const int position : own) decision.interfaces.push_back(nic_at(inputs, position).name);
    const std::string nccl_default = default_text(inputs, own);
    Setting wanted = span.several ? for_several_nodes(inputs, span, own, nccl_default)
                                  : for_one_node(inputs, span, own, nccl_default);
    if (own.empty() && !user_has(inputs, kSocketIfname))
        decision.findings.push_back(no_interface(inputs));
    if (const profiles::Value* profile = profile_value(inputs, kSocketIfname);
        profile != nullptr && span.several && !wanted.value) {
        wanted.value = profile->value;
        wanted.origin = profile->value ? Origin::profile : Origin::left_to_nccl;
        wanted.profile = inputs.profile->name;
        wanted.reason = profile->reason;
    }
    for (Finding& finding : interface_user_findings(inputs, span, context, wanted))
        decision.findings.push_back(std::move(finding));
    decision.setting = settle(inputs, std::move(wanted));
    return decision;
}

}  // namespace toporun::env
