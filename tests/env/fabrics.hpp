#pragma once

#include "machines.hpp"

/// RDMA ports put together by hand, for the tests of env.
namespace toporun::tests {

inline detect::Nic rdma_port(const std::string& device, NicKind kind, double gbits,
                             std::string_view pci = "") {
    detect::Nic made = nic(device, kind, {});
    made.rdma_device = device;
    made.port = 1;
    made.port_state = "active";
    made.speed_gbits = gbits;
    if (!pci.empty()) made.pci = detect::PciAddress::parse(pci);
    return made;
}

/// `count` GPUs behind as many switches, each with a 400 Gb/s port of its own (PIX, SYS to the
/// others), and the `others`, which are at SYS from every GPU. eth0 carries the default route.
inline Machine railed(int count, std::vector<detect::Nic> others,
                      NicKind kind = NicKind::infiniband) {
    Machine machine = host(2, 32);
    add_gpus(machine, count, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    machine.nvswitch = true;
    detect::Nic ethernet = nic("eth0", NicKind::ethernet, {"10.0.0.1/24"});
    ethernet.default_route = true;
    add_nics(machine, {ethernet});
    const std::size_t first = machine.nics.size();
    for (int i = 0; i < count; ++i)
        machine.nics.push_back(rdma_port("mlx5_" + std::to_string(i), kind, 400));
    for (detect::Nic& one : others) machine.nics.push_back(std::move(one));
    machine.gpu_nic_paths.assign(
        static_cast<std::size_t>(count),
        std::vector<std::optional<PathType>>(machine.nics.size(), PathType::SYS));
    for (std::size_t i = 0; i < static_cast<std::size_t>(count); ++i)
        machine.gpu_nic_paths[i][first + i] = PathType::PIX;
    return machine;
}

}  // namespace toporun::tests
