#include "detect/machine_toml.hpp"

#include <fmt/format.h>

#include "base/text.hpp"

/// The writer: text by hand, because the order of keys and one line per row make the file readable.
namespace toporun::detect {
namespace {

std::string quoted(std::string_view text) {
    std::string out = "\"";
    // Control bytes and invalid UTF-8 cannot stand in TOML; printable() has a spelling for them.
    for (const char c : printable(text)) {
        if (c == '"' || c == '\\') out += '\\';
        out += c;
    }
    return out + '"';
}

std::string number_text(std::uint64_t value) {
    if (value == kUnlimited) return "\"unlimited\"";
    return fmt::format("{}", std::min<std::uint64_t>(value, INT64_MAX));
}

/// What the reader takes for a figure: neither 0 nor infinite.
bool possible(double value) {
    return value > 0 && value < 1e12;
}

/// Collects `key = value` pairs; empty values are left out.
class Pairs {
  public:
    void text(std::string_view key, const std::string& value) {
        if (!value.empty()) raw(key, quoted(value));
    }
    void text(std::string_view key, const std::optional<std::string>& value) {
        if (value) raw(key, quoted(*value));
    }
    void text(std::string_view key, const CpuSet& value) { text(key, value.text()); }
    void text(std::string_view key, const std::optional<PciAddress>& value) {
        if (value) text(key, value->text());
    }
    void number(std::string_view key, const std::optional<int>& value) {
        if (value) raw(key, fmt::format("{}", *value));
    }
    void number(std::string_view key, const std::optional<std::uint64_t>& value) {
        if (value) raw(key, number_text(*value));
    }
    void number(std::string_view key, const std::optional<double>& value) {
        if (value && possible(*value)) raw(key, fmt::format("{}", *value));
    }
    void flag(std::string_view key, const std::optional<bool>& value) {
        if (value) raw(key, *value ? "true" : "false");
    }
    void yes(std::string_view key, bool value) {
        if (value) flag(key, true);
    }
    void texts(std::string_view key, const std::vector<std::string>& values) {
        if (!values.empty()) texts(key, std::optional(values));
    }
    /// Nothing is unknown, an empty list is none.
    void texts(std::string_view key, const std::optional<std::vector<std::string>>& values) {
        if (!values) return;
        std::vector<std::string> items;
        for (const std::string& value : *values) items.push_back(quoted(value));
        raw(key, fmt::format("[{}]", join(items, ", ")));
    }
    void raw(std::string_view key, std::string_view value) {
        pairs_.push_back(fmt::format("{} = {}", key, value));
    }
    std::string lines() const { return pairs_.empty() ? "" : join(pairs_, "\n") + "\n"; }
    std::string inline_table() const { return "{ " + join(pairs_, ", ") + " }"; }

