#include <fmt/format.h>

#include "base/text.hpp"
#include "launcher/report/machine_graph.hpp"
#include "launcher/report/machine_layout.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view.hpp"

/// The topology for Graphviz. Names of nodes are made here, text of the machine is in labels only.
namespace toporun::launcher {
namespace {

using detect::Machine;

/// A DOT string: what a terminal could act on is spelled out first, then quotes and backslashes are
/// escaped. `lines` become lines of the label.
std::string quoted(const std::vector<std::string>& lines) {
    std::string out = "\"";
    for (std::size_t i = 0; i < lines.size(); ++i) {
        if (lines[i].empty()) continue;
        if (out.size() > 1) out += "\\n";
        for (const char c : printable(lines[i])) {
            if (c == '"' || c == '\\') out += '\\';
            out += c;
        }
    }
    return out + '"';
}

std::string pcie_words(const std::optional<int>& generation, const std::optional<int>& width) {
    if (!generation || !width) return {};
    return fmt::format("Gen{} x{}", *generation, *width);
}

/// Writes the graph line by line and knows how deep it is.
class Writer {
  public:
    void line(std::string_view text) {
        out_ += std::string(depth_ * 2, ' ');
        out_ += text;
        out_ += '\n';
    }
    void open(std::string_view text) {
        line(fmt::format("{} {{", text));
        ++depth_;
    }
    void close() {
        --depth_;
        line("}");
    }
    void node(std::string_view name, const std::vector<std::string>& lines,
              std::string_view attributes) {
        line(fmt::format("{} [label={}, {}];", name, quoted(lines), attributes));
    }
    void edge(std::string_view a, std::string_view b, const std::vector<std::string>& lines,
              std::string_view attributes = "") {
        line(fmt::format("{} -- {} [label={}{}{}];", a, b, quoted(lines),
                         attributes.empty() ? "" : ", ", attributes));
    }
    const std::string& text() const { return out_; }

  private:
    std::string out_;
    std::size_t depth_ = 0;
};

constexpr std::string_view kGpuStyle = "shape=box, style=filled, fillcolor=\"#d5e8d4\"";
constexpr std::string_view kNicStyle = "shape=box, style=filled, fillcolor=\"#dae8fc\"";
constexpr std::string_view kSwitchStyle = "shape=ellipse";
constexpr std::string_view kCpuStyle = "shape=box, style=\"filled,rounded\", fillcolor=\"#fff2cc\"";
constexpr std::string_view kNvlinkStyle = "penwidth=3, color=\"#5a9e4b\"";

std::string gpu_node(std::size_t position) {
    return fmt::format("gpu{}", position);
}
std::string nic_node(std::size_t position) {
    return fmt::format("nic{}", position);
}
std::string place_node(std::size_t position) {
    return fmt::format("numa{}", position);
}

/// The devices of a group, below its switch if there is one, else below `above` by `path`.
void write_group(Writer& writer, const Machine& machine, const SwitchGroup& group,
                 const std::string& above, std::string_view path, int& switches) {
    std::string parent = above;
    if (group.is_switch()) {
        parent = fmt::format("switch{}", switches++);
        writer.node(parent, {"PCIe switch"}, kSwitchStyle);
        writer.edge(above, parent, {std::string(path)});
        path = "PIX";
    }
    for (const std::size_t position : group.gpus) {
        const detect::Gpu& gpu = machine.gpus[position];
        writer.node(gpu_node(position),
                    {gpu_title(gpu), short_name(gpu), gpu.pci ? gpu.pci->text() : ""}, kGpuStyle);
        writer.edge(parent, gpu_node(position),
                    {std::string(path), pcie_words(gpu.pcie_generation, gpu.pcie_width)});
    }
    for (const std::size_t position : group.nics) {
        const detect::Nic& nic = machine.nics[position];
        const std::string interface =
            nic.rdma_device && nic.name != *nic.rdma_device ? nic.name : "";
        writer.node(nic_node(position), {nic_title(nic), interface, nic_words(nic)}, kNicStyle);
        writer.edge(parent, nic_node(position),
                    {std::string(path), pcie_words(nic.pcie_generation, nic.pcie_width)});
    }
}

void write_place(Writer& writer, const Machine& machine, const Place& place, std::size_t position,
                 int& switches) {
    writer.open(fmt::format("subgraph cluster_{}", place_node(position)));
    writer.line(fmt::format("label={};", quoted({place.title})));
    writer.node(place_node(position), {"CPU"}, kCpuStyle);
    for (const SwitchTree& tree : place.trees) {
        std::string above = place_node(position);
        std::string_view path = "PHB";
        if (tree.groups.size() > 1) {
            above = fmt::format("switch{}", switches++);
            writer.node(above, {"PCIe switches"}, kSwitchStyle);
            writer.edge(place_node(position), above, {"PHB"});
            path = "PXB";
        }
        for (const SwitchGroup& group : tree.groups)
            write_group(writer, machine, group, above, path, switches);
    }
    writer.close();
}

/// Two nodes by an edge, more of them by a common point: NUMA nodes are joined each to each.
void write_between_places(Writer& writer, const std::vector<Place>& places) {
    std::vector<std::string> located;
    for (std::size_t i = 0; i < places.size(); ++i)
        if (places[i].located) located.push_back(place_node(i));
    if (located.size() == 2) writer.edge(located[0], located[1], {"SYS"}, "style=dashed");
    if (located.size() <= 2) return;
    writer.node("between_numa_nodes", {"SYS"}, "shape=plaintext");
    for (const std::string& place : located)
        writer.edge(place, "between_numa_nodes", {}, "style=dashed");
}

void write_links(Writer& writer, const Machine& machine) {
    bool any_switch = false;
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu) {
        const std::string links = switch_links_text(machine, gpu);
        if (links.empty()) continue;
        if (!any_switch)
            writer.node("nvswitch", {"NVSwitch"},
                        "shape=hexagon, style=filled, fillcolor=\"#d5e8d4\"");
        any_switch = true;
        writer.edge(gpu_node(gpu), "nvswitch", {"NVL", links}, kNvlinkStyle);
    }
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b)
            if (linked_directly(machine, a, b))
                writer.edge(gpu_node(a), gpu_node(b), {pair_text(machine, a, b)}, kNvlinkStyle);
}

void write_c2c(Writer& writer, const Machine& machine, const std::vector<Place>& places) {
    for (std::size_t i = 0; i < places.size(); ++i)
        for (const SwitchTree& tree : places[i].trees)
            for (const SwitchGroup& group : tree.groups)
                for (const std::size_t gpu : group.gpus)
                    if (const auto& rate = machine.gpus[gpu].c2c_gbytes_per_s)
                        writer.edge(gpu_node(gpu), place_node(i),
                                    {fmt::format("C2C, {} GB/s", rate_text(*rate))}, kNvlinkStyle);
}

}  // namespace

std::string machine_dot(const Machine& machine) {
    const std::vector<Place> places = layout_of(machine);
    Writer writer;
    writer.open("graph machine");
    writer.line(fmt::format("label={};", quoted({machine.hostname, machine_line(machine)})));
    writer.line("labelloc=t;");
    writer.line("node [fontname=\"sans-serif\", fontsize=11];");
    writer.line("edge [fontname=\"sans-serif\", fontsize=9];");
    int switches = 0;
    for (std::size_t i = 0; i < places.size(); ++i)
        write_place(writer, machine, places[i], i, switches);
    write_between_places(writer, places);
    write_links(writer, machine);
    write_c2c(writer, machine, places);
    writer.close();
    return writer.text();
}

}  // namespace toporun::launcher
