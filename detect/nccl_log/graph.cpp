#include "detect/nccl_log/graph.hpp"

#include <array>

#include "detect/nccl_log/cursor.hpp"

namespace toporun::detect::nccl_log {
namespace {

constexpr std::size_t kMostEntries = 4096;  ///< of a path line

/// `KIND/id` or `KIND/system-id`, all of `text`.
std::optional<GraphNode> parse_node(std::string_view text) {
    constexpr std::array<std::string_view, 10> kKinds = {"GPU", "PCI", "NVS", "CPU", "NIC",
                                                         "NET", "GIN", "RMA", "DEV", "CXB"};
    const std::size_t slash = text.find('/');
    if (slash == std::string_view::npos) return std::nullopt;
    GraphNode node;
    node.kind = text.substr(0, slash);
    if (std::find(kKinds.begin(), kKinds.end(), node.kind) == kKinds.end()) return std::nullopt;
    text.remove_prefix(slash + 1);
    if (const std::size_t dash = text.find('-'); dash != std::string_view::npos) {
        const auto system = whole_hex(text.substr(0, dash));
        if (!system || *system > 0xffff) return std::nullopt;
        node.system = static_cast<int>(*system);
        text.remove_prefix(dash + 1);
    }
    // A NUMA node of -1 is printed as the unsigned number of 56 bits.
    const auto id = whole_hex(text);
    if (!id) return std::nullopt;
    node.id = *id;
    return node;
}

GraphEvent parse_header(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("=== System : ")) return {};
    if (!cursor.skip("maxBw ") && !cursor.skip("maxWidth ")) return {};
    if (!cursor.real()) return {};
    return SystemHeader{};
}

GraphEvent parse_tree_line(std::string_view message) {
    TreeLine line;
    Cursor cursor(message);
    cursor.skip_blanks();
    line.indent = message.size() - cursor.rest().size();
    if (cursor.skip("+ ")) {
        const auto link = cursor.until("[");
        if (!link || link->size() > 4) return {};
        line.link = *link;
        const auto bandwidth = cursor.real();
        if (!bandwidth || !cursor.skip("] - ")) return {};
        line.gbytes_per_s = *bandwidth;
    }
    const auto node = parse_node(cursor.word());
    if (!node || (line.link.empty() && node->kind != "CPU")) return {};
    line.node = *node;
    cursor.skip_blanks();
    if (cursor.skip("(")) {
        const std::string_view rest = cursor.rest();
        line.detail = rest.substr(0, rest.find(')'));
    }
    return line;
}

/// `TYPE/id (hops/bandwidth/path type)`.
std::optional<PathEntry> parse_entry(Cursor& cursor) {
    PathEntry entry;
    const auto node = parse_node(cursor.word());
    if (!node || !cursor.skip(" (")) return std::nullopt;
    entry.to = *node;
    const auto hops = cursor.number<int>();
    if (!hops || !cursor.skip("/")) return std::nullopt;
    entry.hops = *hops;
    const auto bandwidth = cursor.real();
    if (!bandwidth || !cursor.skip("/")) return std::nullopt;
    entry.gbytes_per_s = *bandwidth;
    const auto type = cursor.until(")");
    if (!type || type->size() > 4) return std::nullopt;
    entry.type = *type;
    return entry;
}

GraphEvent parse_path_line(std::string_view message) {
    Cursor cursor(message);
    const auto name = cursor.until(" :");
    const auto from = name ? parse_node(*name) : std::nullopt;
    if (!from) return {};
    PathLine line{*from, {}, false};
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        const auto entry = line.to.size() < kMostEntries ? parse_entry(cursor) : std::nullopt;
        if (!entry) {
            line.cut = true;
            break;
        }
        line.to.push_back(*entry);
    }
    if (line.to.empty()) return {};  // a channel: " 0 : NET/0 GPU/0 ..." has no distances
    return line;
}

GraphEvent parse_distance(std::string_view message) {
    Cursor cursor(message);
    if (!cursor.skip("GPU Direct RDMA ")) return {};
    GpuDirectDistance event;
    event.enabled = cursor.skip("Enabled");
    if (!event.enabled && !cursor.skip("Disabled")) return {};
    if (!cursor.skip(" for GPU ")) return {};
    const auto gpu = cursor.until(" / HCA ");
    if (!gpu) return {};
    event.gpu = *gpu;
    event.hca = cursor.word();
    if (!cursor.skip(" (distance ")) return {};
    const auto distance = cursor.number<int>();
    if (!distance || (!cursor.skip(" <= ") && !cursor.skip(" > "))) return {};
    if (!cursor.number<int>()) return {};  // NCCL's limit
    event.distance = *distance;
    return event;
}

GraphEvent parse_device(std::string_view message) {
    Cursor cursor(message);
    const auto network = cursor.until(" : GPU Direct RDMA ");
    if (!network) return {};
    GpuDirectDevice event;
    event.network = *network;
    event.enabled = cursor.skip("Enabled");
    if (!event.enabled && !cursor.skip("Disabled")) return {};
    if (!cursor.skip(" for HCA ")) return {};
    const auto number = cursor.number<int>();
    if (!number || *number < 0 || !cursor.skip(" '")) return {};
    const auto name = cursor.until("'");
    if (!name) return {};
    event.number = *number;
    event.name = *name;
    return event;
}

bool is_end(std::string_view message) {
    constexpr std::size_t kShortest = 20;  // NCCL prints 42
    while (message.ends_with(' ')) message.remove_suffix(1);
    return message.size() >= kShortest && message.find_first_not_of('=') == std::string_view::npos;
}

}  // namespace

GraphEvent parse_graph(std::string_view message) {
    if (message.starts_with("===")) {
        if (is_end(message)) return SystemEnd{};
        return parse_header(message);
    }
    if (message.starts_with("GPU Direct RDMA ")) return parse_distance(message);
    if (GraphEvent device = parse_device(message); device.index() != 0) return device;
    if (GraphEvent path = parse_path_line(message); path.index() != 0) return path;
    return parse_tree_line(message);
}

}  // namespace toporun::detect::nccl_log
