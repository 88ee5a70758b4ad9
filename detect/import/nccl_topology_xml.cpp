#include <fmt/format.h>

#include <algorithm>
#include <numeric>
#include <set>
#include <utility>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/joined_text.hpp"
#include "detect/topology/compute_paths.hpp"
#include "detect/topology/gpu_models.hpp"
#include "detect/topology/nccl_xml.hpp"
#include "detect/topology/tree_links.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned kInfiniBand = 0x0207;  ///< PCI classes of adapters
constexpr unsigned kAmazon = 0x1d0f;

bool holds(const Lines& lines, std::string_view word) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [&](const PastedLine& line) {
        return line.text.find(word) != std::string::npos;
    });
}

bool recognise(const Lines& lines) {
    const bool content = holds(lines, "<cpu") || holds(lines, "<pci") || holds(lines, "</system>");
    return content && !find_system_elements(JoinedText(lines).text()).empty();
}

/// Lines of the elements, and of comments and declarations around them.
std::vector<bool> understood_lines(const Lines& lines, const JoinedText& joined) {
    std::vector<bool> understood(lines.lines.size());
    for (const auto& [start, length] : find_system_elements(joined.text()))
        for (std::size_t i = joined.line_of(start); i <= joined.line_of(start + length - 1); ++i)
            understood[i] = true;
    bool comment = false;
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        const std::string_view text = trim(lines.lines[i].text);
        comment = comment || text.starts_with("<!--");
        if (comment || text.starts_with("<?xml") || text.starts_with("<!DOCTYPE"))
            understood[i] = true;
        if (text.find("-->") != std::string_view::npos) comment = false;
    }
    return understood;
}

/// GPUs in NVML's order: by their number where every one has its own, else by bus id.
void sort_gpus(TopologyXml& xml) {
    std::set<int> numbers;
    for (const XmlGpu& gpu : xml.gpus)
        if (gpu.index) numbers.insert(*gpu.index);
    const bool numbered = numbers.size() == xml.gpus.size();
    std::vector<std::size_t> order(xml.gpus.size());
    std::iota(order.begin(), order.end(), 0u);
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
        if (numbered) return *xml.gpus[a].index < *xml.gpus[b].index;
        return xml.tree.gpus[a].address < xml.tree.gpus[b].address;
    });
    std::vector<TreeGpu> tree_gpus;
    std::vector<XmlGpu> gpus;
    for (const std::size_t i : order) {
        tree_gpus.push_back(std::move(xml.tree.gpus[i]));
        gpus.push_back(std::move(xml.gpus[i]));
        if (!numbered) tree_gpus.back().index = static_cast<int>(gpus.size()) - 1;
    }
    xml.tree.gpus = std::move(tree_gpus);
    xml.gpus = std::move(gpus);
}

std::optional<int> known_node(const TreeCpu& cpu) {
    return cpu.numa_node >= 0 ? std::optional(cpu.numa_node) : std::nullopt;
}

bool is_described(const XmlGpu& gpu) {
    return gpu.described;
}

std::vector<GpuLink> links_of(const TreeGpu& gpu) {
    std::vector<GpuLink> links;
    for (const TreeNvLink& entry : gpu.links)
        for (int i = 0; i < entry.count; ++i) {
            GpuLink link;
            link.link = static_cast<int>(links.size());
            link.active = true;  // NCCL writes only those that are
            const bool to_gpu = entry.target == LinkTarget::gpu;
            if (to_gpu) link.peer = entry.address;
            link.peer_kind = to_gpu                                 ? "gpu"
                             : entry.target == LinkTarget::nvswitch ? "switch"
                                                                    : "cpu";
            links.push_back(std::move(link));
        }
    return links;
}

void take_gpus(const TopologyXml& xml, Machine& machine) {
    machine.gpus_known = !xml.gpus.empty();
    for (std::size_t i = 0; i < xml.gpus.size(); ++i) {
        const TreeGpu& place = xml.tree.gpus[i];
        const XmlGpu& facts = xml.gpus[i];
        Gpu gpu;
        gpu.index = place.index;
        gpu.vendor = facts.vendor;
        gpu.name = gpu_name(facts.ids.vendor, facts.ids.device);
        gpu.pci = place.address;
        gpu.pci_id = pci_id_text(facts.ids.vendor, facts.ids.device);
        gpu.numa_node = known_node(xml.tree.cpus[place.parent.cpu]);
        gpu.cpus = xml.affinities[place.parent.cpu];
        gpu.pcie_generation = facts.generation;
        gpu.pcie_width = facts.width;
        gpu.compute_capability = place.compute_capability;
        gpu.architecture = facts.architecture;
        gpu.links = links_of(place);
        if (place.c2c_gbytes_per_s > 0) gpu.c2c_gbytes_per_s = place.c2c_gbytes_per_s;
        machine.gpus.push_back(std::move(gpu));
    }
}

