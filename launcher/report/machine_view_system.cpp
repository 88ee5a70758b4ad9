#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view_parts.hpp"

/// Processors, limits, software.
namespace toporun::launcher {
namespace {

using detect::Machine;
using detect::NumaNode;

std::string model_line(const detect::Cpu& cpu) {
    std::vector<std::string> words;
    const std::string model = cpu.model.empty() ? cpu.vendor : cpu.model;
    if (!model.empty())
        words.push_back(cpu.packages && *cpu.packages > 1
                            ? fmt::format("{} x {}", *cpu.packages, model)
                            : model);
    else if (cpu.packages)
        words.push_back(counted(static_cast<std::size_t>(*cpu.packages), "package"));
    if (!cpu.cores.empty()) {
        words.push_back(counted(cpu.cores.size(), "core"));
        const auto threads = [](const detect::Core& core) { return core.pus.count(); };
        const int first = threads(cpu.cores.front());
        if (first > 1 && all_equal(cpu.cores, threads))
            words.push_back(fmt::format("{} threads each", first));
    }
    if (!cpu.architecture.empty()) words.push_back(cpu.architecture);
    return words.empty() ? std::string() : "  " + printable(join(words, ", ")) + "\n";
}

/// Only where some node is farther from another than the rest are.
bool distances_differ(const detect::Cpu& cpu) {
    std::set<int> others;
    for (std::size_t a = 0; a < cpu.numa_distances.size(); ++a)
        for (std::size_t b = 0; b < cpu.numa_distances[a].size(); ++b)
            if (a != b) others.insert(cpu.numa_distances[a][b]);
    return others.size() > 1;
}

std::string distance_cell(const detect::Cpu& cpu, std::size_t node) {
    if (!distances_differ(cpu) || node >= cpu.numa_distances.size()) return {};
    std::vector<std::string> cells;
    for (const int distance : cpu.numa_distances[node])
        cells.push_back(fmt::format("{:>3}", distance));
    return join(cells, " ");
}

std::string gpus_on(const Machine& machine, int node) {
    std::vector<int> indices;
    for (const detect::Gpu& gpu : machine.gpus)
        if (gpu.numa_node == node) indices.push_back(gpu.index);
    return index_list(indices);
}

std::string nics_on(const Machine& machine, int node) {
    std::vector<std::string> names;
    for (const detect::Nic& nic : machine.nics)
        if (nic.numa_node == node && (nic.rdma_device || nic.state != "down"))
            names.push_back(nic_label(nic));
    constexpr std::size_t kRoom = 40;
    const std::string list = name_list(names);
    return text_width(list) <= kRoom ? list : counted(names.size(), "NIC");
}

std::vector<std::string> node_cells(const Machine& machine, std::size_t position) {
    const NumaNode& node = machine.cpu.numa_nodes[position];
    std::set<int> caches;
    std::size_t cores = 0;
    for (const detect::Core& core : machine.cpu.cores) {
        if (core.numa_node != node.os_index) continue;
        ++cores;
        if (core.l3) caches.insert(*core.l3);
    }
    const auto count = [](std::size_t value) {
        return value > 0 ? fmt::format("{}", value) : std::string();
    };
    return {fmt::format("{}", node.os_index),
            cpu_list(node.cpus),
            count(cores),
            count(caches.size()),
            node.memory_bytes ? bytes_text(*node.memory_bytes) : "",
            gpus_on(machine, node.os_index),
            nics_on(machine, node.os_index),
            distance_cell(machine.cpu, position)};
}

std::string size_text(const std::optional<std::uint64_t>& bytes) {
    return bytes ? bytes_text(*bytes) : std::string();
}

std::string count_text(const std::optional<std::uint64_t>& count) {
    if (!count) return {};
    return *count == detect::kUnlimited ? "unlimited" : fmt::format("{}", *count);
}

/// "1 GiB, 512 MiB free": the second part where it is known.
std::string with(const std::string& first, const std::optional<std::uint64_t>& second,
                 std::string_view format_before, std::string_view format_after) {
    if (!second) return first;
    const std::string part =
        fmt::format("{}{}{}", format_before, bytes_text(*second), format_after);
    return first.empty() ? part : first + ", " + part;
}

std::string on_off(const std::optional<bool>& value) {
    return !value ? std::string() : *value ? "on" : "off";
}

/// Names in a line; "none" where it is known that there are none.
std::string names_text(const std::optional<std::vector<std::string>>& names) {
    if (!names) return {};
    return names->empty() ? "none" : join(*names, " ");
}

std::string nccl_text(const detect::Software& software) {
    const std::string version = software.nccl_version.value_or("");
    if (!software.nccl_library) return version;
    return version.empty() ? *software.nccl_library
                           : fmt::format("{} ({})", version, *software.nccl_library);
}

std::string plugin_text(const detect::Software& software) {
    std::vector<std::string> plugins = software.nccl_plugins;
    for (const detect::NcclPlugin& file : software.nccl_plugin_files) {
        const auto listed = std::find(plugins.begin(), plugins.end(), file.name);
        const std::string text =
            file.maker.empty() ? file.name : fmt::format("{} ({})", file.name, file.maker);
        if (listed == plugins.end())
            plugins.push_back(text);
        else
            *listed = text;
    }
    return join(plugins, " ");
}

std::string kind_text(bool is, const std::string& kind) {
    return kind.empty() ? (is ? "yes" : "") : kind;
}

std::string iommu_text(const detect::Software& software) {
    if (software.iommu_mode == "default") return "the kernel's default, not told which";
    if (!software.iommu_mode.empty() || !software.iommu_translating) return software.iommu_mode;
    return *software.iommu_translating ? "translating" : "not translating";
}

}  // namespace

std::string processor_section(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    Table table({"NUMA", "CPUs", "cores", "L3", "memory", "GPUs", "NICs", "distances"});
    for (std::size_t i = 0; i < cpu.numa_nodes.size(); ++i) table.row(node_cells(machine, i));
    detect::CpuSet all;
    for (const NumaNode& node : cpu.numa_nodes) all = all | node.cpus;
    for (const detect::Core& core : cpu.cores) all = all | core.pus;
    std::string allowed;  // the machine may be another one, so no word of this process
    if (!cpu.allowed.empty() && cpu.allowed != all)
        allowed = fmt::format(
            "  allowed: CPUs {}{}\n", cpu_list(cpu.allowed),
            all.empty() ? "" : fmt::format(" ({} of {})", cpu.allowed.count(), all.count()));
    return titled("processors", model_line(cpu) + table.text() + allowed);
}

std::string limit_section(const Machine& machine) {
    const detect::Limits& limits = machine.limits;
    return titled(
        "limits",
        fact_lines(
            {{"/dev/shm", with(size_text(limits.shm_bytes), limits.shm_free_bytes, "", " free")},
             {"locked memory",
              size_text(limits.memlock_bytes) +
                  (limits.memlock_bytes && *limits.memlock_bytes != detect::kUnlimited &&
                           limits.ipc_lock.value_or(false)
                       ? ", not counted (CAP_IPC_LOCK)"
                       : "")},
             {"open files", count_text(limits.nofile)},
             {"processes", count_text(limits.nproc)},
             {"CPU quota",
              limits.cpu_quota ? fmt::format("{:.3g} CPUs", *limits.cpu_quota) : std::string()},
             {"memory", with(size_text(limits.memory_bytes), limits.memory_limit_bytes,
                             "limited to ", "")}}));
}

std::string software_section(const Machine& machine) {
    const detect::Software& software = machine.software;
    std::string driver = software.driver.value_or("");
    if (!driver.empty() && software.driver_open)
        driver += *software.driver_open ? ", open kernel modules" : ", closed kernel modules";
    const auto number = [](const std::optional<int>& value) {
        return value ? fmt::format("{}", *value) : std::string();
    };
    const bool named_twice = !machine.vendor.empty() && machine.product.starts_with(machine.vendor);
    const std::string maker =
        std::string(trim((named_twice ? "" : machine.vendor + " ") + machine.product));
    const std::string manager =
        software.fabric_manager ? (*software.fabric_manager ? "runs" : "does not run") : "";
    return titled(
        "software",
        fact_lines({{"machine", maker},
                    {"instance type", machine.instance_type},
                    {"virtual machine", kind_text(machine.virtual_machine, software.hypervisor)},
                    {"container", kind_text(machine.container, software.container_kind)},
                    {"scheduler", software.scheduler},
                    {"kernel", software.kernel},
                    {"GPU driver", driver},
                    {"NCCL", nccl_text(software)},
                    {"NCCL plugins", plugin_text(software)},
                    {"nccl.conf", join(software.conf_files, " ")},
                    {"topology files", join(software.topology_files, " ")},
                    {"vendor software", join(software.vendor_files, " ")},
                    {"kernel modules", names_text(software.modules)},
                    {"peer memory", names_text(software.peer_memory_clients)},
                    {"IOMMU", iommu_text(software)},
                    {"ACS above GPUs", !software.acs_redirect   ? ""
                                       : *software.acs_redirect ? "redirects"
                                                                : "off"},
                    {"NUMA balancing", on_off(software.numa_balancing)},
                    {"fabric manager", machine.nvswitch ? manager : ""},
                    {"IMEX channels", software.imex_channels.value_or(0) > 0
                                          ? number(software.imex_channels)
                                          : std::string()},
                    {"RDMA devices", number(software.verbs_devices)}}));
}

}  // namespace toporun::launcher
