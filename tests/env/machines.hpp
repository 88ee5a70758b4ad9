#pragma once

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

#include <doctest/doctest.h>

#include "env/inputs.hpp"
#include "env/plan.hpp"

/// Machines, jobs and plans put together by hand, for the tests of env.
namespace toporun::tests {

using detect::AcsRedirect;
using detect::CpuSet;
using detect::Machine;
using detect::NicKind;
using detect::PathType;
using detect::PeerAccess;

/// A host with `packages` x `cores` cores, PUs numbered as Linux does: first siblings first. One
/// NUMA node a package; `caches` last-level caches in each.
inline Machine host(int packages, int cores, bool smt = true, int caches = 1) {
    Machine machine;
    machine.nics_known = false;
    machine.hostname = "node-a";
    machine.cpu.packages = packages;
    machine.cpu.vendor = "GenuineIntel";
    machine.cpu.architecture = "x86_64";
    const int all = packages * cores;
    std::vector<int> allowed;
    for (int package = 0; package < packages; ++package) {
        std::vector<int> pus;
        for (int i = 0; i < cores; ++i) {
            const int index = package * cores + i;
            detect::Core core;
            core.pus = smt ? CpuSet({index, index + all}) : CpuSet({index});
            core.package = package;
            core.numa_node = package;
            core.l3 = package * caches + i * caches / cores;
            for (const int pu : core.pus.indices()) pus.push_back(pu);
            machine.cpu.cores.push_back(core);
        }
        allowed.insert(allowed.end(), pus.begin(), pus.end());
        machine.cpu.numa_nodes.push_back({package, CpuSet(pus), {}});
    }
    machine.cpu.allowed = CpuSet(allowed);
    machine.software.nccl_version = "2.28.9";
    machine.limits.shm_bytes = std::uint64_t{1} << 30;
    return machine;
}

/// `count` GPUs, spread evenly over the NUMA nodes in order, every pair on `path`.
inline void add_gpus(Machine& machine, int count, const std::string& name, PathType path,
                     int links = 0) {
    const auto size = static_cast<std::size_t>(count);
    const int nodes = std::max<int>(1, static_cast<int>(machine.cpu.numa_nodes.size()));
    for (int i = 0; i < count; ++i) {
        detect::Gpu gpu;
        gpu.index = i;
        gpu.name = name;
        gpu.vendor = "nvidia";
        gpu.uuid = "GPU-0000000" + std::to_string(i) + "-aaaa";
        gpu.numa_node = i * nodes / count;
        machine.gpus.push_back(gpu);
    }
    machine.gpu_paths.assign(size, std::vector<PathType>(size, path));
    machine.gpu_links.assign(size, std::vector<int>(size, links));
    machine.peer_access.assign(size, std::vector<PeerAccess>(size, PeerAccess::ok));
    for (std::size_t i = 0; i < size; ++i) {
        machine.gpu_paths[i][i] = PathType::LOC;
        machine.gpu_links[i][i] = 0;
    }
}

inline void connect(Machine& machine, int a, int b, PathType path, int links = 0) {
    const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
    machine.gpu_paths[x][y] = machine.gpu_paths[y][x] = path;
    machine.gpu_links[x][y] = machine.gpu_links[y][x] = links;
}

inline void set_peer_access(Machine& machine, PeerAccess access) {
    for (auto& row : machine.peer_access)
        for (auto& cell : row) cell = access;
}

inline void set_acs_redirect(Machine& machine, AcsRedirect redirect) {
    const std::size_t size = machine.gpus.size();
    machine.gpu_acs_redirect.assign(size, std::vector<AcsRedirect>(size, redirect));
    for (std::size_t i = 0; i < size; ++i) machine.gpu_acs_redirect[i][i] = AcsRedirect::off;
}

inline detect::Nic nic(const std::string& name, NicKind kind, std::vector<std::string> addresses,
                       const std::string& state = "up") {
    detect::Nic made;
    made.name = name;
    made.kind = kind;
    made.addresses = std::move(addresses);
    made.state = state;
    return made;
}

inline void add_nics(Machine& machine, std::vector<detect::Nic> nics) {
    machine.nics_known = true;
    machine.nics.push_back(nic("lo", NicKind::loopback, {"127.0.0.1/8", "::1/128"}));
    for (detect::Nic& one : nics) machine.nics.push_back(std::move(one));
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        machine.nics[i].os_index = static_cast<int>(i) + 1;
}

/// Two packages of 56 cores, eight H100 on NVSwitch, one Ethernet interface.
inline Machine hgx_h100() {
    Machine machine = host(2, 56);
    add_gpus(machine, 8, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    machine.nvswitch = true;
    add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    return machine;
}

/// Four A6000 in two bridged pairs.
inline Machine bridged_pairs() {
    Machine machine = host(2, 16);
    add_gpus(machine, 4, "NVIDIA RTX A6000", PathType::SYS);
    connect(machine, 0, 1, PathType::NVL, 4);
    connect(machine, 2, 3, PathType::NVL, 4);
    return machine;
}

/// GPUs below one PCIe switch.
inline Machine switched(int count = 4) {
    Machine machine = host(2, 16);
    add_gpus(machine, count, "NVIDIA L40S", PathType::PIX);
    return machine;
}

inline Machine geforce(const std::string& name, PathType path, PeerAccess access) {
    Machine machine = host(1, 24);
    machine.cpu.vendor = "AuthenticAMD";
    machine.software.nccl_version = "2.17.1";
    add_gpus(machine, 4, name, path);
    set_peer_access(machine, access);
    return machine;
}

/// Torchrun-like: the shim runs, everything on this host.
inline env::Job job(int ranks, int nodes = 1) {
    env::Job made;
    made.launcher = "torchrun";
    made.nodes = nodes;
    made.ranks_per_node = ranks;
    made.same_host = true;
    made.shim = true;
    return made;
}

inline env::Options options() {
    env::Options made;
    made.log_directory = "/tmp/run/logs";
    made.plugin = "/opt/toporun/libtoporun-nccl.so";
    return made;
}

inline env::UserEnvironment user(std::map<std::string, std::string> variables = {}) {
    env::UserEnvironment made;
    made.variables = std::move(variables);
    return made;
}

inline env::Plan plan(const Machine& machine, const env::Job& job,
                      const env::UserEnvironment& environment = {},
                      const env::Options& how = options()) {
    static const auto knowledge = profiles::builtin_knowledge();
    return env::decide(job, machine, knowledge, environment, how);
}

/// The setting of that name; fails the test when there is not exactly one.
inline env::Setting setting(const env::Plan& plan, std::string_view name) {
    std::vector<env::Setting> found;
    for (const env::Setting& one : plan.settings)
        if (one.name == name) found.push_back(one);
    CAPTURE(name);
    REQUIRE(found.size() == 1);
    return found.front();
}

inline bool has_setting(const env::Plan& plan, std::string_view name) {
    return std::any_of(plan.settings.begin(), plan.settings.end(),
                       [&](const env::Setting& one) { return one.name == name; });
}

/// The value that toporun exports; nothing when it exports none.
inline std::optional<std::string> exported(const env::Plan& plan, std::string_view name) {
    for (const env::Setting& one : plan.settings)
        if (one.name == name && one.exported) return one.value;
    return std::nullopt;
}

inline std::vector<std::string> finding_ids(const env::Plan& plan) {
    std::vector<std::string> ids;
    for (const env::Finding& finding : plan.findings) ids.push_back(finding.id);
    return ids;
}

inline bool has_finding(const env::Plan& plan, std::string_view id) {
    return std::any_of(plan.findings.begin(), plan.findings.end(),
                       [&](const env::Finding& finding) { return finding.id == id; });
}

inline int count_transport(const env::Plan& plan, std::string_view transport, bool by_default) {
    return static_cast<int>(
        std::count_if(plan.pairs.begin(), plan.pairs.end(), [&](const env::Pair& pair) {
            return (by_default ? pair.transport_default : pair.transport) == transport;
        }));
}

}  // namespace toporun::tests
