#include "env/interface_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <optional>

#include "base/text.hpp"
#include "detect/network/interface_names.hpp"
#include "env/carrier.hpp"
#include "env/interface.hpp"
#include "env/interface_model.hpp"

namespace toporun::env {
namespace {

using detect::Nic;

/// An interface this many times as fast is not given up for another's better route.
constexpr double kClearlyFaster = 2;

/// Names that NCCL's list can hold.
bool writable(const Nic& nic) {
    return !nic.name.empty() && nic.name.size() <= 15 &&
           nic.name.find_first_of(",:^= ") == std::string::npos && printable(nic.name) == nic.name;
}

bool contains(const std::vector<int>& list, int position) {
    return std::find(list.begin(), list.end(), position) != list.end();
}

std::vector<int> without_bad(const std::vector<int>& list, const std::vector<BadInterface>& bad) {
    std::vector<int> rest;
    for (const int position : list)
        if (std::none_of(bad.begin(), bad.end(),
                         [&](const BadInterface& one) { return one.position == position; }))
            rest.push_back(position);
    return rest;
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

/// The way to the rendezvous, and how it is known.
struct Way {
    std::optional<int> position;
    bool proven = false;  ///< it reaches the rendezvous for certain
    std::string reason;
};

bool has_address(const Nic& nic, const IpAddress& wanted) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const std::string& text) {
        const auto address = parse_ip(text);
        return address && address->v6 == wanted.v6 && address->bytes == wanted.bytes;
    });
}

bool in_subnet(const Nic& nic, const IpAddress& peer) {
    return std::any_of(nic.addresses.begin(), nic.addresses.end(), [&](const std::string& text) {
        const auto address = parse_ip(text);
        return address && same_subnet(*address, peer);
    });
}

/// The kernel's own answer, asked by detection.
const detect::Route* route_to(const Inputs& inputs, const IpAddress& peer) {
    for (const detect::Route& route : inputs.machine.routes) {
        const auto destination = parse_ip(route.destination);
        if (destination && destination->v6 == peer.v6 && destination->bytes == peer.bytes)
            return &route;
    }
    return nullptr;
}

template <class Predicate>
std::optional<int> first_of(const Inputs& inputs, const std::vector<int>& from, Predicate holds) {
    for (const int position : from)
        if (holds(nic_at(inputs, position))) return position;
    return std::nullopt;
}

/// By what the kernel or the addresses tell. Nothing is proven where the rendezvous is a name.
Way proven_way(const Inputs& inputs, const std::vector<int>& from) {
    const auto peer = parse_ip(host_of(rendezvous_of(inputs)));
    if (!peer) return {};
    if (const auto own =
            first_of(inputs, from, [&](const Nic& nic) { return has_address(nic, *peer); }))
        return {own, true, "the rendezvous address is its own"};
    if (const detect::Route* route = route_to(inputs, *peer))
        if (const auto by_route = first_of(
                inputs, from, [&](const Nic& nic) { return nic.name == route->interface; }))
            return {by_route, true, "the kernel's route to the rendezvous leaves by it"};
    if (const auto near =
            first_of(inputs, from, [&](const Nic& nic) { return in_subnet(nic, *peer); }))
        return {near, true, "it is in the subnet of the rendezvous address"};
    return {};
}

Way way_to_rendezvous(const Inputs& inputs, const std::vector<int>& usable) {
    if (Way way = proven_way(inputs, usable); way.proven) return way;
    if (const auto route =
            first_of(inputs, usable, [](const Nic& nic) { return nic.default_route; }))
        return {route, false, "it carries the default route"};
    if (usable.size() == 1) return {usable.front(), false, "it is the only interface left"};
    return {};
}

std::vector<int> usable_interfaces(const Inputs& inputs) {
    const std::string family = search_context(inputs).family;
    std::vector<int> usable;
    for (std::size_t i = 0; i < inputs.machine.nics.size(); ++i)
        if (const Nic& nic = inputs.machine.nics[i];
            flaw_for_job(inputs, nic, family).empty() && writable(nic))
            usable.push_back(static_cast<int>(i));
    return usable;
}

