#pragma once

#include "support.hpp"

/// The machines of publicly reported problems, as far as the reports tell them.
namespace toporun::tests {

using Ids = std::vector<std::string>;

inline Machine bare(int packages = 2) {
    Machine machine = host(packages, 16);
    know_limits(machine);
    return machine;
}

inline Machine with_interfaces(std::vector<detect::Nic> nics) {
    Machine machine = bare();
    add_nics(machine, std::move(nics));
    return machine;
}

inline Machine with_gpus(int count, const std::string& name, PathType path, int links = 0) {
    Machine machine = bare();
    add_gpus(machine, count, name, path, links);
    machine.peer_access.clear();
    return machine;
}

inline Machine without_loopback() {
    Machine machine = bare();
    machine.nics.push_back(nic("lo", NicKind::loopback, {}, "down"));
    return machine;
}

/// c012, c018: a new card with an old library; a card whose driver still advertises P2P.
inline Machine rtx_5090() {
    Machine machine = with_gpus(2, "NVIDIA GeForce RTX 5090", PathType::PHB);
    machine.software.nccl_version = "2.25.1";
    add_nics(machine, {nic("eno1", NicKind::ethernet, {"10.201.24.89/24"}),
                       nic("CloudflareWARP", NicKind::tunnel, {"172.16.0.2/32"})});
    return machine;
}

inline Machine rtx_4090() {
    Machine machine = with_gpus(4, "NVIDIA GeForce RTX 4090", PathType::SYS);
    machine.cpu.vendor = "AuthenticAMD";
    machine.cpu.packages = 1;
    machine.software.driver = "525.85.12";
    machine.software.nccl_version = "2.17.1";
    machine.software.iommu_translating = false;
    set_acs_redirect(machine, AcsRedirect::off);
    return machine;
}

/// c016: pairs below a switch hang, VT-d is on.
inline Machine hanging_pairs() {
    Machine machine = with_gpus(4, "NVIDIA A10", PathType::SYS);
    connect(machine, 0, 1, PathType::PXB);
    connect(machine, 2, 3, PathType::PIX);
    machine.software.nccl_version = "2.10.3";
    machine.software.iommu_translating = true;
    return machine;
}

inline Machine bridged_pairs(const std::string& name, const std::string& nccl) {
    Machine machine = with_gpus(8, name, PathType::SYS);
    for (int gpu = 0; gpu < 8; gpu += 2) connect(machine, gpu, gpu + 1, PathType::NVL, 4);
    machine.software.nccl_version = nccl;
    return machine;
}

inline Machine epyc_a40() {
    Machine machine = bridged_pairs("NVIDIA A40", "2.8.3");
    machine.cpu.vendor = "AuthenticAMD";
    machine.cpu.model = "AMD EPYC 7302 16-Core Processor";
    return machine;
}

inline Machine with_links(int count, const std::string& name, int links, const Ids& down,
                          std::size_t of_gpu) {
    Machine machine = with_gpus(count, name, PathType::NVL, 2);
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        for (int i = 0; i < links; ++i) {
            detect::GpuLink link;
            link.link = i;
            link.active = of_gpu != gpu ||
                          std::find(down.begin(), down.end(), std::to_string(i)) == down.end();
            machine.gpus[gpu].links.push_back(link);
        }
    return machine;
}

inline Machine all_links_down(const std::string& name) {
    Machine machine = with_gpus(2, name, PathType::SYS);
    for (detect::Gpu& gpu : machine.gpus)
        for (int i = 0; i < 18; ++i) {
            detect::GpuLink link;
            link.link = i;
            link.active = false;
            gpu.links.push_back(link);
        }
    return machine;
}

inline Machine stale_fabric() {
    Machine machine = healthy_node();
    for (detect::Gpu& gpu : machine.gpus) gpu.fabric_status = "insufficient resources";
    return machine;
}

inline Machine far_adapter() {
    Machine machine = with_gpus(1, "NVIDIA A100 80GB PCIe", PathType::LOC);
    machine.nics.push_back(rdma_port(0, NicKind::infiniband, 200));
    machine.gpu_nic_paths = {{PathType::SYS}};
    return machine;
}

inline Machine unregistered_peermem() {
    Machine machine = far_adapter();
    machine.gpu_nic_paths = {{PathType::PIX}};
    machine.software.kernel = "6.8.0-45-generic";
    machine.software.driver_open = false;
    machine.software.modules = std::vector<std::string>{"nvidia_peermem"};
    machine.software.peer_memory_clients = std::vector<std::string>{};
    return machine;
}

inline Machine roce_with_four_gids() {
    Machine machine;
    machine.gpus_known = false;
    machine.nics.push_back(rdma_port(0, NicKind::roce, 100));
    machine.nics[0].mtu = 4096;
    machine.nics[0].gids = {gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v1"),
                            gid(1, "fe80::1", "RoCE v2"),
                            gid(2, "0000:0000:0000:0000:0000:ffff:c000:020a", "RoCE v1"),
                            gid(3, "::ffff:192.0.2.10", "RoCE v2")};
    return machine;
}

inline Machine small_shm(int count, const std::string& name, PathType path, int links) {
    Machine machine = with_gpus(count, name, path, links);
    machine.limits.shm_bytes = machine.limits.shm_free_bytes = 64 << 20;
    machine.software.nccl_version.reset();
    return machine;
}

inline Machine one_core() {
    Machine machine = with_gpus(8, "NVIDIA A100 80GB PCIe", PathType::PIX);
    machine.cpu.allowed = CpuSet({0, 32});
    return machine;
}

inline Machine p4d_container() {
    Machine machine = with_gpus(8, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
    machine.container = true;
    machine.vendor = "Amazon EC2";
    machine.product = "p4d.24xlarge";
    add_nics(machine, {nic("docker0", NicKind::bridge, {"172.17.0.1/16"}),
                       nic("eth0", NicKind::ethernet, {"172.31.16.64/20"})});
    return machine;
}

inline Machine half_p5() {
    Machine machine = with_gpus(4, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    machine.product = "p5.48xlarge";
    machine.software.nccl_plugins = {"libnccl-net.so"};
    return machine;
}

inline Machine flat_guest() {
    Machine machine = with_gpus(4, "", PathType::PHB);
    machine.nics = {rdma_port(0, NicKind::infiniband, 400), rdma_port(1, NicKind::infiniband, 400)};
    machine.gpu_nic_paths.assign(4, {PathType::PHB, PathType::PHB});
    return machine;
}

inline Machine rack_container(int channels) {
    Machine machine = with_gpus(4, "NVIDIA GB200", PathType::NVL, 18);
    machine.container = true;
    machine.software.imex_channels = channels;
    return machine;
}

inline Machine balancing_on() {
    Machine machine = with_gpus(8, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
    machine.software.numa_balancing = true;
    return machine;
}

inline Machine p3_16xlarge() {
    Machine machine = with_gpus(8, "Tesla V100-SXM2-16GB", PathType::NVL, 1);
    add_nics(machine, {nic("ens3", NicKind::ethernet, {"172.31.1.5/20"})});
    machine.nics[1].speed_gbits = 25;
    return machine;
}

inline Machine v100_switched() {
    Machine machine = with_gpus(8, "Tesla V100-SXM3-32GB", PathType::NVL, 6);
    machine.software.nccl_version = "2.5.6";
    return machine;
}

}  // namespace toporun::tests
