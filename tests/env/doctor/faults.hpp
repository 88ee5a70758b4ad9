#pragma once

#include <functional>
#include <string>
#include <vector>

#include "support.hpp"

/// What makes each check speak, on a machine on which it is silent without it.
namespace toporun::tests {

struct Patient {
    Machine machine = healthy_node();
    env::UserEnvironment user = {};
    env::Job job = doctor_job();
};

struct Fault {
    std::string id;
    std::string name;
    env::Severity severity;
    std::function<void(Patient&)> harm;
    std::function<Machine()> healthy = healthy_node;
};

inline constexpr auto broken = env::Severity::broken;
inline constexpr auto slow = env::Severity::slow;
inline constexpr auto note = env::Severity::note;

inline detect::Nic& port(Patient& patient, std::size_t number) {
    return patient.machine.nics.at(2 + number);
}

inline void set(Patient& patient, const std::string& name, const std::string& value) {
    patient.user.variables[name] = value;
}

inline void several_nodes(Patient& patient) {
    patient.job.nodes = 2;
}

/// The last `count` GPUs are not shown.
inline void drop_gpus(Machine& machine, int count) {
    const std::size_t left = machine.gpus.size() - static_cast<std::size_t>(count);
    const auto cut = [&](auto& matrix, bool square) {
        if (matrix.empty()) return;
        matrix.resize(left);
        for (auto& row : matrix)
            if (square) row.resize(left);
    };
    machine.gpus.resize(left);
    cut(machine.gpu_paths, true);
    cut(machine.gpu_links, true);
    cut(machine.peer_access, true);
    cut(machine.gpu_acs_redirect, true);
    cut(machine.gpu_nic_paths, false);
    cut(machine.gpu_nic_acs_redirect, false);
}

inline Machine sockets_only() {
    Machine machine = healthy_workstation();
    add_nics(machine, {});
    machine.nics.clear();
    add_nics(machine, {nic("eno1", NicKind::ethernet, {"10.0.0.1/24"})});
    machine.nics[1].speed_gbits = 25;
    return machine;
}

inline Machine several_pcie_gpus(const std::string& name, int count, PathType path) {
    Machine machine = host(2, 16);
    add_gpus(machine, count, name, path);
    set_acs_redirect(machine, AcsRedirect::off);
    know_limits(machine);
    know_software(machine);
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.pcie_generation = gpu.pcie_generation_now = 4;
        gpu.pcie_width = gpu.pcie_width_now = 16;
    }
    add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    return machine;
}

inline Machine efa_node() {
    Machine machine = healthy_node();
    for (detect::Nic& nic : machine.nics)
        if (nic.rdma_device) nic.kind = NicKind::efa;
    for (int i = 8; i < 32; ++i) {
        machine.nics.push_back(rdma_port(i, NicKind::efa, 100));
        machine.nics.back().pci = detect::PciAddress{1, static_cast<std::uint8_t>(i), 0, 0};
    }
    connect_adapters(machine);
    machine.vendor = "Amazon EC2";
    machine.product = "p5.48xlarge";
    machine.software.nccl_plugin_files = {
        {"libnccl-net.so", "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "aws-ofi"}};
    machine.software.nccl_plugins = {"libnccl-net.so"};
    return machine;
}

inline Machine a100_pcie() {
    return several_pcie_gpus("NVIDIA A100 80GB PCIe", 4, PathType::PIX);
}

std::vector<Fault> interface_faults();
std::vector<Fault> rdma_faults();
std::vector<Fault> gpu_faults();
std::vector<Fault> system_faults();
std::vector<Fault> setting_faults();

}  // namespace toporun::tests