double speed_of(const Inputs& inputs, int position) {
    return nic_at(inputs, position).speed_gbits.value_or(0);
}

/// Those of at least half the highest known speed; empty when no speed is known.
std::vector<int> fast_class(const Inputs& inputs, const std::vector<int>& from) {
    double top = 0;
    for (const int position : from) top = std::max(top, speed_of(inputs, position));
    std::vector<int> fast;
    for (const int position : from)
        if (top > 0 && speed_of(inputs, position) * kClearlyFaster > top) fast.push_back(position);
    return fast;
}

/// "bond0" where the interface lies upon it.
std::string parent_name(const Nic& nic) {
    return nic.parent.empty() ? detect::vlan_parent(nic.name) : nic.parent;
}

/// The second interface of a container beside the one that is proven to reach the rendezvous, with
/// the default route: the bridge of its host, with the same addresses on every host
/// (docker_gwbridge of Swarm; NVIDIA/nccl issue 331).
bool is_way_out(const Inputs& inputs, const Way& way, int position) {
    const Nic& nic = nic_at(inputs, position);
    return way.proven && way.position != position && nic.default_route &&
           nic.kind == detect::NicKind::veth &&
           nic_at(inputs, *way.position).kind == detect::NicKind::veth;
}

/// Flaws, and two-host links (/31) beside an interface of a shared subnet: a routed rail reaches
/// its switch, not the other nodes by itself; as long as RDMA carries the data, or its speed is
/// unknown, the shared subnet is better.
std::vector<BadInterface> unreachable(const Inputs& inputs, const std::vector<int>& own,
                                      const std::vector<int>& usable) {
    const std::string family = search_context(inputs).family;
    const bool rdma = data_over_rdma(inputs);
    const bool shared = std::any_of(usable.begin(), usable.end(), [&](int position) {
        return !point_to_point(nic_at(inputs, position));
    });
    std::vector<BadInterface> bad;
    const Way way = proven_way(inputs, usable);
    for (const int position : own) {
        const Nic& nic = nic_at(inputs, position);
        if (is_way_out(inputs, way, position)) {
            bad.push_back({position, "the container's way out through its own host"});
            continue;
        }
        const std::string flaw = flaw_for_job(inputs, nic, family);
        if (!flaw.empty())
            bad.push_back({position, flaw});
        else if (shared && point_to_point(nic) && (rdma || !nic.speed_gbits))
            bad.push_back({position, "a link of two hosts"});
    }
    return bad;
}

/// VLANs beside the interface that they lie upon, where sockets carry the data: NET/Socket would
/// spread it over both, which are the same wires. The one that reaches the rendezvous stays, else
/// the parent, which NCCL's bootstrap takes anyway.
void add_vlans(const Inputs& inputs, const std::vector<int>& good, const Way& way,
               std::vector<BadInterface>& bad) {
    const auto proven = [&](int position) { return way.proven && way.position == position; };
    for (const int child : good) {
        const std::string parent = parent_name(nic_at(inputs, child));
        const auto below =
            first_of(inputs, good, [&](const Nic& nic) { return nic.name == parent; });
        if (parent.empty() || !below) continue;
        if (proven(child))
            bad.push_back({*below, fmt::format("the same wires as {}, which reaches the rendezvous",
                                               nic_at(inputs, child).name)});
        else
            bad.push_back({child, fmt::format("upon {}: the same wires", parent)});
    }
}

