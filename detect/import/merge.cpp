#include "detect/import/merge.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "detect/import/merge_facts.hpp"
#include "detect/software/iommu.hpp"

namespace toporun::detect {
namespace {

using merge::Facts;

void merge_numa_nodes(Cpu& into, const Cpu& from, Facts& facts) {
    for (const NumaNode& node : from.numa_nodes) {
        const auto known =
            std::find_if(into.numa_nodes.begin(), into.numa_nodes.end(),
                         [&](const NumaNode& other) { return other.os_index == node.os_index; });
        if (known == into.numa_nodes.end()) {
            into.numa_nodes.push_back(node);
            continue;
        }
        const std::string subject = fmt::format("NUMA node {}", node.os_index);
        facts.take(known->cpus, node.cpus, subject, "the CPU list");
        facts.take(known->memory_bytes, node.memory_bytes, subject, "memory_bytes");
    }
    std::stable_sort(into.numa_nodes.begin(), into.numa_nodes.end(),
                     [](const NumaNode& a, const NumaNode& b) { return a.os_index < b.os_index; });
}

void merge_cpu(Cpu& into, const Cpu& from, Facts& facts) {
    facts.take(into.vendor, from.vendor, "CPU", "the vendor");
    facts.take(into.model, from.model, "CPU", "the model");
    facts.take(into.packages, from.packages, "CPU", "the number of packages");
    facts.take(into.allowed, from.allowed, "CPU", "the allowed list");
    facts.take(into.family, from.family, "CPU", "the family");
    facts.take(into.model_number, from.model_number, "CPU", "the model number");
    facts.take(into.architecture, from.architecture, "CPU", "the architecture");
    if (into.cores.empty()) into.cores = from.cores;
    merge_numa_nodes(into, from, facts);
    // Distances are in the order of numa_nodes and worth nothing beside another list of nodes.
    if (from.numa_distances.size() == into.numa_nodes.size())
        into.numa_distances = from.numa_distances;
    else if (into.numa_distances.size() != into.numa_nodes.size())
        into.numa_distances.clear();
}

void merge_limits(Limits& into, const Limits& from, Facts& facts) {
    facts.take(into.shm_bytes, from.shm_bytes, "/dev/shm", "the size");
    Facts::take_latest(into.shm_free_bytes, from.shm_free_bytes);
    facts.take(into.memlock_bytes, from.memlock_bytes, "limits", "memlock_bytes");
    facts.take(into.ipc_lock, from.ipc_lock, "limits", "ipc_lock");
    facts.take(into.nofile, from.nofile, "limits", "nofile");
    facts.take(into.nproc, from.nproc, "limits", "nproc");
    facts.take(into.cpu_quota, from.cpu_quota, "limits", "cpu_quota");
    facts.take(into.memory_bytes, from.memory_bytes, "limits", "memory_bytes");
    facts.take(into.memory_limit_bytes, from.memory_limit_bytes, "limits", "memory_limit_bytes");
}

void append_new(std::vector<std::string>& into, const std::vector<std::string>& from) {
    for (const std::string& word : from)
        if (std::find(into.begin(), into.end(), word) == into.end()) into.push_back(word);
}

void merge_software(Software& into, const Software& from, Facts& facts) {
    const std::string subject = "software";
    facts.take(into.driver, from.driver, subject, "driver");
    facts.take(into.nccl_version, from.nccl_version, subject, "nccl_version");
    facts.take(into.nccl_library, from.nccl_library, subject, "nccl_library");
    facts.take(into.kernel, from.kernel, subject, "kernel");
    append_new(into.nccl_plugins, from.nccl_plugins);
    if (into.nccl_plugin_files.empty()) into.nccl_plugin_files = from.nccl_plugin_files;
    facts.take(into.iommu_translating, from.iommu_translating, subject, "iommu_translating");
    facts.take(into.acs_redirect, from.acs_redirect, subject, "acs_redirect");
    const bool knows_mode = !from.iommu_mode.empty() && from.iommu_mode != kIommuDefault;
    if (knows_mode && into.iommu_mode == kIommuDefault) into.iommu_mode.clear();
    if (knows_mode || into.iommu_mode.empty())
        facts.take(into.iommu_mode, from.iommu_mode, subject, "iommu_mode");
    facts.take(into.driver_open, from.driver_open, subject, "driver_open");
    facts.take(into.modules, from.modules, subject, "modules");
    facts.take(into.peer_memory_clients, from.peer_memory_clients, subject, "peer_memory_clients");
    facts.take(into.numa_balancing, from.numa_balancing, subject, "numa_balancing");
    facts.take(into.imex_channels, from.imex_channels, subject, "imex_channels");
    facts.take(into.fabric_manager, from.fabric_manager, subject, "fabric_manager");
    facts.take(into.verbs_devices, from.verbs_devices, subject, "verbs_devices");
    facts.take(into.gpus_withheld, from.gpus_withheld, subject, "gpus_withheld");
    facts.take(into.container_kind, from.container_kind, subject, "container_kind");
    facts.take(into.hypervisor, from.hypervisor, subject, "hypervisor");
    facts.take(into.scheduler, from.scheduler, subject, "scheduler");
    append_new(into.conf_files, from.conf_files);
    append_new(into.topology_files, from.topology_files);
    append_new(into.vendor_files, from.vendor_files);
}

void merge_routes(std::vector<Route>& into, const std::vector<Route>& from) {
    for (const Route& route : from)
        if (std::find(into.begin(), into.end(), route) == into.end()) into.push_back(route);
}

void merge_into(Machine& into, const Machine& from, Facts& facts) {
    const merge::GpuPositions gpus = merge::merge_gpus(into, from, facts);
    merge::merge_nics(into, from, gpus, facts);
    merge_cpu(into.cpu, from.cpu, facts);
    merge_limits(into.limits, from.limits, facts);
    merge_routes(into.routes, from.routes);
    merge_software(into.software, from.software, facts);
    facts.take(into.hostname, from.hostname, "machine", "hostname");
    facts.take(into.vendor, from.vendor, "machine", "vendor");
    facts.take(into.product, from.product, "machine", "product");
    facts.take(into.asset_tag, from.asset_tag, "machine", "asset_tag");
    facts.take(into.board, from.board, "machine", "board");
    facts.take(into.instance_type, from.instance_type, "machine", "instance_type");
    into.container = into.container || from.container;
    into.virtual_machine = into.virtual_machine || from.virtual_machine;
}

}  // namespace

void drop_listed_gpus(Machine& machine) {
    if (machine.gpus_known) return;
    machine.gpus.clear();
    machine.gpu_acs_redirect.clear();
}

Machine merge_machines(std::vector<NamedMachine> parts) {
    if (parts.empty()) return {};
    if (parts.size() == 1) return std::move(parts.front().machine);
    std::stable_partition(parts.begin(), parts.end(), [](const NamedMachine& part) {
        return part.machine.gpus_known || part.machine.gpus.empty();
    });
    std::vector<std::string> notes;
    for (const NamedMachine& part : parts)
        for (const std::string& note : part.machine.notes) notes.push_back(part.name + ": " + note);
    Machine merged = std::move(parts.front().machine);
    std::string name = parts.front().name;
    for (std::size_t i = 1; i < parts.size(); ++i) {
        Facts facts(name, parts[i].name, notes);
        merge_into(merged, parts[i].machine, facts);
        name += " and " + parts[i].name;
    }
    merge::finish_nics(merged);
    merged.notes = std::move(notes);
    return merged;
}

}  // namespace toporun::detect