/// x86 families above 15: NCCL adds the extended family four bits too high (src/graph/xml.cc), so
/// that 143 stands for 23.
int real_family(int family) {
    return family > 31 && (family & 15) == 15 ? 15 + (family >> 4) : family;
}

void take_cpus(const TopologyXml& xml, Machine& machine) {
    for (std::size_t i = 0; i < xml.tree.cpus.size(); ++i) {
        const TreeCpu& cpu = xml.tree.cpus[i];
        if (cpu.numa_node >= 0)
            machine.cpu.numa_nodes.push_back({cpu.numa_node, xml.affinities[i], std::nullopt});
        if (i > 0) continue;
        machine.cpu.vendor = printable(trim(cpu.vendor));
        machine.cpu.architecture =
            cpu.architecture == "arm64" ? "aarch64" : printable(cpu.architecture);
        if (cpu.family > 0) machine.cpu.family = real_family(cpu.family);
        if (cpu.family > 0) machine.cpu.model_number = cpu.model;
    }
    auto& nodes = machine.cpu.numa_nodes;
    std::sort(nodes.begin(), nodes.end(),
              [](const NumaNode& a, const NumaNode& b) { return a.os_index < b.os_index; });
}

/// NCCL's IB and the vendors' networks number ports from 1, NET/Socket writes 0.
bool is_interface(const XmlNet& net) {
    return net.port && *net.port <= 0;
}

NicKind kind_of(const XmlAdapter& adapter, const XmlNet* net) {
    if (net != nullptr && is_interface(*net)) {
        if (const auto kind = kind_of_name(net->name)) return *kind;
        return adapter.pci_class == kInfiniBand ? NicKind::ipoib : NicKind::ethernet;
    }
    if (adapter.pci_class == kInfiniBand) return NicKind::infiniband;
    if (adapter.ids.vendor == kAmazon && (adapter.ids.device & 0xfff0u) == 0xefa0)
        return NicKind::efa;
    if (net == nullptr) return adapter.pci_class == 0x0200 ? NicKind::ethernet : NicKind::other;
    constexpr std::string_view kRoceDevices[] = {"mlx",   "bnxt_re", "rocep",
                                                 "irdma", "qedr",    "hns_"};
    const auto starts = [&](std::string_view word) { return net->name.starts_with(word); };
    return std::any_of(std::begin(kRoceDevices), std::end(kRoceDevices), starts) ? NicKind::roce
                                                                                 : NicKind::other;
}

Nic make_nic(const TopologyXml& xml, std::size_t adapter, const XmlNet* net) {
    const TreeAdapter& place = xml.tree.adapters[adapter];
    const XmlAdapter& facts = xml.adapters[adapter];
    Nic nic;
    nic.kind = kind_of(facts, net);
    nic.state = "unknown";
    nic.pci = place.address;
    nic.pci_id = pci_id_text(facts.ids.vendor, facts.ids.device);
    nic.numa_node = known_node(xml.tree.cpus[place.parent.cpu]);
    nic.pcie_generation = facts.generation;
    nic.pcie_width = facts.width;
    if (net != nullptr) {
        nic.name = printable(net->name);
        nic.speed_gbits = net->speed_gbits;
        if (!is_interface(*net)) {
            nic.rdma_device = nic.name;
            nic.port = net->port;
        }
    }
    if (nic.name.empty() && place.address) nic.name = place.address->text();
    if (nic.name.empty()) nic.name = "?";
    return nic;
}

void take_nics(const TopologyXml& xml, Machine& machine) {
    machine.nics_known = !xml.adapters.empty();
    for (std::size_t i = 0; i < xml.adapters.size(); ++i) {
        for (const XmlNet& net : xml.adapters[i].nets)
            machine.nics.push_back(make_nic(xml, i, &net));
        if (xml.adapters[i].nets.empty()) machine.nics.push_back(make_nic(xml, i, nullptr));
    }
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        machine.nics[i].os_index = static_cast<int>(i);
}

void take_nic_paths(const TreePaths& paths, Machine& machine) {
    if (machine.nics.empty()) return;
    for (const auto& row : paths.nets) {
        std::vector<std::optional<PathType>> types;
        for (const Path& path : row) types.emplace_back(path.type);
        machine.gpu_nic_paths.push_back(std::move(types));
    }
}

