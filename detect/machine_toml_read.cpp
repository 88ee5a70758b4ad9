#include <fmt/format.h>

#include "base/text.hpp"
#include "detect/machine_text.hpp"
#include "detect/machine_toml.hpp"
#include "detect/machine_toml_read.hpp"

/// The reader. Whatever a file contradicts itself in is refused with its place.
namespace toporun::detect {
namespace {

using namespace machine_toml;

void read_limits(TomlTable& top, Limits& limits) {
    auto table = top.table("limits");
    if (!table) return;
    limits.shm_bytes = size(*table, "shm_bytes");
    limits.shm_free_bytes = size(*table, "shm_free_bytes");
    limits.memlock_bytes = size(*table, "memlock_bytes");
    limits.ipc_lock = table->boolean("ipc_lock");
    limits.nofile = size(*table, "nofile");
    limits.nproc = size(*table, "nproc");
    limits.cpu_quota = positive(*table, "cpu_quota");
    limits.memory_bytes = size(*table, "memory_bytes");
    limits.memory_limit_bytes = size(*table, "memory_limit_bytes");
}

void read_system(TomlTable& table, Software& software) {
    software.kernel = text(table, "kernel");
    software.iommu_translating = table.boolean("iommu_translating");
    software.iommu_mode = word(table, "iommu_mode", "a mode of the IOMMU",
                               {"off", "pass-through", "translating", "default"});
    software.acs_redirect = table.boolean("acs_redirect");
    software.modules = table.strings("modules");
    software.peer_memory_clients = table.strings("peer_memory_clients");
    software.numa_balancing = table.boolean("numa_balancing");
    software.imex_channels = index(table, "imex_channels");
    software.fabric_manager = table.boolean("fabric_manager");
    software.verbs_devices = index(table, "verbs_devices");
    software.gpus_withheld = index(table, "gpus_withheld");
    software.container_kind = text(table, "container_kind");
    software.hypervisor = text(table, "hypervisor");
    software.scheduler = text(table, "scheduler");
}

std::vector<NcclPlugin> read_plugins(TomlTable& table) {
    std::vector<NcclPlugin> plugins;
    for (TomlTable& row : table.tables("nccl_plugin_files"))
        plugins.push_back({row.required_string("name"), text(row, "file"), text(row, "maker")});
    return plugins;
}

void read_software(TomlTable& top, Software& software) {
    auto table = top.table("software");
    if (!table) return;
    software.driver = table->string("driver");
    software.driver_open = table->boolean("driver_open");
    software.nccl_version = table->string("nccl_version");
    software.nccl_library = table->string("nccl_library");
    software.nccl_plugins = texts(*table, "nccl_plugins");
    software.nccl_plugin_files = read_plugins(*table);
    software.conf_files = texts(*table, "conf_files");
    software.topology_files = texts(*table, "topology_files");
    software.vendor_files = texts(*table, "vendor_files");
    read_system(*table, software);
}

void read_routes(TomlTable& top, Machine& machine) {
    for (TomlTable& table : top.tables("routes")) {
        Route route;
        route.destination = table.required_string("destination");
        route.interface = text(table, "interface");
        route.source = text(table, "source");
        machine.routes.push_back(std::move(route));
    }
}

}  // namespace

Machine machine_from_toml(std::string_view content, std::string_view file) {
    TomlTable top = TomlTable::parse(content, file);
    const auto schema = top.string("schema");
    if (schema && *schema != kMachineSchema)
        top.fail("schema",
                 fmt::format("'{}' is not a machine file of this version", printable(*schema)),
                 fmt::format("this program reads {}", kMachineSchema));
    Machine machine;
    machine.hostname = text(top, "hostname");
    machine.vendor = text(top, "vendor");
    machine.product = text(top, "product");
    machine.asset_tag = text(top, "asset_tag");
    machine.board = text(top, "board");
    machine.instance_type = text(top, "instance_type");
    machine.container = top.boolean("container").value_or(false);
    machine.virtual_machine = top.boolean("virtual_machine").value_or(false);
    machine.nvswitch = top.boolean("nvswitch").value_or(false);
    machine.notes = texts(top, "notes");
    read_gpus(top, machine);
    read_nics(top, machine);
    read_cpu(top, machine.cpu);
    read_limits(top, machine.limits);
    read_routes(top, machine);
    read_software(top, machine.software);
    read_matrices(top, machine);
    top.finish();
    make_printable(machine);
    return machine;
}

}  // namespace toporun::detect
