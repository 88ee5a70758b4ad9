#include <fmt/format.h>

#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/machine_toml_read.hpp"

/// GPUs, interfaces and processors of a machine file.
namespace toporun::detect::machine_toml {
namespace {

std::vector<GpuLink> read_links(TomlTable& table) {
    std::vector<GpuLink> links;
    std::set<int> numbers;
    for (TomlTable& row : table.tables("links")) {
        GpuLink link;
        link.link = index(row, "link").value_or(static_cast<int>(links.size()));
        if (!numbers.insert(link.link).second)
            row.fail("link", fmt::format("two links of the GPU have the number {}", link.link));
        link.active = row.boolean("active");
        link.version = index(row, "version", 99);
        link.peer = pci(row, "peer");
        link.peer_kind = word(row, "peer_kind", "a kind of link partner", {"gpu", "switch", "cpu"});
        link.speed_gbytes_per_s = positive(row, "speed_gbytes_per_s");
        links.push_back(std::move(link));
    }
    return links;
}

void read_gpu_health(TomlTable& table, Gpu& gpu) {
    gpu.persistence = table.boolean("persistence");
    gpu.ecc = table.boolean("ecc");
    gpu.responding = table.boolean("responding");
    gpu.compute_mode = word(table, "compute_mode", "a compute mode",
                            {"default", "exclusive-process", "prohibited"});
    gpu.uncorrected_errors = size(table, "uncorrected_errors");
    gpu.row_remap_failed = table.boolean("row_remap_failed");
    gpu.row_remap_pending = table.boolean("row_remap_pending");
    gpu.throttle_reasons = texts(table, "throttle_reasons");
    gpu.fabric_state = text(table, "fabric_state");  // the driver's word, whatever it may be
    gpu.fabric_status = text(table, "fabric_status");
}

Gpu read_gpu(TomlTable& table, std::size_t position) {
    Gpu gpu;
    gpu.index = index(table, "index").value_or(static_cast<int>(position));
    gpu.name = text(table, "name");
    gpu.vendor = text(table, "vendor");
    gpu.architecture = text(table, "architecture");
    gpu.pci = pci(table, "pci");
    gpu.pci_id = pci_id(table, "pci_id");
    gpu.acs_root_port = pci(table, "acs_root_port");
    gpu.uuid = table.string("uuid");
    gpu.numa_node = index(table, "numa_node");
    gpu.memory_numa_node = index(table, "memory_numa_node");
    gpu.cpus = cpus(table, "cpus");
    gpu.memory_bytes = size(table, "memory_bytes");
    gpu.memory_used_bytes = size(table, "memory_used_bytes");
    gpu.pcie_generation = index(table, "pcie_generation", kMostPcieGeneration);
    gpu.pcie_width = index(table, "pcie_width", kMostPcieLanes);
    gpu.pcie_generation_now = index(table, "pcie_generation_now", kMostPcieGeneration);
    gpu.pcie_width_now = index(table, "pcie_width_now", kMostPcieLanes);
    gpu.mig = table.boolean("mig");
    gpu.compute_capability = index(table, "compute_capability", 9999);
    gpu.c2c_gbytes_per_s = positive(table, "c2c_gbytes_per_s");
    read_gpu_health(table, gpu);
    gpu.links = read_links(table);
    return gpu;
}

NicKind nic_kind(TomlTable& table) {
    const auto name = table.string("kind");
    if (!name) return NicKind::other;
    if (const auto kind = parse_nic_kind(*name)) return *kind;
    unknown_word(table, "kind", *name, "a kind of interface",
                 names_of(nic_kind_name, NicKind::other));
}

std::vector<Gid> read_gids(TomlTable& table) {
    std::vector<Gid> gids;
    for (TomlTable& row : table.tables("gids")) {
        Gid gid;
        gid.index = index(row, "index").value_or(static_cast<int>(gids.size()));
        gid.address = text(row, "address");
        gid.type = text(row, "type");  // the kernel's word, whatever it may be
        gid.interface = text(row, "interface");
        gids.push_back(std::move(gid));
    }
    return gids;
}

std::vector<PortCounter> read_errors(TomlTable& table) {
    std::vector<PortCounter> counters;
    for (TomlTable& row : table.tables("errors"))
        counters.push_back({row.required_string("name"), size(row, "value").value_or(0)});
    return counters;
}

Nic read_nic(TomlTable& table) {
    Nic nic;
    nic.name = table.required_string("name");
    nic.kind = nic_kind(table);
    nic.state = word(table, "state", "a state", {"up", "down", "unknown"});
    nic.speed_gbits = positive(table, "speed_gbits");
    nic.mtu = index(table, "mtu");
    nic.addresses = texts(table, "addresses");
    nic.pci = pci(table, "pci");
    nic.pci_id = pci_id(table, "pci_id");
    nic.numa_node = index(table, "numa_node");
    nic.rdma_device = table.string("rdma_device");
    nic.port = index(table, "port", kMostRdmaPort);
    nic.port_state =
        word(table, "port_state", "a state of a port", {"active", "down", "init", "armed"});
    nic.os_index = index(table, "os_index", INT32_MAX).value_or(0);
    nic.default_route = table.boolean("default_route").value_or(false);
    nic.master = text(table, "master");
    nic.parent = text(table, "parent");
    nic.virtual_function = table.boolean("virtual_function").value_or(false);
    nic.iwarp = table.boolean("iwarp").value_or(false);
    nic.driver = text(table, "driver");
    nic.guid = text(table, "guid");
    nic.pcie_generation = index(table, "pcie_generation", kMostPcieGeneration);
    nic.pcie_width = index(table, "pcie_width", kMostPcieLanes);
    nic.pcie_generation_now = index(table, "pcie_generation_now", kMostPcieGeneration);
    nic.pcie_width_now = index(table, "pcie_width_now", kMostPcieLanes);
    nic.gids = read_gids(table);
    nic.errors = read_errors(table);
    return nic;
}

/// Tables, or the bare numbers of the nodes.
void read_numa_nodes(TomlTable& table, Cpu& cpu) {
    std::set<int> ids;
    if (table.has_integers("numa_nodes")) {
        const auto numbers = table.integers("numa_nodes");
        for (const std::int64_t id : *numbers) {
            if (id < 0 || id > kMostOsIndex || !ids.insert(static_cast<int>(id)).second)
                table.fail("numa_nodes", fmt::format("{} is not the number of a NUMA node that is "
                                                     "named once",
                                                     id));
            cpu.numa_nodes.emplace_back();
            cpu.numa_nodes.back().os_index = static_cast<int>(id);
        }
        return;
    }
    for (TomlTable& row : table.tables("numa_nodes")) {
        NumaNode node;
        node.os_index = index(row, "id").value_or(static_cast<int>(cpu.numa_nodes.size()));
        node.cpus = cpus(row, "cpus");
        node.memory_bytes = size(row, "memory_bytes");
        if (!ids.insert(node.os_index).second)
            row.fail("id", fmt::format("two NUMA nodes have the id {}", node.os_index));
        cpu.numa_nodes.push_back(std::move(node));
    }
}

void read_numa_distances(TomlTable& table, Cpu& cpu) {
    const std::string key = "numa_distances";
    const auto rows = table.integer_matrix(key);
    if (!rows) return;
    const std::size_t nodes = cpu.numa_nodes.size();
    if (!rows->empty() && rows->size() != nodes)
        table.fail(key, fmt::format("'{}' has {} rows, must have {} (one for each NUMA node)", key,
                                    rows->size(), nodes));
    for (const auto& row : *rows) {
        if (row.size() != nodes)
            table.fail(key, fmt::format("a row of '{}' has {} entries, must have {} (one for each "
                                        "NUMA node)",
                                        key, row.size(), nodes));
        cpu.numa_distances.emplace_back();
        for (const std::int64_t distance : row) {
            if (distance < 0 || distance > kMostOsIndex)
                table.fail(key, fmt::format("{} is not a distance", distance));
            cpu.numa_distances.back().push_back(static_cast<int>(distance));
        }
    }
}

void read_cores(TomlTable& table, Cpu& cpu) {
    for (TomlTable& row : table.tables("cores")) {
        Core core;
        core.pus = cpus(row, "pus");
        core.package = index(row, "package").value_or(0);
        core.numa_node = index(row, "numa_node");
        core.l3 = index(row, "l3");
        cpu.cores.push_back(std::move(core));
    }
}

}  // namespace

void read_gpus(TomlTable& top, Machine& machine) {
    std::set<int> indices;
    std::set<PciAddress> addresses;
    machine.gpus_known = top.has("gpus");
    for (TomlTable& table : top.tables("gpus")) {
        if (machine.gpus.size() == kMostMachineGpus)
            top.fail("gpus", fmt::format("a machine has at most {} GPUs here", kMostMachineGpus));
        Gpu gpu = read_gpu(table, machine.gpus.size());
        if (!indices.insert(gpu.index).second)
            table.fail("index", fmt::format("two GPUs have the index {}", gpu.index));
        if (gpu.pci && !addresses.insert(*gpu.pci).second)
            table.fail("pci", fmt::format("two GPUs have the bus id {}", gpu.pci->text()));
        machine.gpus.push_back(std::move(gpu));
    }
}

void read_nics(TomlTable& top, Machine& machine) {
    machine.nics_known = top.has("nics");
    for (TomlTable& table : top.tables("nics")) {
        if (machine.nics.size() == kMostMachineNics)
            top.fail("nics",
                     fmt::format("a machine has at most {} adapters here", kMostMachineNics));
        machine.nics.push_back(read_nic(table));
    }
}

void read_cpu(TomlTable& top, Cpu& cpu) {
    auto table = top.table("cpu");
    if (!table) return;
    cpu.vendor = text(*table, "vendor");
    cpu.model = text(*table, "model");
    cpu.family = index(*table, "family");
    cpu.model_number = index(*table, "model_number");
    cpu.architecture = text(*table, "architecture");
    cpu.packages = index(*table, "packages");
    cpu.allowed = cpus(*table, "allowed");
    read_numa_nodes(*table, cpu);
    read_numa_distances(*table, cpu);
    read_cores(*table, cpu);
}

}  // namespace toporun::detect::machine_toml
