#include "env/port_roles.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "env/gid.hpp"
#include "env/hca.hpp"

namespace toporun::env {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;
using detect::PathType;

const Nic& nic_of(const Machine& machine, int position) {
    return machine.nics[static_cast<std::size_t>(position)];
}

std::vector<int> without(const std::vector<int>& ports, const std::vector<LeftPort>& left) {
    std::vector<int> rest;
    for (const int port : ports)
        if (std::none_of(left.begin(), left.end(),
                         [&](const LeftPort& one) { return one.port == port; }))
            rest.push_back(port);
    return rest;
}

bool worse_for_a_gpu(const Machine& machine, const std::vector<int>& before,
                     const std::vector<int>& after) {
    for (int gpu = 0; gpu < static_cast<int>(machine.gpus.size()); ++gpu) {
        const auto best = nearest_path(machine, gpu, before);
        const auto rest = nearest_path(machine, gpu, after);
        if (best && (!rest || *rest > *best)) return true;
    }
    return false;
}

bool same_card(const Nic& a, const Nic& b) {
    return a.pci && b.pci && a.pci->domain == b.pci->domain && a.pci->bus == b.pci->bus;
}

bool is_bond_device(const Nic& nic) {
    return nic.rdma_device && nic.rdma_device->find("_bond_") != std::string::npos;
}

/// The device of a RoCE LAG stands for all its members.
std::vector<LeftPort> bond_members(const Machine& machine, const std::vector<int>& ports) {
    std::vector<LeftPort> left;
    for (const int port : ports) {
        const Nic& member = nic_of(machine, port);
        if (is_bond_device(member)) continue;
        for (const int other : ports) {
            const Nic& bond = nic_of(machine, other);
            const bool below = !member.master.empty() && member.master == bond.name;
            if (!is_bond_device(bond) || (!below && !same_card(bond, member))) continue;
            left.push_back(
                {port, fmt::format("a member of the bond that {} stands for", port_name(bond))});
            break;
        }
    }
    return left;
}

std::vector<LeftPort> virtual_functions(const Machine& machine, const std::vector<int>& ports) {
    std::vector<LeftPort> left;
    for (const int port : ports) {
        const Nic& virtual_port = nic_of(machine, port);
        if (!virtual_port.virtual_function) continue;
        for (const int other : ports) {
            const Nic& physical = nic_of(machine, other);
            if (physical.virtual_function || !same_card(physical, virtual_port)) continue;
            left.push_back(
                {port, fmt::format("a virtual function of the card of {}", port_name(physical))});
            break;
        }
    }
    return left;
}

double total_gbits(const Machine& machine, const std::vector<int>& ports) {
    double total = 0;
    for (const int port : ports) total += nic_of(machine, port).speed_gbits.value_or(0);
    return total;
}

/// Which of the two link layers the compute network is: by its places beside GPUs, else by twice
/// the bandwidth. A connection from one to the other is not possible.
std::vector<LeftPort> other_link_layer(const Machine& machine, const std::vector<int>& ports) {
    std::vector<int> roce, infiniband;
    for (const int port : ports) {
        const Nic& nic = nic_of(machine, port);
        if (is_roce(nic))
            roce.push_back(port);
        else if (nic.kind == NicKind::infiniband || nic.kind == NicKind::ipoib)
            infiniband.push_back(port);
        else
            return {};  // a bond or VF that does not tell
    }
    if (roce.empty() || infiniband.empty()) return {};
    const bool ib_far = !worse_for_a_gpu(machine, ports, roce);
    const bool roce_far = !worse_for_a_gpu(machine, ports, infiniband);
    const double ib = total_gbits(machine, infiniband), ethernet = total_gbits(machine, roce);
    const bool by_place = ib_far != roce_far;
    const std::string role =
        by_place ? "carries the GPUs' data" : "has twice its bandwidth or more";
    std::vector<LeftPort> left;
    if (roce_far && (!ib_far || ib >= 2 * ethernet)) {
        for (const int port : roce)
            left.push_back({port, fmt::format("RoCE beside InfiniBand, which {}", role)});
    } else if (ib_far && (!roce_far || ethernet >= 2 * ib)) {
        for (const int port : infiniband)
            left.push_back({port, fmt::format("InfiniBand beside RoCE, which {}", role)});
    }
    return left;
}

/// Only where every GPU has a port below a common PCIe switch: elsewhere distance tells no role.
std::vector<LeftPort> far_ports(const Machine& machine, const std::vector<int>& ports) {
    if (machine.gpus.empty()) return {};
    PathType usual = PathType::LOC;
    for (int gpu = 0; gpu < static_cast<int>(machine.gpus.size()); ++gpu) {
        const auto best = nearest_path(machine, gpu, ports);
        if (!best || *best > PathType::PXB) return {};
        usual = std::max(usual, *best);
    }
    std::vector<LeftPort> left;
    for (const int port : ports) {
        PathType nearest = PathType::DIS;
        for (int gpu = 0; gpu < static_cast<int>(machine.gpus.size()); ++gpu)
            nearest = std::min(nearest, nic_path(machine, gpu, port).value_or(PathType::DIS));
        if (nearest <= PathType::PXB || nearest == PathType::DIS) continue;
        left.push_back({port, fmt::format("farther from every GPU ({}) than the others ({})",
                                          path_name(nearest), path_name(usual))});
    }
    return left;
}

/// At most half the speed of the fastest, and fewer than those.
std::vector<LeftPort> slow_ports(const Machine& machine, const std::vector<int>& ports) {
    double top = 0;
    for (const int port : ports) top = std::max(top, nic_of(machine, port).speed_gbits.value_or(0));
    std::vector<LeftPort> slow;
    std::size_t fast = 0;
    for (const int port : ports) {
        const auto speed = nic_of(machine, port).speed_gbits;
        if (!speed) return {};
        if (*speed > top / 2)
            ++fast;
        else
            slow.push_back({port, fmt::format("{:g} Gb/s, the others {:g} Gb/s", *speed, top)});
    }
    return fast >= 2 && fast > slow.size() ? slow : std::vector<LeftPort>{};
}

std::vector<LeftPort> ports_without_address(const Machine& machine, const std::vector<int>& ports) {
    std::vector<LeftPort> left;
    for (const int port : ports) {
        const Nic& nic = nic_of(machine, port);
        if (!is_roce(nic)) continue;
        const bool told = !nic.gids.empty() &&
                          std::none_of(nic.gids.begin(), nic.gids.end(),
                                       [](const detect::Gid& gid) { return gid.type.empty(); });
        if (!told) return {};
        if (best_gid(nic) == nullptr)
            left.push_back({port, "RoCE without a routable address, which the others have"});
    }
    return left;
}

/// A port that is told to be up: by its own state, else by its interface's.
bool certainly_up(const Nic& nic) {
    return nic.port_state.empty() ? nic.state == "up" : nic.port_state == "active";
}

/// NCCL's verbs transport connects queue pairs itself, which iWARP does through its own connection
/// manager alone (NVIDIA/nccl issue 622).
void leave_iwarp_out(const Machine& machine, PortRoles& roles) {
    std::vector<LeftPort> left;
    for (const int port : roles.taken)
        if (nic_of(machine, port).iwarp)
            left.push_back({port, "iWARP, over which NCCL's RDMA transport does not work"});
    if (left.size() == roles.taken.size()) return;
    roles.kept = without(roles.kept, left);
    roles.left_out = std::move(left);
}

/// What the job's NCCL takes: the user's list, else toporun's.
std::vector<int> ports_of_job(const Inputs& inputs) {
    const PortRoles roles = port_roles(inputs.machine);
    const auto value = user_value(inputs, "NCCL_IB_HCA");
    if (!value || value->empty()) return roles.kept;
    const HcaList list = parse_hca_list(*value);
    std::vector<int> ports;
    for (const int port : roles.taken)
        if (list.takes(nic_of(inputs.machine, port))) ports.push_back(port);
    return ports.empty() ? roles.kept : ports;
}

std::vector<int> nearest_of(const Machine& machine, const std::vector<int>& ports, int gpu) {
    std::vector<int> nearest;
    const auto best = nearest_path(machine, gpu, ports);
    for (const int port : ports)
        if (best && nic_path(machine, gpu, port) == best) nearest.push_back(port);
    return nearest;
}

}  // namespace

