#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "base/toml.hpp"
#include "detect/machine_toml.hpp"

/// The reader. Whatever a file contradicts itself in is refused with its place.
namespace toporun::detect {
namespace {

constexpr std::int64_t kMostIndex = 1 << 24;

/// An integer from 0 to `most`.
std::optional<int> index(TomlTable& table, const std::string& key, std::int64_t most = kMostIndex) {
    const auto value = table.integer(key);
    if (!value) return std::nullopt;
    if (*value < 0 || *value > most)
        table.fail(key, fmt::format("'{}' must be between 0 and {}, found {}", key, most, *value));
    return static_cast<int>(*value);
}

/// A size or count; "unlimited" is kUnlimited.
std::optional<std::uint64_t> size(TomlTable& table, const std::string& key) {
    const auto text = table.scalar_text(key);
    if (!text) return std::nullopt;
    if (*text == "unlimited") return kUnlimited;
    const auto value = to_integer(*text);
    if (!value || *value < 0)
        table.fail(key, fmt::format("'{}' must be a number of at least 0, found '{}'", key,
                                    printable(*text)));
    return static_cast<std::uint64_t>(*value);
}

std::optional<double> positive(TomlTable& table, const std::string& key) {
    const auto value = table.number(key);
    if (value && !(*value > 0 && *value < 1e12))
        table.fail(key, fmt::format("'{}' must be more than 0, found {}", key, *value));
    return value;
}

CpuSet cpus(TomlTable& table, const std::string& key) {
    try {
        return CpuSet::parse(table.string(key).value_or(""));
    } catch (const Error& error) {
        if (!error.where().empty()) throw;  // of another type, with its place already
        table.fail(key, error.what(), error.hint());
    }
}

std::optional<PciAddress> pci(TomlTable& table) {
    const auto text = table.string("pci");
    if (!text) return std::nullopt;
    const auto address = PciAddress::parse(*text);
    if (!address)
        table.fail("pci", fmt::format("'{}' is not a PCI bus id", printable(*text)),
                   "write it like 0000:18:00.0");
    return address;
}

/// The names of an enumeration, for a hint.
template <class Enum>
std::vector<std::string> names_of(std::string_view (*name)(Enum), Enum last) {
    std::vector<std::string> names;
    for (int i = 0; i <= static_cast<int>(last); ++i)
        names.emplace_back(name(static_cast<Enum>(i)));
    return names;
}

[[noreturn]] void unknown_word(const TomlTable& table, const std::string& key,
                               const std::string& word, std::string_view what,
                               const std::vector<std::string>& known) {
    const auto suggestion = closest_word(word, known);
    table.fail(key, fmt::format("'{}' is not {}", printable(word), what),
               suggestion ? fmt::format("did you mean '{}'?", *suggestion)
                          : "known: " + join(known, ", "));
}

PathType path(const TomlTable& table, const std::string& key, const std::string& word) {
    if (const auto found = parse_path_name(word)) return *found;
    unknown_word(table, key, word, "a path type", names_of(path_name, PathType::DIS));
}

Gpu read_gpu(TomlTable& table, std::size_t position) {
    Gpu gpu;
    gpu.index = index(table, "index").value_or(static_cast<int>(position));
    gpu.name = table.string("name").value_or("");
    gpu.vendor = table.string("vendor").value_or("");
    gpu.pci = pci(table);
    gpu.uuid = table.string("uuid");
    gpu.numa_node = index(table, "numa_node");
    gpu.cpus = cpus(table, "cpus");
    gpu.memory_bytes = size(table, "memory_bytes");
    gpu.pcie_generation = index(table, "pcie_generation", 9);
    gpu.pcie_width = index(table, "pcie_width", 32);
    gpu.mig = table.boolean("mig");
    gpu.compute_capability = index(table, "compute_capability", 9999);
    return gpu;
}

void read_gpus(TomlTable& top, Machine& machine) {
    std::set<int> indices;
    std::set<PciAddress> addresses;
    for (TomlTable& table : std::vector<TomlTable>(top.tables("gpus"))) {
        Gpu gpu = read_gpu(table, machine.gpus.size());
        if (!indices.insert(gpu.index).second)
            table.fail("index", fmt::format("two GPUs have the index {}", gpu.index));
        if (gpu.pci && !addresses.insert(*gpu.pci).second)
            table.fail("pci", fmt::format("two GPUs have the bus id {}", gpu.pci->text()));
        machine.gpus.push_back(std::move(gpu));
    }
}

NicKind nic_kind(TomlTable& table) {
    const auto word = table.string("kind");
    if (!word) return NicKind::other;
    if (const auto kind = parse_nic_kind(*word)) return *kind;
    unknown_word(table, "kind", *word, "a kind of interface",
                 names_of(nic_kind_name, NicKind::other));
}

Nic read_nic(TomlTable& table) {
    Nic nic;
    nic.name = table.required_string("name");
    nic.kind = nic_kind(table);
    nic.state = table.string("state").value_or("");
    const std::vector<std::string> states = {"", "up", "down", "unknown"};
    if (std::find(states.begin(), states.end(), nic.state) == states.end())
        unknown_word(table, "state", nic.state, "a state", {"up", "down", "unknown"});
    nic.speed_gbits = positive(table, "speed_gbits");
    nic.mtu = index(table, "mtu");
    nic.addresses = table.strings("addresses").value_or(std::vector<std::string>{});
    nic.pci = pci(table);
    nic.numa_node = index(table, "numa_node");
    nic.rdma_device = table.string("rdma_device");
    nic.port = index(table, "port", 255);
    nic.os_index = index(table, "os_index", INT32_MAX).value_or(0);
    nic.default_route = table.boolean("default_route").value_or(false);
    return nic;
}

void read_nodes_and_cores(TomlTable& table, Cpu& cpu) {
    std::set<int> ids;
    for (TomlTable& row : std::vector<TomlTable>(table.tables("numa_nodes"))) {
        NumaNode node;
        node.os_index = index(row, "id").value_or(static_cast<int>(cpu.numa_nodes.size()));
        node.cpus = cpus(row, "cpus");
        node.memory_bytes = size(row, "memory_bytes");
        if (!ids.insert(node.os_index).second)
            row.fail("id", fmt::format("two NUMA nodes have the id {}", node.os_index));
        cpu.numa_nodes.push_back(std::move(node));
    }
    for (TomlTable& row : std::vector<TomlTable>(table.tables("cores"))) {
        Core core;
        core.pus = cpus(row, "pus");
        core.package = index(row, "package").value_or(0);
        core.numa_node = index(row, "numa_node");
        core.l3 = index(row, "l3");
        cpu.cores.push_back(std::move(core));
    }
}

void read_cpu(TomlTable& top, Cpu& cpu) {
    auto table = top.table("cpu");
    if (!table) return;
    cpu.vendor = table->string("vendor").value_or("");
    cpu.model = table->string("model").value_or("");
    cpu.family = index(*table, "family");
    cpu.model_number = index(*table, "model_number");
    cpu.architecture = table->string("architecture").value_or("");
    cpu.packages = index(*table, "packages");
    cpu.allowed = cpus(*table, "allowed");
    read_nodes_and_cores(*table, cpu);
}

void read_limits(TomlTable& top, Limits& limits) {
    auto table = top.table("limits");
    if (!table) return;
    limits.shm_bytes = size(*table, "shm_bytes");
    limits.shm_free_bytes = size(*table, "shm_free_bytes");
    limits.memlock_bytes = size(*table, "memlock_bytes");
    limits.nofile = size(*table, "nofile");
    limits.cpu_quota = positive(*table, "cpu_quota");
    limits.memory_bytes = size(*table, "memory_bytes");
    limits.memory_limit_bytes = size(*table, "memory_limit_bytes");
}

void read_software(TomlTable& top, Software& software) {
    auto table = top.table("software");
    if (!table) return;
    software.driver = table->string("driver");
    software.nccl_version = table->string("nccl_version");
    software.nccl_library = table->string("nccl_library");
    software.kernel = table->string("kernel").value_or("");
    software.nccl_plugins = table->strings("nccl_plugins").value_or(std::vector<std::string>{});
    software.iommu_translating = table->boolean("iommu_translating");
    software.acs_redirect = table->boolean("acs_redirect");
}

/// Refuses a matrix that is not `rows` times `columns`.
template <class Row>
void check_shape(const TomlTable& top, const std::string& key, const std::vector<Row>& matrix,
                 std::size_t rows, std::size_t columns, std::string_view what) {
    if (matrix.size() != rows)
        top.fail(key, fmt::format("'{}' has {} rows, must have {} ({})", key, matrix.size(), rows,
                                  what));
    for (std::size_t i = 0; i < rows; ++i)
        if (matrix[i].size() != columns)
            top.fail(key, fmt::format("row {} of '{}' has {} entries, must have {} ({})", i, key,
                                      matrix[i].size(), columns, what));
}

/// Shape GPU x GPU, symmetric, `diagonal` on the diagonal.
template <class Cell>
void check_square(const TomlTable& top, const std::string& key,
                  const std::vector<std::vector<Cell>>& matrix, std::size_t gpus,
                  const std::optional<Cell>& diagonal) {
    check_shape(top, key, matrix, gpus, gpus, "one for each GPU");
    for (std::size_t a = 0; a < gpus; ++a) {
        if (diagonal && matrix[a][a] != *diagonal)
            top.fail(key, fmt::format("'{}' must have {} on its diagonal, found {} for GPU {}", key,
                                      *diagonal, matrix[a][a], a));
        for (std::size_t b = 0; b < a; ++b)
            if (matrix[a][b] != matrix[b][a])
                top.fail(key, fmt::format("'{}' is not symmetric: {} from GPU {} to {}, {} back",
                                          key, matrix[a][b], a, b, matrix[b][a]));
    }
}

void read_gpu_matrices(TomlTable& top, Machine& machine) {
    const std::size_t gpus = machine.gpus.size();
    if (auto words = top.string_matrix("gpu_paths")) {
        for (auto& row : *words)
            for (std::string& word : row) word = path_name(path(top, "gpu_paths", word));
        check_square<std::string>(top, "gpu_paths", *words, gpus, "LOC");
        for (const auto& row : *words) {
            machine.gpu_paths.emplace_back();
            for (const std::string& word : row)
                machine.gpu_paths.back().push_back(*parse_path_name(word));
        }
    }
    if (const auto links = top.integer_matrix("gpu_links")) {
        check_square<std::int64_t>(top, "gpu_links", *links, gpus, 0);
        for (const auto& row : *links) {
            machine.gpu_links.emplace_back();
            for (const std::int64_t count : row) {
                if (count < 0 || count > 1000)
                    top.fail("gpu_links", fmt::format("{} is not a number of links", count));
                machine.gpu_links.back().push_back(static_cast<int>(count));
            }
        }
    }
}

PeerAccess peer_access(const TomlTable& top, const std::string& word) {
    if (word == "ok") return PeerAccess::ok;
    if (word == "refused") return PeerAccess::refused;
    if (word.empty() || word == "unknown") return PeerAccess::unknown;
    unknown_word(top, "peer_access", word, "a state of peer access", {"ok", "refused", "unknown"});
}

AcsRedirect acs_redirect(const TomlTable& top, const std::string& word) {
    if (word == "on") return AcsRedirect::on;
    if (word == "off") return AcsRedirect::off;
    if (word.empty() || word == "unknown") return AcsRedirect::unknown;
    unknown_word(top, "gpu_acs_redirect", word, "a state of ACS redirect",
                 {"on", "off", "unknown"});
}

void read_other_matrices(TomlTable& top, Machine& machine) {
    if (const auto words = top.string_matrix("peer_access")) {
        check_square<std::string>(top, "peer_access", *words, machine.gpus.size(), std::nullopt);
        for (const auto& row : *words) {
            machine.peer_access.emplace_back();
            for (const std::string& word : row)
                machine.peer_access.back().push_back(peer_access(top, word));
        }
    }
    if (const auto words = top.string_matrix("gpu_acs_redirect")) {
        check_square<std::string>(top, "gpu_acs_redirect", *words, machine.gpus.size(),
                                  std::nullopt);
        for (const auto& row : *words) {
            machine.gpu_acs_redirect.emplace_back();
            for (const std::string& word : row)
                machine.gpu_acs_redirect.back().push_back(acs_redirect(top, word));
        }
    }
    if (const auto words = top.string_matrix("gpu_nic_paths")) {
        check_shape(top, "gpu_nic_paths", *words, machine.gpus.size(), machine.nics.size(),
                    "GPUs times interfaces");
        for (const auto& row : *words) {
            machine.gpu_nic_paths.emplace_back();
            for (const std::string& word : row)
                machine.gpu_nic_paths.back().push_back(
                    word.empty() ? std::nullopt : std::optional(path(top, "gpu_nic_paths", word)));
        }
    }
}

}  // namespace

Machine machine_from_toml(std::string_view text, std::string_view file) {
    TomlTable top = TomlTable::parse(text, file);
    const auto schema = top.string("schema");
    if (schema && *schema != kMachineSchema)
        top.fail("schema",
                 fmt::format("'{}' is not a machine file of this version", printable(*schema)),
                 fmt::format("this program reads {}", kMachineSchema));
    Machine machine;
    machine.hostname = top.string("hostname").value_or("");
    machine.vendor = top.string("vendor").value_or("");
    machine.product = top.string("product").value_or("");
    machine.container = top.boolean("container").value_or(false);
    machine.virtual_machine = top.boolean("virtual_machine").value_or(false);
    machine.nvswitch = top.boolean("nvswitch").value_or(false);
    machine.notes = top.strings("notes").value_or(std::vector<std::string>{});
    read_gpus(top, machine);
    for (TomlTable& table : std::vector<TomlTable>(top.tables("nics")))
        machine.nics.push_back(read_nic(table));
    read_cpu(top, machine.cpu);
    read_limits(top, machine.limits);
    read_software(top, machine.software);
    read_gpu_matrices(top, machine);
    read_other_matrices(top, machine);
    top.finish();
    return machine;
}

}  // namespace toporun::detect