/// Links that only one end tells: NCCL does not start with such a file.
void note_one_way_links(const SystemTree& tree, std::vector<std::string>& notes) {
    for (const TreeGpu& gpu : tree.gpus)
        for (const TreeNvLink& link : gpu.links) {
            if (link.target != LinkTarget::gpu) continue;
            const auto peer =
                std::find_if(tree.gpus.begin(), tree.gpus.end(),
                             [&](const TreeGpu& other) { return other.address == link.address; });
            if (peer == tree.gpus.end()) {
                notes.push_back(fmt::format("GPU {} has a link to {}, which is no GPU of the file",
                                            gpu.address.text(), link.address.text()));
                continue;
            }
            const bool back =
                std::any_of(peer->links.begin(), peer->links.end(), [&](const TreeNvLink& other) {
                    return other.target == LinkTarget::gpu && other.address == gpu.address;
                });
            if (!back)
                notes.push_back(
                    fmt::format("GPU {} has a link to {}, which has none back: NCCL "
                                "does not start with such a file",
                                gpu.address.text(), link.address.text()));
        }
}

/// Links of the pairs that the file describes; nothing where it describes no GPU.
void take_gpu_links(const TopologyXml& xml, Machine& machine) {
    if (std::none_of(xml.gpus.begin(), xml.gpus.end(), is_described)) return;
    machine.gpu_links = pair_links(xml.tree);
    for (std::size_t a = 0; a < xml.gpus.size(); ++a)
        for (std::size_t b = 0; b < xml.gpus.size(); ++b)
            if (a != b && !(xml.gpus[a].described && xml.gpus[b].described))
                machine.gpu_links[a][b] = -1;
}

/// The fastest port that can be bought has 1600 Gb/s (2026); a bond or a file's own sum is below.
constexpr double kMostGbits = 12'800;

void note_implausible_speeds(const TopologyXml& xml, std::vector<std::string>& notes) {
    for (const XmlAdapter& adapter : xml.adapters)
        for (const XmlNet& net : adapter.nets)
            if (net.speed_gbits.value_or(0) > kMostGbits) {
                notes.push_back(fmt::format(
                    "the file states {} Gb/s for net '{}', which no adapter has: a fault of the "
                    "file, NCCL would reckon with it",
                    *net.speed_gbits, printable(net.name)));
                return;  // the others of the file have it from the same hand
            }
}

void note_unknown(const TopologyXml& xml, Machine& machine) {
    if (!xml.gpus.empty() && !std::all_of(xml.gpus.begin(), xml.gpus.end(), is_described))
        machine.notes.emplace_back(
            "the file has PCI devices without <gpu> elements: GPUs by their class; whether NVLinks "
            "join them is not in it, paths are those over PCIe");
    machine.notes.emplace_back(
        "NCCL topology XML tells no memory, software, state and addresses of interfaces");
}

/// Throws Error for a file that says nothing of a machine.
void require_content(const TopologyXml& xml, const std::string& where) {
    const bool cpus = std::any_of(xml.affinities.begin(), xml.affinities.end(),
                                  [](const CpuSet& affinity) { return !affinity.empty(); });
    if (xml.tree.cpus.empty() || (xml.gpus.empty() && xml.adapters.empty() && !cpus))
        throw Error(xml.tree.cpus.empty() ? "the topology has no <cpu> element"
                                          : "the topology has no GPU, no adapter and no CPU set",
                    where, "a whole file as NCCL_TOPO_DUMP_FILE writes it is expected");
}

Reading read(const Lines& lines) {
    const JoinedText joined(lines);
    const auto place = [&](std::size_t byte) { return joined.place(byte); };
    TopologyXml xml = read_topology_xml(joined.text(), place);
    require_content(xml, place(find_system_elements(joined.text()).front().first));
    sort_gpus(xml);
    Reading reading;
    Machine& machine = reading.machine;
    machine.notes = std::move(xml.notes);
    take_gpus(xml, machine);
    take_nics(xml, machine);
    take_cpus(xml, machine);
    const TreePaths paths = compute_paths(xml.tree);
    if (!xml.gpus.empty()) {
        take_gpu_paths(paths, machine);
        take_gpu_links(xml, machine);
        machine.nvswitch = has_nvswitch(xml.tree);
        take_nic_paths(paths, machine);
    }
    note_one_way_links(xml.tree, machine.notes);
    note_implausible_speeds(xml, machine.notes);
    if (joined.mended() > 0)
        machine.notes.push_back(fmt::format(
            "{} lines of the XML were broken within a value or a word: put together again",
            joined.mended()));
    note_unknown(xml, machine);
    reading.understood = understood_lines(lines, joined);
    return reading;
}

}  // namespace

Importer nccl_topology_xml_importer() {
    return {"NCCL topology XML", recognise, read};
}

}  // namespace toporun::detect
