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
        if (value) raw(key, fmt::format("{}", *value));
    }
    void flag(std::string_view key, const std::optional<bool>& value) {
        if (value) raw(key, *value ? "true" : "false");
    }
    void texts(std::string_view key, const std::vector<std::string>& values) {
        if (values.empty()) return;
        std::vector<std::string> items;
        for (const std::string& value : values) items.push_back(quoted(value));
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

Pairs gpu_pairs(const Gpu& gpu) {
    Pairs pairs;
    pairs.number("index", std::optional(gpu.index));
    pairs.text("name", gpu.name);
    pairs.text("vendor", gpu.vendor);
    pairs.text("pci", gpu.pci);
    pairs.text("uuid", gpu.uuid);
    pairs.number("numa_node", gpu.numa_node);
    pairs.text("cpus", gpu.cpus);
    pairs.number("memory_bytes", gpu.memory_bytes);
    pairs.number("pcie_generation", gpu.pcie_generation);
    pairs.number("pcie_width", gpu.pcie_width);
    pairs.flag("mig", gpu.mig);
    pairs.number("compute_capability", gpu.compute_capability);
    return pairs;
}

Pairs nic_pairs(const Nic& nic) {
    Pairs pairs;
    pairs.text("name", nic.name);
    pairs.text("kind", std::string(nic_kind_name(nic.kind)));
    pairs.text("state", nic.state);
    pairs.number("speed_gbits", nic.speed_gbits);
    pairs.number("mtu", nic.mtu);
    pairs.texts("addresses", nic.addresses);
    pairs.text("pci", nic.pci);
    pairs.number("numa_node", nic.numa_node);
    pairs.text("rdma_device", nic.rdma_device);
    pairs.number("port", nic.port);
    if (nic.os_index != 0) pairs.number("os_index", std::optional(nic.os_index));
    if (nic.default_route) pairs.flag("default_route", true);
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
    std::vector<std::string> nodes;
    for (const NumaNode& node : cpu.numa_nodes) {
        Pairs of_node;
        of_node.number("id", std::optional(node.os_index));
        of_node.text("cpus", node.cpus);
        of_node.number("memory_bytes", node.memory_bytes);
        nodes.push_back(of_node.inline_table());
    }
    if (!nodes.empty()) pairs.raw("numa_nodes", tall_array(nodes));
    std::vector<std::string> cores;
    for (const Core& core : cpu.cores) {
        Pairs of_core;
        of_core.text("pus", core.pus);
        of_core.number("package", std::optional(core.package));
        of_core.number("numa_node", core.numa_node);
        of_core.number("l3", core.l3);
        cores.push_back(of_core.inline_table());
    }
    if (!cores.empty()) pairs.raw("cores", tall_array(cores));
    return pairs;
}

Pairs limit_pairs(const Limits& limits) {
    Pairs pairs;
    pairs.number("shm_bytes", limits.shm_bytes);
    pairs.number("shm_free_bytes", limits.shm_free_bytes);
    pairs.number("memlock_bytes", limits.memlock_bytes);
    pairs.number("nofile", limits.nofile);
    pairs.number("cpu_quota", limits.cpu_quota);
    pairs.number("memory_bytes", limits.memory_bytes);
    pairs.number("memory_limit_bytes", limits.memory_limit_bytes);
    return pairs;
}

Pairs software_pairs(const Software& software) {
    Pairs pairs;
    pairs.text("driver", software.driver);
    pairs.text("nccl_version", software.nccl_version);
    pairs.text("nccl_library", software.nccl_library);
    pairs.text("kernel", software.kernel);
    pairs.texts("nccl_plugins", software.nccl_plugins);
    pairs.flag("iommu_translating", software.iommu_translating);
    pairs.flag("acs_redirect", software.acs_redirect);
    return pairs;
}

Pairs top_pairs(const Machine& machine) {
    Pairs pairs;
    pairs.text("schema", std::string(kMachineSchema));
    pairs.text("hostname", machine.hostname);
    pairs.text("vendor", machine.vendor);
    pairs.text("product", machine.product);
    pairs.flag("container", machine.container);
    pairs.flag("virtual_machine", machine.virtual_machine);
    pairs.flag("nvswitch", machine.nvswitch);
    std::vector<std::string> notes;
    for (const std::string& note : machine.notes) notes.push_back(quoted(note));
    if (!notes.empty()) pairs.raw("notes", tall_array(notes));
    matrix(pairs, "gpu_paths", machine.gpu_paths, path_cell);
    matrix(pairs, "gpu_links", machine.gpu_links, [](int n) { return fmt::format("{}", n); });
    matrix(pairs, "peer_access", machine.peer_access, access_cell);
    matrix(pairs, "gpu_acs_redirect", machine.gpu_acs_redirect, acs_cell);
    matrix(pairs, "gpu_nic_paths", machine.gpu_nic_paths, optional_path_cell);
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
    section(out, "[limits]", limit_pairs(machine.limits));
    section(out, "[software]", software_pairs(machine.software));
    return out;
}

}  // namespace toporun::detect
