#pragma once

#include <string>
#include <utility>
#include <vector>

#include "detect/machine.hpp"

/// Machines made by hand, for tests of what reads and writes a machine.
namespace toporun::tests {

using detect::CpuSet;
using detect::PathType;
using detect::PciAddress;

inline detect::Core core(const std::string& pus, int package, int l3) {
    detect::Core made;
    made.pus = CpuSet::parse(pus);
    made.package = package;
    made.numa_node = package;
    made.l3 = l3;
    return made;
}

inline void add_cores(detect::Machine& machine, int packages, int cores) {
    const int all = packages * cores;
    for (int package = 0; package < packages; ++package) {
        detect::NumaNode node;
        node.os_index = package;
        node.memory_bytes = 512ull << 30;
        for (int i = package * cores; i < (package + 1) * cores; ++i) {
            machine.cpu.cores.push_back(
                core(std::to_string(i) + "," + std::to_string(i + all), package, package));
            node.cpus = node.cpus | machine.cpu.cores.back().pus;
        }
        machine.cpu.numa_nodes.push_back(node);
        machine.cpu.allowed = machine.cpu.allowed | node.cpus;
    }
    machine.cpu.packages = packages;
    machine.cpu.architecture = "x86_64";
}

inline detect::Nic nic(const std::string& name, detect::NicKind kind, int os_index) {
    detect::Nic made;
    made.name = name;
    made.kind = kind;
    made.state = "up";
    made.mtu = 1500;
    made.os_index = os_index;
    return made;
}

/// Eight H100 behind NVSwitches with four InfiniBand adapters.
inline detect::Machine hgx_machine() {
    detect::Machine machine;
    machine.hostname = "node-a";
    machine.vendor = "Supermicro";
    machine.product = "SYS-821GE-TNHR";
    machine.nvswitch = true;
    add_cores(machine, 2, 4);
    machine.cpu.vendor = "GenuineIntel";
    machine.cpu.model = "Intel(R) Xeon(R) Platinum 8480C";
    machine.cpu.family = 6;
    machine.cpu.model_number = 143;
    for (int i = 0; i < 8; ++i) {
        detect::Gpu gpu;
        gpu.index = i;
        gpu.name = "NVIDIA H100 80GB HBM3";
        gpu.vendor = "nvidia";
        gpu.pci = PciAddress{0, static_cast<std::uint8_t>(0x18 + i * 0x10), 0, 0};
        gpu.uuid = "GPU-0000000" + std::to_string(i);
        gpu.numa_node = i / 4;
        gpu.cpus = machine.cpu.numa_nodes[static_cast<std::size_t>(i / 4)].cpus;
        gpu.memory_bytes = 85'520'809'984;
        gpu.pcie_generation = 5;
        gpu.pcie_width = 16;
        gpu.mig = false;
        gpu.compute_capability = 90;
        machine.gpus.push_back(gpu);
    }
    machine.gpu_paths.assign(8, std::vector(8, PathType::NVL));
    machine.gpu_links.assign(8, std::vector(8, 18));
    machine.peer_access.assign(8, std::vector(8, detect::PeerAccess::ok));
    machine.gpu_nic_paths.assign(8, std::vector<std::optional<PathType>>(5, PathType::SYS));
    for (std::size_t i = 0; i < 8; ++i) {
        machine.gpu_paths[i][i] = PathType::LOC;
        machine.gpu_links[i][i] = 0;
        machine.gpu_nic_paths[i][i / 2 + 1] = PathType::PIX;
        machine.gpu_nic_paths[i][0].reset();
    }
    machine.nics.push_back(nic("eth0", detect::NicKind::ethernet, 2));
    machine.nics[0].addresses = {"10.0.0.1/24", "fe80::1/64"};
    machine.nics[0].speed_gbits = 25;
    machine.nics[0].default_route = true;
    for (int i = 0; i < 4; ++i) {
        detect::Nic adapter = nic("ib" + std::to_string(i), detect::NicKind::ipoib, 3 + i);
        adapter.speed_gbits = 400;
        adapter.pci = PciAddress{0, static_cast<std::uint8_t>(0x19 + i * 0x20), 0, 0};
        adapter.numa_node = i / 2;
        adapter.rdma_device = "mlx5_" + std::to_string(i);
        adapter.port = 1;
        machine.nics.push_back(adapter);
    }
    machine.limits.shm_bytes = 512ull << 30;
    machine.limits.shm_free_bytes = 511ull << 30;
    machine.limits.memlock_bytes = detect::kUnlimited;
    machine.limits.ipc_lock = true;
    machine.limits.nofile = 1048576;
    machine.limits.memory_bytes = 1024ull << 30;
    machine.software.driver = "550.54.15";
    machine.software.nccl_version = "2.28.9";
    machine.software.nccl_library = "/opt/venv/lib/libnccl.so.2";
    machine.software.kernel = "5.15.0";
    machine.software.nccl_plugins = {"libnccl-net.so"};
    machine.software.iommu_translating = false;
    machine.software.acs_redirect = true;
    machine.gpu_acs_redirect.assign(machine.gpus.size(),
                                    std::vector(machine.gpus.size(), detect::AcsRedirect::on));
    machine.gpu_acs_redirect[0][1] = machine.gpu_acs_redirect[1][0] = detect::AcsRedirect::unknown;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        machine.gpu_acs_redirect[i][i] = detect::AcsRedirect::off;
    return machine;
}

/// Two consumer GPUs in a container with a quota; the driver refuses peer access.
inline detect::Machine workstation() {
    detect::Machine machine;
    machine.container = true;
    machine.virtual_machine = true;
    add_cores(machine, 1, 4);
    machine.cpu.allowed = CpuSet::parse("0-1,4-5");
    for (int i = 0; i < 2; ++i) {
        detect::Gpu gpu;
        gpu.index = i;
        gpu.name = i == 0 ? "NVIDIA GeForce RTX 4090" : "";
        gpu.vendor = "nvidia";
        if (i == 0) gpu.pci = PciAddress{0, 1, 0, 0};
        machine.gpus.push_back(gpu);
    }
    machine.gpu_paths = {{PathType::LOC, PathType::PHB}, {PathType::PHB, PathType::LOC}};
    machine.gpu_links = {{0, 0}, {0, 0}};
    machine.peer_access.assign(2, std::vector(2, detect::PeerAccess::refused));
    machine.peer_access[0][0] = machine.peer_access[1][1] = detect::PeerAccess::ok;
    machine.nics.push_back(nic("eth0", detect::NicKind::veth, 12));
    machine.nics[0].addresses = {"172.17.0.2/16"};
    machine.limits.shm_bytes = 64ull << 20;
    machine.limits.cpu_quota = 3.5;
    machine.limits.memory_limit_bytes = 8ull << 30;
    machine.notes = {"NVML: nvmlInit failed: Driver/library version mismatch (18)"};
    return machine;
}

/// No GPU, an interface whose name is an escape sequence.
inline detect::Machine plain_machine() {
    detect::Machine machine;
    add_cores(machine, 1, 2);
    machine.nics.push_back(nic("e\\x1b[31m", detect::NicKind::ethernet, 1));
    machine.nics[0].addresses = {"192.0.2.7/24"};
    machine.nics[0].speed_gbits = 2.5;
    return machine;
}

/// One GPU, one adapter: every fact that a machine file can hold is set.
inline detect::Machine full_machine() {
    detect::Machine machine = workstation();
    machine.hostname = "node-a";
    machine.cpu.vendor = "ARM";
    machine.cpu.numa_distances = {{10}};
    machine.gpus.resize(1);
    detect::Gpu& gpu = machine.gpus[0];
    gpu.architecture = "Hopper";
    gpu.memory_bytes = 100ull << 30;
    gpu.memory_numa_node = 2;
    gpu.memory_used_bytes = 3ull << 30;
    gpu.pcie_generation = 5;
    gpu.pcie_width = 16;
    gpu.pcie_generation_now = 1;
    gpu.pcie_width_now = 8;
    gpu.persistence = true;
    gpu.ecc = false;
    gpu.responding = true;
    gpu.compute_mode = "exclusive-process";
    gpu.uncorrected_errors = 2;
    gpu.row_remap_failed = false;
    gpu.row_remap_pending = true;
    gpu.throttle_reasons = {"hw-thermal", "power-brake"};
    gpu.fabric_state = "completed";
    gpu.fabric_status = "success";
    gpu.c2c_gbytes_per_s = 447.5;
    gpu.links = {{0, true, 4, PciAddress{0, 5, 0, 0}, "switch", 26.562},
                 {3, false, {}, {}, "", {}}};
    machine.gpu_paths = {{PathType::LOC}};
    machine.gpu_links = {{0}};
    machine.gpu_path_gbytes_per_s = {{std::nullopt}};
    machine.peer_access = {{detect::PeerAccess::unknown}};
    machine.gpu_acs_redirect = {{detect::AcsRedirect::off}};
    detect::Nic& adapter = machine.nics[0];
    adapter.kind = detect::NicKind::roce;
    adapter.rdma_device = "mlx5_0";
    adapter.port = 1;
    adapter.port_state = "active";
    adapter.master = "bond0";
    adapter.parent = "eth7";
    adapter.virtual_function = true;
    adapter.driver = "mlx5_core";
    adapter.guid = "b8ce:f603:00d3:1ed8";
    adapter.gids = {{0, "fe80::1", "RoCE v1", "eth0"}, {3, "::ffff:10.0.0.1", "RoCE v2", ""}};
    adapter.errors = {{"link_downed", 3}};
    adapter.pcie_generation = 5;
    adapter.pcie_width = 16;
    adapter.pcie_generation_now = 4;
    adapter.pcie_width_now = 8;
    machine.gpu_nic_paths = {{PathType::PXB}};
    machine.gpu_nic_acs_redirect = {{detect::AcsRedirect::on}};
    machine.limits.nproc = detect::kUnlimited;
    machine.routes = {{"10.0.0.9", "eth0", "10.0.0.1"}, {"2001:db8::1", "", ""}};
    detect::Software& software = machine.software;
    software.driver = "570.86.15";
    software.driver_open = true;
    software.iommu_mode = "pass-through";
    software.modules = {"nvidia_peermem", "gdrdrv"};
    software.peer_memory_clients = std::vector<std::string>{};
    software.numa_balancing = false;
    software.imex_channels = 0;
    software.fabric_manager = true;
    software.verbs_devices = 2;
    software.container_kind = "docker";
    software.gpus_withheld = 1;
    software.hypervisor = "kvm";
    software.scheduler = "slurm";
    software.nccl_plugins = {"libnccl-net.so"};
    software.nccl_plugin_files = {{"libnccl-net.so", "/opt/ofi/libnccl-net.so.0", "aws-ofi"},
                                  {"libnccl-tuner.so", "", ""}};
    software.conf_files = {"/etc/nccl.conf"};
    software.topology_files = {"/var/run/nvidia-topologyd/virtualTopology.xml"};
    software.vendor_files = {"/opt/amazon/efa"};
    machine.asset_tag = "1234-5678";
    machine.board = "Example B1";
    machine.instance_type = "big.8x";
    for (detect::Gpu& any : machine.gpus) any.pci_id = "10de:2330";
    for (detect::Nic& any : machine.nics) any.pci_id = "15b3:1021";
    return machine;
}

/// A capture that speaks of neither GPUs nor interfaces.
inline detect::Machine unknown_machine() {
    detect::Machine machine;
    machine.gpus_known = machine.nics_known = false;
    return machine;
}

inline std::vector<std::pair<std::string, detect::Machine>> sample_machines() {
    return {{"hgx", hgx_machine()},       {"workstation", workstation()},
            {"plain", plain_machine()},   {"full", full_machine()},
            {"empty", detect::Machine{}}, {"unknown", unknown_machine()}};
}

}  // namespace toporun::tests
