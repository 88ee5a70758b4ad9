#include "launcher/report/machine_json.hpp"

#include <algorithm>
#include <vector>

#include "launcher/report/json_values.hpp"

/// Keys are those of docs/machine.schema.json.
namespace toporun::launcher {
namespace {

template <class Row, class ToJson>
Json array(const std::vector<Row>& rows, const ToJson& to_json) {
    Json out = Json::array();
    for (const Row& row : rows) out.push_back(to_json(row));
    return out;
}

/// As `array`, for lists that no machine has empty: null stands for unknown.
template <class Row, class ToJson>
Json array_or_null(const std::vector<Row>& rows, const ToJson& to_json) {
    return rows.empty() ? Json(nullptr) : array(rows, to_json);
}

/// An empty matrix is unknown unless there is nothing to fill it with.
template <class Row, class ToJson>
Json matrix(const std::vector<Row>& rows, bool nothing_to_tell, const ToJson& cell) {
    if (rows.empty() && !nothing_to_tell) return nullptr;
    return array(rows, [&](const Row& row) { return array(row, cell); });
}

/// DIS stands for a pair that a capture does not tell.
Json path_cell(detect::PathType path) {
    return path == detect::PathType::DIS ? Json(nullptr) : Json(detect::path_name(path));
}
Json links_cell(int links) {
    return links < 0 ? Json(nullptr) : Json(links);
}
Json optional_path_cell(const std::optional<detect::PathType>& path) {
    return path ? path_cell(*path) : Json(nullptr);
}
Json access_cell(detect::PeerAccess access) {
    return access == detect::PeerAccess::ok        ? Json("ok")
           : access == detect::PeerAccess::refused ? Json("refused")
                                                   : Json(nullptr);
}
Json acs_cell(detect::AcsRedirect redirect) {
    return redirect == detect::AcsRedirect::unknown ? Json(nullptr)
                                                    : Json(redirect == detect::AcsRedirect::on);
}

Json link_object(const detect::GpuLink& link) {
    return {{"link", link.link},
            {"active", or_null(link.active)},
            {"version", or_null(link.version)},
            {"peer", or_null(link.peer)},
            {"peer_kind", or_null(link.peer_kind)},
            {"speed_gbytes_per_s", or_null(link.speed_gbytes_per_s)}};
}

Json gpu_object(const detect::Gpu& gpu) {
    return {{"index", gpu.index},
            {"name", or_null(gpu.name)},
            {"vendor", or_null(gpu.vendor)},
            {"architecture", or_null(gpu.architecture)},
            {"pci", or_null(gpu.pci)},
            {"pci_id", or_null(gpu.pci_id)},
            {"uuid", or_null(gpu.uuid)},
            {"numa_node", or_null(gpu.numa_node)},
            {"memory_numa_node", or_null(gpu.memory_numa_node)},
            {"acs_root_port", or_null(gpu.acs_root_port)},
            {"cpus", or_null(gpu.cpus)},
            {"memory_bytes", or_null(gpu.memory_bytes)},
            {"memory_used_bytes", or_null(gpu.memory_used_bytes)},
            {"pcie_generation", or_null(gpu.pcie_generation)},
            {"pcie_width", or_null(gpu.pcie_width)},
            {"pcie_generation_now", or_null(gpu.pcie_generation_now)},
            {"pcie_width_now", or_null(gpu.pcie_width_now)},
            {"mig", or_null(gpu.mig)},
            {"compute_capability", or_null(gpu.compute_capability)},
            {"c2c_gbytes_per_s", or_null(gpu.c2c_gbytes_per_s)},
            {"persistence", or_null(gpu.persistence)},
            {"ecc", or_null(gpu.ecc)},
            {"responding", or_null(gpu.responding)},
            {"compute_mode", or_null(gpu.compute_mode)},
            {"uncorrected_errors", or_null(gpu.uncorrected_errors)},
            {"row_remap_failed", or_null(gpu.row_remap_failed)},
            {"row_remap_pending", or_null(gpu.row_remap_pending)},
            {"throttle_reasons", gpu.throttle_reasons},
            {"fabric_state", or_null(gpu.fabric_state)},
            {"fabric_status", or_null(gpu.fabric_status)},
            {"links", array_or_null(gpu.links, link_object)}};
}

Json gid_object(const detect::Gid& gid) {
    return {{"index", gid.index},
            {"address", gid.address},
            {"type", or_null(gid.type)},
            {"interface", or_null(gid.interface)}};
}

Json counter_object(const detect::PortCounter& counter) {
    return {{"name", counter.name}, {"value", counter.value}};
}

Json nic_object(const detect::Nic& nic) {
    return {{"name", nic.name},
            {"kind", detect::nic_kind_name(nic.kind)},
            {"state", or_null(nic.state)},
            {"speed_gbits", or_null(nic.speed_gbits)},
            {"mtu", or_null(nic.mtu)},
            {"addresses", nic.addresses},
            {"pci", or_null(nic.pci)},
            {"pci_id", or_null(nic.pci_id)},
            {"numa_node", or_null(nic.numa_node)},
            {"rdma_device", or_null(nic.rdma_device)},
            {"port", or_null(nic.port)},
            {"port_state", or_null(nic.port_state)},
            {"os_index", nic.os_index},
            {"default_route", nic.default_route},
            {"master", or_null(nic.master)},
            {"parent", or_null(nic.parent)},
            {"virtual_function", nic.virtual_function},
            {"iwarp", nic.iwarp},
            {"driver", or_null(nic.driver)},
            {"guid", or_null(nic.guid)},
            {"gids", array(nic.gids, gid_object)},
            {"errors", array(nic.errors, counter_object)},
            {"pcie_generation", or_null(nic.pcie_generation)},
            {"pcie_width", or_null(nic.pcie_width)},
            {"pcie_generation_now", or_null(nic.pcie_generation_now)},
            {"pcie_width_now", or_null(nic.pcie_width_now)}};
}

/// A node without CPUs is one of memory alone where the CPUs of other nodes are known.
Json numa_nodes(const std::vector<detect::NumaNode>& nodes) {
    const bool known = std::any_of(nodes.begin(), nodes.end(),
                                   [](const auto& node) { return !node.cpus.empty(); });
    return array_or_null(nodes, [&](const detect::NumaNode& node) -> Json {
        return {{"id", node.os_index},
                {"cpus", known ? Json(node.cpus.text()) : Json(nullptr)},
                {"memory_bytes", or_null(node.memory_bytes)}};
    });
}

Json core_object(const detect::Core& core) {
    return {{"pus", core.pus.text()},
            {"package", core.package},
            {"numa_node", or_null(core.numa_node)},
            {"l3", or_null(core.l3)}};
}

Json cpu_object(const detect::Cpu& cpu) {
    return {
        {"vendor", or_null(cpu.vendor)},
        {"model", or_null(cpu.model)},
        {"architecture", or_null(cpu.architecture)},
        {"family", or_null(cpu.family)},
        {"model_number", or_null(cpu.model_number)},
        {"packages", or_null(cpu.packages)},
        {"cores", cpu.cores.empty() ? Json(nullptr) : Json(cpu.cores.size())},
        {"numa_nodes", numa_nodes(cpu.numa_nodes)},
        {"numa_distances", cpu.numa_distances.empty() ? Json(nullptr) : Json(cpu.numa_distances)},
        {"allowed", or_null(cpu.allowed)},
        {"core_list", array_or_null(cpu.cores, core_object)}};
}

Json limits_object(const detect::Limits& limits) {
    return {{"shm_bytes", limit(limits.shm_bytes)},
            {"shm_free_bytes", limit(limits.shm_free_bytes)},
            {"memlock_bytes", limit(limits.memlock_bytes)},
            {"ipc_lock", or_null(limits.ipc_lock)},
            {"nofile", limit(limits.nofile)},
            {"nproc", limit(limits.nproc)},
            {"cpu_quota", or_null(limits.cpu_quota)},
            {"memory_bytes", limit(limits.memory_bytes)},
            {"memory_limit_bytes", limit(limits.memory_limit_bytes)}};
}

Json plugin_object(const detect::NcclPlugin& plugin) {
    return {
        {"name", plugin.name}, {"file", or_null(plugin.file)}, {"maker", or_null(plugin.maker)}};
}

Json software_object(const detect::Software& software) {
    return {{"driver", or_null(software.driver)},
            {"driver_open", or_null(software.driver_open)},
            {"nccl_version", or_null(software.nccl_version)},
            {"nccl_library", or_null(software.nccl_library)},
            {"nccl_plugins", software.nccl_plugins},
            {"nccl_plugin_files", array(software.nccl_plugin_files, plugin_object)},
            {"conf_files", software.conf_files},
            {"topology_files", software.topology_files},
            {"vendor_files", software.vendor_files},
            {"kernel", or_null(software.kernel)},
            {"iommu_mode", or_null(software.iommu_mode)},
            {"iommu_translating", or_null(software.iommu_translating)},
            {"acs_redirect", or_null(software.acs_redirect)},
            {"modules", or_null(software.modules)},
            {"peer_memory_clients", or_null(software.peer_memory_clients)},
            {"numa_balancing", or_null(software.numa_balancing)},
            {"imex_channels", or_null(software.imex_channels)},
            {"fabric_manager", or_null(software.fabric_manager)},
            {"verbs_devices", or_null(software.verbs_devices)},
            {"gpus_withheld", or_null(software.gpus_withheld)},
            {"container_kind", or_null(software.container_kind)},
            {"hypervisor", or_null(software.hypervisor)},
            {"scheduler", or_null(software.scheduler)}};
}

Json route_object(const detect::Route& route) {
    return {{"destination", route.destination},
            {"interface", or_null(route.interface)},
            {"source", or_null(route.source)}};
}

/// `rows`, or where GPUs are known and nothing is known of their pairs a matrix that says so.
template <class Cell>
std::vector<std::vector<Cell>> pair_matrix(const std::vector<std::vector<Cell>>& rows,
                                           std::size_t gpus, Cell self, Cell unknown) {
    if (!rows.empty()) return rows;
    std::vector<std::vector<Cell>> filled(gpus, std::vector<Cell>(gpus, unknown));
    for (std::size_t i = 0; i < gpus; ++i) filled[i][i] = self;
    return filled;
}

/// The matrices over pairs of GPUs, and of GPUs and interfaces.
void add_matrices(Json& object, const detect::Machine& machine) {
    const bool no_gpus = machine.gpus_known && machine.gpus.empty();
    const bool no_pairs = no_gpus || (machine.nics_known && machine.nics.empty());
    const auto bandwidth = [](const std::optional<double>& value) { return or_null(value); };
    const std::size_t gpus = machine.gpus.size();
    object["gpu_paths"] =
        matrix(pair_matrix(machine.gpu_paths, gpus, detect::PathType::LOC, detect::PathType::DIS),
               no_gpus, path_cell);
    object["gpu_links"] = matrix(pair_matrix(machine.gpu_links, gpus, 0, -1), no_gpus, links_cell);
    object["gpu_path_gbytes_per_s"] = matrix(machine.gpu_path_gbytes_per_s, no_gpus, bandwidth);
    object["peer_access"] = matrix(machine.peer_access, no_gpus, access_cell);
    object["gpu_acs_redirect"] = matrix(machine.gpu_acs_redirect, no_gpus, acs_cell);
    object["gpu_nic_paths"] = matrix(machine.gpu_nic_paths, no_pairs, optional_path_cell);
    object["gpu_nic_acs_redirect"] = matrix(machine.gpu_nic_acs_redirect, no_pairs, acs_cell);
}

template <class Row, class ToJson>
Json known_array(const std::vector<Row>& rows, bool known, const ToJson& to_json) {
    return known || !rows.empty() ? array(rows, to_json) : Json(nullptr);
}

}  // namespace

Json machine_object(const detect::Machine& machine) {
    Json object = {{"schema", "toporun.machine/1"},
                   {"hostname", or_null(machine.hostname)},
                   {"vendor", or_null(machine.vendor)},
                   {"product", or_null(machine.product)},
                   {"asset_tag", or_null(machine.asset_tag)},
                   {"board", or_null(machine.board)},
                   {"instance_type", or_null(machine.instance_type)},
                   {"container", machine.container},
                   {"virtual_machine", machine.virtual_machine},
                   {"nvswitch", machine.nvswitch}};
    object["gpus"] = known_array(machine.gpus, machine.gpus_known, gpu_object);
    object["nics"] = known_array(machine.nics, machine.nics_known, nic_object);
    add_matrices(object, machine);
    object["cpu"] = cpu_object(machine.cpu);
    object["limits"] = limits_object(machine.limits);
    object["routes"] = array(machine.routes, route_object);
    object["software"] = software_object(machine.software);
    object["notes"] = machine.notes;
    return object;
}

std::string machine_json(const detect::Machine& machine) {
    return dumped(machine_object(machine));
}

}  // namespace toporun::launcher
