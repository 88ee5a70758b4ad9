#pragma once

#include <optional>
#include <string>
#include <vector>

#include "../machines.hpp"
#include "env/doctor/doctor.hpp"

/// Machines and jobs for the tests of the checks.
namespace toporun::tests {

/// `toporun doctor` of a shell: the machine is the job's host, nothing is known of the command.
inline env::Job doctor_job(std::optional<int> nodes = {}, std::optional<int> ranks = {}) {
    env::Job made;
    made.launcher = "shell";
    made.nodes = nodes;
    made.ranks_per_node = ranks;
    made.same_host = true;
    return made;
}

inline env::Diagnosis examine(const Machine& machine, const env::UserEnvironment& environment = {},
                              const env::Job& job = doctor_job()) {
    static const auto knowledge = profiles::builtin_knowledge();
    env::Options how;
    how.for_shell = true;
    return env::diagnose(job, machine, environment, plan(machine, job, environment, how),
                         knowledge);
}

inline std::vector<std::string> ids(const env::Diagnosis& diagnosis) {
    std::vector<std::string> found;
    for (const env::Finding& finding : diagnosis.findings) found.push_back(finding.id);
    return found;
}

/// Whether there is a finding of that identifier; fails the test when no check is named so, as a
/// misspelt name is never found.
inline bool has(const env::Diagnosis& diagnosis, std::string_view id) {
    const auto checks = env::check_list();
    CAPTURE(id);
    REQUIRE(std::any_of(checks.begin(), checks.end(),
                        [&](const env::CheckInfo& check) { return check.id == id; }));
    const auto found = ids(diagnosis);
    return std::find(found.begin(), found.end(), id) != found.end();
}

/// The finding of that identifier; fails the test when there is none.
inline env::Finding finding(const env::Diagnosis& diagnosis, std::string_view id) {
    for (const env::Finding& one : diagnosis.findings)
        if (one.id == id) return one;
    CAPTURE(id);
    CAPTURE(ids(diagnosis));
    REQUIRE(false);
    return {};
}

inline detect::Nic rdma_port(int number, NicKind kind, double speed_gbits) {
    detect::Nic made;
    made.name = "mlx5_" + std::to_string(number);
    made.kind = kind;
    made.state = "up";
    made.port_state = "active";
    made.speed_gbits = speed_gbits;
    made.rdma_device = made.name;
    made.port = 1;
    made.driver = "mlx5_core";
    made.pci = detect::PciAddress{0, static_cast<std::uint8_t>(0x19 + number * 0x10), 0, 0};
    made.pcie_generation = made.pcie_generation_now = 5;
    made.pcie_width = made.pcie_width_now = 16;
    return made;
}

/// GPU i below one switch with adapter i, SYS to all others; sockets have no path.
inline void connect_adapters(Machine& machine) {
    const std::size_t gpus = machine.gpus.size(), nics = machine.nics.size();
    machine.gpu_nic_paths.assign(gpus, std::vector<std::optional<PathType>>(nics));
    machine.gpu_nic_acs_redirect.assign(gpus, std::vector<AcsRedirect>(nics, AcsRedirect::unknown));
    std::size_t adapter = 0;
    for (std::size_t nic = 0; nic < nics; ++nic) {
        if (!machine.nics[nic].rdma_device) continue;
        for (std::size_t gpu = 0; gpu < gpus; ++gpu)
            machine.gpu_nic_paths[gpu][nic] = gpu == adapter ? PathType::PIX : PathType::SYS;
        if (adapter < gpus) machine.gpu_nic_acs_redirect[adapter][nic] = AcsRedirect::off;
        ++adapter;
    }
}

inline void know_limits(Machine& machine) {
    machine.limits.shm_bytes = 512ull << 30;
    machine.limits.shm_free_bytes = 511ull << 30;
    machine.limits.memlock_bytes = detect::kUnlimited;
    machine.limits.ipc_lock = false;
    machine.limits.nofile = 1048576;
    machine.limits.nproc = 4000000;
    machine.limits.memory_bytes = 2048ull << 30;
}

inline void know_software(Machine& machine) {
    auto& software = machine.software;
    software.driver = "570.86.15";
    software.driver_open = true;
    software.kernel = "6.8.0-51-generic";
    software.nccl_library = "/opt/venv/lib/libnccl.so.2";
    software.iommu_translating = false;
    software.iommu_mode = "pass-through";
    software.acs_redirect = false;
    software.numa_balancing = false;
    software.modules = std::vector<std::string>{"nvidia_peermem"};
    software.peer_memory_clients = std::vector<std::string>{"nvidia-peermem"};
    software.verbs_devices = 8;
    software.fabric_manager = true;
    software.imex_channels = 0;
}

/// Eight H100 behind NVSwitches, an InfiniBand adapter beside each: everything known, nothing
/// wrong.
inline Machine healthy_node() {
    Machine machine = hgx_h100();
    know_limits(machine);
    know_software(machine);
    for (std::size_t i = 0; i < machine.gpus.size(); ++i) {
        detect::Gpu& gpu = machine.gpus[i];
        gpu.pci = detect::PciAddress{0, static_cast<std::uint8_t>(0x18 + i * 0x10), 0, 0};
        gpu.memory_bytes = 80ull << 30;
        gpu.memory_used_bytes = 1 << 20;
        gpu.compute_capability = 90;
        gpu.pcie_generation = 5;
        gpu.pcie_generation_now = 1;  // idle
        gpu.pcie_width = gpu.pcie_width_now = 16;
        gpu.mig = false;
        gpu.persistence = true;
        gpu.ecc = true;
        gpu.row_remap_failed = gpu.row_remap_pending = false;
        gpu.compute_mode = "default";
        gpu.uncorrected_errors = 0;
        gpu.fabric_state = "completed";
        gpu.fabric_status = "success";
        for (int link = 0; link < 18; ++link) {
            detect::GpuLink made;
            made.link = link;
            made.active = true;
            made.version = 4;
            made.peer_kind = "switch";
            made.speed_gbytes_per_s = 26.562;
            gpu.links.push_back(made);
        }
    }
    set_acs_redirect(machine, AcsRedirect::off);
    for (detect::Nic& nic : machine.nics)
        if (nic.name == "eth0") nic.speed_gbits = 100;
    for (int i = 0; i < 8; ++i) machine.nics.push_back(rdma_port(i, NicKind::infiniband, 400));
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        machine.nics[i].os_index = static_cast<int>(i) + 1;
    connect_adapters(machine);
    return machine;
}

inline detect::Gid gid(int index, const std::string& address, const std::string& type) {
    detect::Gid made;
    made.index = index;
    made.address = address;
    made.type = type;
    return made;
}

/// The same with RoCE: interfaces with MTU 9000 and the four usual GIDs.
inline Machine healthy_roce_node() {
    Machine machine = healthy_node();
    int number = 0;
    for (detect::Nic& nic : machine.nics) {
        if (!nic.rdma_device) continue;
        nic.kind = NicKind::roce;
        nic.name = "rdma" + std::to_string(number);
        nic.mtu = 9000;
        nic.addresses = {"10.1." + std::to_string(number) + ".5/31"};
        const std::string v4 = "::ffff:10.1." + std::to_string(number) + ".5";
        nic.gids = {gid(0, "fe80::1", "RoCE v1"), gid(1, "fe80::1", "RoCE v2"),
                    gid(2, v4, "RoCE v1"), gid(3, v4, "RoCE v2")};
        ++number;
    }
    return machine;
}

/// Two RTX 4090 in a desktop, one package, P2P refused by the driver as it should be.
inline Machine healthy_workstation() {
    Machine machine = host(1, 16);
    add_gpus(machine, 2, "NVIDIA GeForce RTX 4090", PathType::PHB);
    set_peer_access(machine, PeerAccess::refused);
    machine.peer_access[0][0] = machine.peer_access[1][1] = PeerAccess::ok;
    set_acs_redirect(machine, AcsRedirect::off);
    know_limits(machine);
    know_software(machine);
    machine.limits.nofile = 1024;  // every desktop's
    machine.limits.memlock_bytes = 8ull << 20;
    machine.software.modules = std::vector<std::string>{};
    machine.software.peer_memory_clients = std::vector<std::string>{};
    machine.software.verbs_devices = 0;
    machine.software.fabric_manager = false;
    machine.software.driver_open = false;
    machine.software.nccl_version = "2.26.2";
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.numa_node.reset();
        gpu.memory_bytes = 24ull << 30;
        gpu.memory_used_bytes = 900ull << 20;
        gpu.pcie_generation = 4;
        gpu.pcie_generation_now = 1;
        gpu.pcie_width = gpu.pcie_width_now = 16;
        gpu.compute_capability = 89;
        gpu.persistence = false;
        gpu.fabric_state = "not supported";
        gpu.row_remap_failed = gpu.row_remap_pending = false;
    }
    add_nics(machine, {nic("enp5s0", NicKind::ethernet, {"192.168.1.20/24"}),
                       nic("docker0", NicKind::bridge, {"172.17.0.1/16"}, "down"),
                       nic("tailscale0", NicKind::tunnel, {"100.64.0.3/32"})});
    machine.nics[1].speed_gbits = 1;
    return machine;
}