PortRoles port_roles(const Machine& machine) {
    PortRoles roles;
    for (const int port : verbs_ports(machine))
        if (rdma_usable(nic_of(machine, port))) roles.taken.push_back(port);
    roles.kept = roles.taken;
    leave_iwarp_out(machine, roles);
    for (const auto rule : {bond_members, virtual_functions, other_link_layer, far_ports,
                            slow_ports, ports_without_address}) {
        std::vector<LeftPort> left = rule(machine, roles.kept);
        const std::vector<int> rest = without(roles.kept, left);
        if (left.empty() || rest.empty() || worse_for_a_gpu(machine, roles.kept, rest)) continue;
        // What stays may be without a cable: then the list would shut out the port that works.
        if (!std::all_of(rest.begin(), rest.end(),
                         [&](int port) { return certainly_up(nic_of(machine, port)); }))
            continue;
        roles.kept = rest;
        for (LeftPort& one : left) roles.left_out.push_back(std::move(one));
    }
    return roles;
}

std::vector<std::vector<std::string>> nearest_devices(const Inputs& inputs) {
    const Machine& machine = inputs.machine;
    std::vector<int> ports = ports_of_job(inputs);
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        if (machine.nics[i].kind == NicKind::efa && rdma_usable(machine.nics[i]))
            ports.push_back(static_cast<int>(i));
    std::map<std::vector<int>, std::size_t> sharing;
    std::vector<std::vector<int>> nearest;
    for (int gpu = 0; gpu < static_cast<int>(machine.gpus.size()); ++gpu) {
        nearest.push_back(nearest_of(machine, ports, gpu));
        ++sharing[nearest.back()];
    }
    std::map<std::vector<int>, std::size_t> before;
    std::vector<std::vector<std::string>> devices;
    for (const std::vector<int>& own : nearest) {
        const std::size_t rail =
            own.empty() ? 0 : before[own]++ * own.size() / sharing[own] % own.size();
        std::vector<std::string> names;
        for (std::size_t i = 0; i < own.size(); ++i) {
            const Nic& nic = nic_of(machine, own[(rail + i) % own.size()]);
            if (std::find(names.begin(), names.end(), *nic.rdma_device) == names.end())
                names.push_back(*nic.rdma_device);
        }
        devices.push_back(std::move(names));
    }
    return devices;
}

}  // namespace toporun::env