/// Slow ones beside one that reaches the rendezvous and is clearly faster.
void add_slow(const Inputs& inputs, const std::vector<int>& good, const Way& way,
              std::vector<BadInterface>& bad) {
    const std::vector<int> fast = fast_class(inputs, good);
    if (!way.proven || !contains(fast, *way.position)) return;
    for (const int position : good)
        if (const auto speed = nic_at(inputs, position).speed_gbits;
            speed && !contains(fast, position))
            bad.push_back({position, fmt::format("{:g} Gb/s beside {:g} Gb/s", *speed,
                                                 speed_of(inputs, *way.position))});
}

/// What stays of NCCL's own pick, `kept`, against the way to the rendezvous. Never gives up an
/// interface of `kept` that is clearly faster, and where sockets carry the data none without proof:
/// the default route tells the way to the internet.
void choose(const Inputs& inputs, const std::vector<int>& usable, const std::vector<int>& kept,
            const Way& way, InterfaceChoice& choice) {
    const std::vector<int> fast = fast_class(inputs, kept);
    const bool faster =
        way.position && nic_at(inputs, *way.position).speed_gbits && !fast.empty() &&
        !contains(fast, *way.position) &&
        speed_of(inputs, fast.front()) >= kClearlyFaster * speed_of(inputs, *way.position);
    if (faster && !data_over_rdma(inputs)) {
        choice.positions = fast;
        choice.reason =
            "it is at least twice as fast as the one with the route, and NCCL would have used it "
            "too";
    } else if (faster) {
        choice.positions = kept;
        choice.reason =
            "the rest of NCCL's own pick, which holds an interface that is at least twice as fast "
            "as the one with the route";
    } else if (way.position && (way.proven || kept.empty() || data_over_rdma(inputs) ||
                                kept == std::vector{*way.position})) {
        choice.positions = {*way.position};
        choice.reason = way.reason;
    } else if (kept.size() == 1) {
        choice.positions = kept;
        choice.reason = "nothing else of NCCL's own pick can reach the other nodes";
    } else {
        choice.positions = kept.empty() ? usable : kept;
        choice.reason =
            "nothing tells which of them reaches the other nodes: NCCL's own pick without the "
            "ones that cannot";
    }
}

/// NCCL's own pick without the superfluous: all that stays was in it, the bootstrap's too.
void keep_rest(const Way& way, const std::vector<int>& kept, InterfaceChoice& choice) {
    choice.positions = kept;
    choice.reason = way.proven ? way.reason : "NCCL's own pick without what adds nothing";
}

}  // namespace

std::string flaw_for_job(const Inputs& inputs, const Nic& nic, const std::string& family) {
    std::string flaw = interface_flaw(inputs.machine, nic, family);
    const bool doubted = flaw == "tunnel" || flaw == "virtual" || flaw == "link-local address";
    if (!doubted) return flaw;
    std::vector<int> all(inputs.machine.nics.size());
    std::iota(all.begin(), all.end(), 0);
    const Way way = proven_way(inputs, all);
    return way.proven && &nic_at(inputs, *way.position) == &nic ? "" : flaw;
}

InterfaceChoice choose_interfaces(const Inputs& inputs, const std::vector<int>& own) {
    InterfaceChoice choice;
    std::vector<int> usable = usable_interfaces(inputs);
    choice.bad = unreachable(inputs, own, usable);
    usable = without_bad(usable, choice.bad);
    const bool clean = choice.bad.empty();
    const Way way = way_to_rendezvous(inputs, usable);
    if (!data_over_rdma(inputs)) {
        add_vlans(inputs, without_bad(own, choice.bad), way, choice.bad);
        add_slow(inputs, without_bad(own, choice.bad), way, choice.bad);
    }
    std::vector<int> kept;
    for (const int position : without_bad(own, choice.bad))
        if (contains(usable, position)) kept.push_back(position);
    usable = without_bad(usable, choice.bad);
    if (choice.bad.empty() || usable.empty()) return choice;
    if (clean)
        keep_rest(way, kept, choice);
    else
        choose(inputs, usable, kept, way_to_rendezvous(inputs, usable), choice);
    return choice;
}

}  // namespace toporun::env