/// A laptop: one processor, Wi-Fi, no GPU.
inline Machine healthy_laptop() {
    Machine machine = host(1, 8);
    machine.limits.nofile = 1024;
    machine.limits.memlock_bytes = 8ull << 20;
    machine.limits.shm_bytes = 8ull << 30;
    machine.software.numa_balancing = false;
    machine.software.kernel = "6.8.0-51-generic";
    machine.software.nccl_version.reset();
    add_nics(machine, {nic("wlp2s0", NicKind::ethernet, {"192.168.1.30/24"})});
    return machine;
}

/// One H100 in a container that has no NVML and hides most of /sys.
inline Machine healthy_container() {
    Machine machine = host(2, 56);
    add_gpus(machine, 1, "NVIDIA H100 80GB HBM3", PathType::LOC);
    machine.container = true;
    machine.software.container_kind = "docker";
    machine.limits.shm_bytes = 16ull << 30;
    machine.notes = {"NVML: libnvidia-ml.so.1 cannot be loaded"};
    add_nics(machine, {nic("eth0", NicKind::veth, {"172.17.0.2/16"})});
    return machine;
}

/// An Azure-like guest with a topology file that its conf file names.
inline Machine healthy_guest() {
    Machine machine = healthy_node();
    machine.virtual_machine = true;
    machine.vendor = "Microsoft Corporation";
    machine.product = "Virtual Machine";
    machine.software.hypervisor = "microsoft";
    machine.software.fabric_manager = false;
    machine.software.topology_files = {"/opt/microsoft/ndv5-topo.xml"};
    return machine;
}

inline env::UserEnvironment guest_environment() {
    env::UserEnvironment made;
    made.conf = {{"NCCL_TOPO_FILE", "/opt/microsoft/ndv5-topo.xml", "/etc/nccl.conf:1"},
                 {"NCCL_IB_PCI_RELAXED_ORDERING", "1", "/etc/nccl.conf:2"}};
    return made;
}

/// Eight MI300X, all pairs by xGMI.
inline Machine healthy_amd_node() {
    Machine machine = host(2, 48);
    add_gpus(machine, 8, "AMD Instinct MI300X", PathType::NVL, 1);
    for (detect::Gpu& gpu : machine.gpus) gpu.vendor = "amd";
    machine.cpu.vendor = "AuthenticAMD";
    know_limits(machine);
    machine.software.numa_balancing = false;
    machine.software.iommu_translating = false;
    machine.software.nccl_version = "2.22.3";
    machine.software.nccl_library = "/opt/rocm/lib/librccl.so.1";
    machine.software.kernel = "6.8.0-51-generic";
    add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    return machine;
}

}  // namespace toporun::tests
