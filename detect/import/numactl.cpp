#include <algorithm>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/host_text.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"

/// `numactl -H`: NUMA nodes with their CPUs, memory and distances.
namespace toporun::detect {
namespace {

/// "node 0 cpus: 0 1 2" and "node 0 size: 515000 MB".
struct NodeLine {
    int node = 0;
    std::string_view what;
    std::string_view value;
};

std::optional<NodeLine> read_node_line(std::string_view text) {
    const auto pair = key_and_value(text);
    if (!pair) return std::nullopt;
    const std::vector<std::string_view> parts = words(pair->first);
    if (parts.size() != 3 || parts[0] != "node") return std::nullopt;
    const auto node = number_in(parts[1], 0, 1023);
    if (!node || (parts[2] != "cpus" && parts[2] != "size" && parts[2] != "free"))
        return std::nullopt;
    return NodeLine{*node, parts[2], pair->second};
}

/// "  0:  10  21": a row of the matrix.
std::optional<std::pair<int, std::vector<int>>> read_row(std::string_view text) {
    const auto pair = key_and_value(text);
    const auto node = pair ? number_in(pair->first, 0, 1023) : std::nullopt;
    if (!node) return std::nullopt;
    std::vector<int> row;
    for (const std::string_view word : words(pair->second)) {
        const auto distance = number_in(word, 0, 255);  // ACPI SLIT: a byte
        if (!distance || row.size() == 1024) return std::nullopt;
        row.push_back(*distance);
    }
    return row.empty() ? std::nullopt : std::optional(std::pair(*node, std::move(row)));
}

/// "0-15, 32-47 (32)" of --cpu-compress without the number of CPUs.
std::string_view without_count(std::string_view list) {
    const std::size_t open = list.rfind('(');
    const bool count = open != std::string_view::npos && open > 0 && list.ends_with(')') &&
                       number_in(list.substr(open + 1, list.size() - open - 2), 0, 1 << 20);
    return count ? trim(list.substr(0, open)) : list;
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        return read_node_line(line.text).has_value();
    });
}

/// The rows, if they are those of the nodes: one each, in the same order, as long as there are
/// nodes.
void set_distances(std::vector<std::pair<int, std::vector<int>>> rows, Cpu& cpu) {
    if (rows.size() != cpu.numa_nodes.size()) return;
    std::vector<std::vector<int>> matrix;
    for (std::size_t i = 0; i < rows.size(); ++i) {
        if (rows[i].first != cpu.numa_nodes[i].os_index || rows[i].second.size() != rows.size())
            return;
        matrix.push_back(std::move(rows[i].second));
    }
    cpu.numa_distances = std::move(matrix);
}

Reading read(const Lines& lines) {
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    PastedNodes nodes;
    std::vector<std::pair<int, std::vector<int>>> rows;
    bool distances = false;
    for (const PastedLine& line : lines.lines) {
        const auto node = read_node_line(line.text);
        auto row = distances ? read_row(line.text) : std::nullopt;
        const std::string_view text = trim(line.text);
        const bool header = text.starts_with("node distances") || text.starts_with("available: ");
        const bool columns = distances && rows.empty() && text.starts_with("node ");
        distances = (distances || text.starts_with("node distances")) && !node;
        reading.understood.push_back(node || row || header || columns);
        if (row && rows.size() < 1024) rows.push_back(std::move(*row));
        if (!node) continue;
        bool taken = true;
        if (node->what == "cpus") taken = nodes.set_cpus(node->node, without_count(node->value));
        if (const auto parts = words(node->value); node->what == "size" && parts.size() == 2) {
            const auto megabytes = number_in(parts[0], 0, INT32_MAX);  // of 2^20 bytes
            taken = megabytes &&
                    nodes.set_memory(node->node, static_cast<std::uint64_t>(*megabytes) << 20);
        }
        if (!taken)
            machine.notes.push_back("line " + std::to_string(line.number) + ": NUMA node " +
                                    std::to_string(node->node) +
                                    " cannot be read or was listed before, left out");
    }
    machine.cpu.numa_nodes = nodes.nodes();
    set_distances(std::move(rows), machine.cpu);
    return reading;
}

}  // namespace

Importer numactl_importer() {
    return {"numactl -H", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