  private:
    std::vector<std::string> pairs_;
};

/// An array with one item on each line.
std::string tall_array(const std::vector<std::string>& items) {
    std::string out = "[\n";
    for (const std::string& item : items) out += "    " + item + ",\n";
    return out + "]";
}

template <class Row, class Spell>
void matrix(Pairs& pairs, std::string_view key, const std::vector<Row>& rows, const Spell& spell) {
    if (rows.empty()) return;
    std::vector<std::string> lines;
    for (const Row& row : rows) {
        std::vector<std::string> cells;
        for (const auto& cell : row) cells.push_back(spell(cell));
        lines.push_back("[" + join(cells, ", ") + "]");
    }
    pairs.raw(key, tall_array(lines));
}

std::string path_cell(PathType path) {
    return quoted(path_name(path));
}
std::string optional_path_cell(const std::optional<PathType>& path) {
    return path ? path_cell(*path) : "\"\"";
}
std::string access_cell(PeerAccess access) {
    return access == PeerAccess::ok        ? "\"ok\""
           : access == PeerAccess::refused ? "\"refused\""
                                           : "\"\"";
}

std::string acs_cell(AcsRedirect redirect) {
    return redirect == AcsRedirect::on    ? "\"on\""
           : redirect == AcsRedirect::off ? "\"off\""
                                          : "\"\"";
}

std::string integer_cell(int number) {
    return fmt::format("{}", number);
}
std::string bandwidth_cell(const std::optional<double>& gbytes_per_s) {
    return gbytes_per_s && possible(*gbytes_per_s) ? fmt::format("{}", *gbytes_per_s) : "\"\"";
}

/// `key` as an array of tables, one on each line.
template <class Row, class ToPairs>
void table_rows(Pairs& pairs, std::string_view key, const std::vector<Row>& rows,
                const ToPairs& to_pairs) {
    std::vector<std::string> lines;
    for (const Row& row : rows) lines.push_back(to_pairs(row).inline_table());
    if (!lines.empty()) pairs.raw(key, tall_array(lines));
}

Pairs link_pairs(const GpuLink& link) {
    Pairs pairs;
    pairs.number("link", std::optional(link.link));
    pairs.flag("active", link.active);
    pairs.number("version", link.version);
    pairs.text("peer", link.peer);
    pairs.text("peer_kind", link.peer_kind);
    pairs.number("speed_gbytes_per_s", link.speed_gbytes_per_s);
    return pairs;
}

void add_gpu_health(Pairs& pairs, const Gpu& gpu) {
    pairs.flag("persistence", gpu.persistence);
    pairs.flag("ecc", gpu.ecc);
    pairs.flag("responding", gpu.responding);
    pairs.text("compute_mode", gpu.compute_mode);
    pairs.number("uncorrected_errors", gpu.uncorrected_errors);
    pairs.flag("row_remap_failed", gpu.row_remap_failed);
    pairs.flag("row_remap_pending", gpu.row_remap_pending);
    pairs.texts("throttle_reasons", gpu.throttle_reasons);
    pairs.text("fabric_state", gpu.fabric_state);
    pairs.text("fabric_status", gpu.fabric_status);
}

Pairs gpu_pairs(const Gpu& gpu) {
    Pairs pairs;
    pairs.number("index", std::optional(gpu.index));
    pairs.text("name", gpu.name);
    pairs.text("vendor", gpu.vendor);
    pairs.text("architecture", gpu.architecture);
    pairs.text("pci", gpu.pci);
    pairs.text("pci_id", gpu.pci_id);
    pairs.text("acs_root_port", gpu.acs_root_port);
    pairs.text("uuid", gpu.uuid);
    pairs.number("numa_node", gpu.numa_node);
    pairs.number("memory_numa_node", gpu.memory_numa_node);
    pairs.text("cpus", gpu.cpus);
    pairs.number("memory_bytes", gpu.memory_bytes);
    pairs.number("memory_used_bytes", gpu.memory_used_bytes);
    pairs.number("pcie_generation", gpu.pcie_generation);
    pairs.number("pcie_width", gpu.pcie_width);
    pairs.number("pcie_generation_now", gpu.pcie_generation_now);
    pairs.number("pcie_width_now", gpu.pcie_width_now);
    pairs.flag("mig", gpu.mig);
    pairs.number("compute_capability", gpu.compute_capability);
    pairs.number("c2c_gbytes_per_s", gpu.c2c_gbytes_per_s);
    add_gpu_health(pairs, gpu);
    table_rows(pairs, "links", gpu.links, link_pairs);
    return pairs;
}

Pairs gid_pairs(const Gid& gid) {
    Pairs pairs;
    pairs.number("index", std::optional(gid.index));
    pairs.text("address", gid.address);
    pairs.text("type", gid.type);
    pairs.text("interface", gid.interface);
    return pairs;
}

Pairs counter_pairs(const PortCounter& counter) {
    Pairs pairs;
    pairs.raw("name", quoted(counter.name));
    pairs.number("value", std::optional(counter.value));
    return pairs;
}

Pairs nic_pairs(const Nic& nic) {
    Pairs pairs;
    pairs.raw("name", quoted(nic.name));
    pairs.text("kind", std::string(nic_kind_name(nic.kind)));
    pairs.text("state", nic.state);
    pairs.number("speed_gbits", nic.speed_gbits);
    pairs.number("mtu", nic.mtu);
    pairs.texts("addresses", nic.addresses);
    pairs.text("pci", nic.pci);
    pairs.text("pci_id", nic.pci_id);
    pairs.number("numa_node", nic.numa_node);
    pairs.text("rdma_device", nic.rdma_device);
    pairs.number("port", nic.port);
    pairs.text("port_state", nic.port_state);
    if (nic.os_index != 0) pairs.number("os_index", std::optional(nic.os_index));
    pairs.yes("default_route", nic.default_route);
    pairs.text("master", nic.master);
    pairs.text("parent", nic.parent);
    pairs.yes("virtual_function", nic.virtual_function);
    pairs.yes("iwarp", nic.iwarp);
    pairs.text("driver", nic.driver);
    pairs.text("guid", nic.guid);
    pairs.number("pcie_generation", nic.pcie_generation);
    pairs.number("pcie_width", nic.pcie_width);
    pairs.number("pcie_generation_now", nic.pcie_generation_now);
    pairs.number("pcie_width_now", nic.pcie_width_now);
    table_rows(pairs, "gids", nic.gids, gid_pairs);
    table_rows(pairs, "errors", nic.errors, counter_pairs);
    return pairs;
}

Pairs node_pairs(const NumaNode& node) {
    Pairs pairs;
    pairs.number("id", std::optional(node.os_index));
    pairs.text("cpus", node.cpus);
    pairs.number("memory_bytes", node.memory_bytes);
    return pairs;
}

Pairs core_pairs(const Core& core) {
    Pairs pairs;
    pairs.text("pus", core.pus);
    pairs.number("package", std::optional(core.package));
    pairs.number("numa_node", core.numa_node);
    pairs.number("l3", core.l3);
    return pairs;
}

Pairs cpu_pairs(const Cpu& cpu) {
    Pairs pairs;
    pairs.text("vendor", cpu.vendor);
    pairs.text("model", cpu.model);
    pairs.number("family", cpu.family);
    pairs.number("model_number", cpu.model_number);
    pairs.text("architecture", cpu.architecture);
    pairs.number("packages", cpu.packages);
    pairs.text("allowed", cpu.allowed);
    table_rows(pairs, "numa_nodes", cpu.numa_nodes, node_pairs);
    matrix(pairs, "numa_distances", cpu.numa_distances, integer_cell);
    table_rows(pairs, "cores", cpu.cores, core_pairs);
    return pairs;
}

Pairs limit_pairs(const Limits& limits) {
    Pairs pairs;
    pairs.number("shm_bytes", limits.shm_bytes);
    pairs.number("shm_free_bytes", limits.shm_free_bytes);
    pairs.number("memlock_bytes", limits.memlock_bytes);
    pairs.flag("ipc_lock", limits.ipc_lock);
    pairs.number("nofile", limits.nofile);
    pairs.number("nproc", limits.nproc);
    pairs.number("cpu_quota", limits.cpu_quota);
    pairs.number("memory_bytes", limits.memory_bytes);
    pairs.number("memory_limit_bytes", limits.memory_limit_bytes);
    return pairs;
}

Pairs plugin_pairs(const NcclPlugin& plugin) {
    Pairs pairs;
    pairs.raw("name", quoted(plugin.name));
    pairs.text("file", plugin.file);
    pairs.text("maker", plugin.maker);
    return pairs;
}

Pairs software_pairs(const Software& software) {
    Pairs pairs;
    pairs.text("driver", software.driver);
    pairs.flag("driver_open", software.driver_open);
    pairs.text("nccl_version", software.nccl_version);
    pairs.text("nccl_library", software.nccl_library);
    pairs.texts("nccl_plugins", software.nccl_plugins);
    table_rows(pairs, "nccl_plugin_files", software.nccl_plugin_files, plugin_pairs);
    pairs.texts("conf_files", software.conf_files);
    pairs.texts("topology_files", software.topology_files);
    pairs.texts("vendor_files", software.vendor_files);
    pairs.text("kernel", software.kernel);
    pairs.text("iommu_mode", software.iommu_mode);
    pairs.flag("iommu_translating", software.iommu_translating);
    pairs.flag("acs_redirect", software.acs_redirect);
    pairs.texts("modules", software.modules);
    pairs.texts("peer_memory_clients", software.peer_memory_clients);
    pairs.flag("numa_balancing", software.numa_balancing);
    pairs.number("imex_channels", software.imex_channels);
    pairs.flag("fabric_manager", software.fabric_manager);
    pairs.number("verbs_devices", software.verbs_devices);
    pairs.number("gpus_withheld", software.gpus_withheld);
    pairs.text("container_kind", software.container_kind);
    pairs.text("hypervisor", software.hypervisor);
    pairs.text("scheduler", software.scheduler);
    return pairs;
}

Pairs route_pairs(const Route& route) {
    Pairs pairs;
    pairs.raw("destination", quoted(route.destination));
    pairs.text("interface", route.interface);
    pairs.text("source", route.source);
    return pairs;
}

Pairs top_pairs(const Machine& machine) {
    Pairs pairs;
    pairs.text("schema", std::string(kMachineSchema));
    pairs.text("hostname", machine.hostname);
    pairs.text("vendor", machine.vendor);
    pairs.text("product", machine.product);
    pairs.text("asset_tag", machine.asset_tag);
    pairs.text("board", machine.board);
    pairs.text("instance_type", machine.instance_type);
    pairs.flag("container", machine.container);
    pairs.flag("virtual_machine", machine.virtual_machine);
    pairs.flag("nvswitch", machine.nvswitch);
    if (machine.gpus_known && machine.gpus.empty()) pairs.raw("gpus", "[]");
    if (machine.nics_known && machine.nics.empty()) pairs.raw("nics", "[]");
    std::vector<std::string> notes;
    for (const std::string& note : machine.notes) notes.push_back(quoted(note));
    if (!notes.empty()) pairs.raw("notes", tall_array(notes));
    matrix(pairs, "gpu_paths", machine.gpu_paths, path_cell);
    matrix(pairs, "gpu_links", machine.gpu_links, integer_cell);
    matrix(pairs, "gpu_path_gbytes_per_s", machine.gpu_path_gbytes_per_s, bandwidth_cell);
    matrix(pairs, "peer_access", machine.peer_access, access_cell);
    matrix(pairs, "gpu_acs_redirect", machine.gpu_acs_redirect, acs_cell);
    matrix(pairs, "gpu_nic_paths", machine.gpu_nic_paths, optional_path_cell);
    matrix(pairs, "gpu_nic_acs_redirect", machine.gpu_nic_acs_redirect, acs_cell);
    return pairs;
}

void section(std::string& out, std::string_view header, const Pairs& pairs) {
    const std::string lines = pairs.lines();
    if (!lines.empty()) out += fmt::format("\n{}\n{}", header, lines);
}

}  // namespace

std::string machine_to_toml(const Machine& machine) {
    std::string out = top_pairs(machine).lines();
    for (const Gpu& gpu : machine.gpus) section(out, "[[gpus]]", gpu_pairs(gpu));
    for (const Nic& nic : machine.nics) section(out, "[[nics]]", nic_pairs(nic));
    section(out, "[cpu]", cpu_pairs(machine.cpu));
    for (const Route& route : machine.routes) section(out, "[[routes]]", route_pairs(route));
    section(out, "[limits]", limit_pairs(machine.limits));
    section(out, "[software]", software_pairs(machine.software));
    return out;
}

}  // namespace toporun::detect
