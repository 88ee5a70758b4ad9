#include "detect/import/hwloc_document.hpp"

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <string_view>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostTopologyText = std::size_t{16} << 20;  ///< of lstopo on 2048 PUs: 4 MB
constexpr int kMostTopologyDepth = 128;
constexpr std::size_t kMostHwlocObjects = 200'000;
constexpr std::size_t kMostBitmapWords = 2048;  ///< of a bitmap: 65536 bits
constexpr std::size_t kMostDistances = std::size_t{1} << 20;

/// The lines of the topology as one text, and the way back from an offset to a place.
struct TopologyText {
    std::string text;
    std::vector<std::size_t> starts;  ///< offset of each line
    std::size_t first_line = 0;
    bool closed = false;  ///< holds </topology>
};

bool starts_topology(std::string_view line) {
    constexpr std::string_view tag = "<topology";
    const std::size_t at = line.find(tag);
    if (at == std::string_view::npos) return false;
    const std::string_view rest = line.substr(at + tag.size());
    return rest.empty() || rest.front() == '>' || rest.front() == ' ' || rest.front() == '\t';
}

TopologyText take_topology_text(const Lines& lines, std::size_t first) {
    TopologyText excerpt;
    excerpt.first_line = first;
    for (std::size_t i = first; i < lines.lines.size() && !excerpt.closed; ++i) {
        const PastedLine& line = lines.lines[i];
        excerpt.starts.push_back(excerpt.text.size());
        const std::size_t skipped = i == first ? line.text.find("<topology") : 0;
        excerpt.text += std::string(skipped, ' ') + line.text.substr(skipped) + '\n';
        const std::size_t end = excerpt.text.find("</topology>", excerpt.starts.back());
        excerpt.closed = end != std::string::npos;
        if (excerpt.closed) excerpt.text.resize(end + std::string_view("</topology>").size());
        if (excerpt.text.size() > kMostTopologyText)
            throw lines.error(line, 0, "the topology is larger than 16 MiB");
    }
    return excerpt;
}

Error topology_error(const Lines& lines, const TopologyText& excerpt, std::size_t offset,
                     const std::string& what, const std::string& hint) {
    const auto after = std::upper_bound(excerpt.starts.begin(), excerpt.starts.end(), offset);
    const std::size_t row = static_cast<std::size_t>(after - excerpt.starts.begin()) - 1;
    return lines.error(lines.lines[excerpt.first_line + row], offset - excerpt.starts[row], what,
                       hint);
}

std::optional<std::uint64_t> to_unsigned(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

/// An index: hwloc writes 4294967295 for "unknown".
std::optional<int> to_index(std::string_view text) {
    const auto value = to_unsigned(text);
    if (!value || *value > INT32_MAX) return std::nullopt;
    return static_cast<int>(*value);
}

std::string attribute_text(const pugi::xml_node& node, const char* name) {
    return printable(trim(node.attribute(name).value()));
}

OsDeviceKind kind_by_name(std::string_view name) {
    for (const std::string_view gpu : {"nvml", "cuda", "rsmi", "opencl", "card", "renderD", "ze"})
        if (name.starts_with(gpu)) return OsDeviceKind::gpu;
    return OsDeviceKind::other;
}

/// hwloc 2: include/hwloc.h, hwloc_obj_osdev_type_e (1 GPU, 2 network, 3 OpenFabrics, 5
/// co-processor); hwloc 3: bits 2 GPU, 3 co-processor, 4 network, 5 OpenFabrics.
OsDeviceKind os_device_kind(std::string_view number, int version, std::string_view name) {
    const auto value = to_unsigned(number);
    if (!value) return kind_by_name(name);
    if (version >= 3) {
        if ((*value & 0x20u) != 0) return OsDeviceKind::open_fabrics;
        if ((*value & 0x10u) != 0) return OsDeviceKind::network;
        return (*value & 0x0cu) != 0 ? OsDeviceKind::gpu : OsDeviceKind::other;
    }
    switch (*value) {
        case 1:
        case 5:
            return OsDeviceKind::gpu;
        case 2:
            return OsDeviceKind::network;
        case 3:
            return OsDeviceKind::open_fabrics;
        default:
            return OsDeviceKind::other;
    }
}

HwlocObject read_hwloc_object(const pugi::xml_node& node, int version, std::size_t parent) {
    HwlocObject object;
    object.type = attribute_text(node, "type");
    object.parent = parent;
    object.name = attribute_text(node, "name");
    object.subtype = attribute_text(node, "subtype");
    object.os_index = to_index(node.attribute("os_index").value());
    object.gp_index = to_unsigned(node.attribute("gp_index").value());
    object.local_memory = to_unsigned(node.attribute("local_memory").value());
    object.cache_depth = to_index(node.attribute("depth").value());
    object.instruction_cache = std::string_view(node.attribute("cache_type").value()) == "2";
    object.cpuset = node.attribute("cpuset").value();
    object.allowed_cpuset = node.attribute("allowed_cpuset").value();
    object.nodeset = node.attribute("nodeset").value();
    object.pci_busid = attribute_text(node, "pci_busid");
    object.bridge_pci = attribute_text(node, "bridge_pci");
    object.pci_type = attribute_text(node, "pci_type");
    for (const pugi::xml_node& info : node.children("info"))
        object.infos.emplace(attribute_text(info, "name"), attribute_text(info, "value"));
    if (object.subtype.empty()) object.subtype = object.info("CoProcType");
    if (object.type == "OSDev") {
        const char* number = node.attribute("osdev_type").value();
        if (*number == '\0') number = node.attribute("osdev_types").value();
        object.kind = os_device_kind(number, version, object.name);
    }
    return object;
}

template <class Number>
void append_unsigned(std::string_view text, std::vector<Number>& numbers) {
    for (const std::string_view word : words(text)) {
        const auto value = to_unsigned(word);
        if (!value || numbers.size() == kMostDistances) return;
        numbers.push_back(static_cast<Number>(*value));
    }
}

/// 2.x and 3.0: <distances2> over one type, <distances2hetero> with "OSDev:802" for a row.
HwlocDistances read_distances(const pugi::xml_node& node) {
    HwlocDistances distances;
    distances.name = attribute_text(node, "name");
    distances.by_os_index = std::string_view(node.attribute("indexing").value()) == "os";
    const std::string type = attribute_text(node, "type");
    for (const pugi::xml_node& part : node.children("indexes")) {
        for (const std::string_view word : words(part.child_value())) {
            const std::size_t colon = word.find(':');
            const bool typed = colon != std::string_view::npos;
            const auto index = to_unsigned(typed ? word.substr(colon + 1) : word);
            if (!index || distances.objects.size() == kMostDistances) break;
            distances.objects.emplace_back(typed ? std::string(word.substr(0, colon)) : type,
                                           *index);
        }
    }
    for (const pugi::xml_node& part : node.children("u64values"))
        append_unsigned(part.child_value(), distances.values);
    return distances;
}

/// 1.x: factors of the latency base, for the NUMA nodes as they are numbered in the file.
HwlocDistances read_latencies(const pugi::xml_node& node) {
    HwlocDistances distances;
    distances.name = "NUMALatency";
    const double base = node.attribute("latency_base").as_double();
    for (const pugi::xml_node& latency : node.children("latency")) {
        const double value = latency.attribute("value").as_double() * base;
        if (!(value >= 0 && value <= 1e9) || distances.values.size() == kMostDistances) break;
        distances.values.push_back(static_cast<std::uint64_t>(value + 0.5));
    }
    return distances;
}

/// Collects what lies below the root, without recursion: a hostile file can be deep.
class HwlocWalk {
  public:
    HwlocWalk(const Lines& lines, const TopologyText& excerpt, HwlocDocument& document)
        : lines_(lines), excerpt_(excerpt), document_(document) {}

    void run(const pugi::xml_node& topology) {
        std::vector<std::pair<pugi::xml_node, std::size_t>> stack = {
            {topology.first_child(), kNoParent}};
        while (!stack.empty()) {
            const auto [node, parent] = stack.back();
            stack.pop_back();
            if (!node) continue;
            stack.emplace_back(node.next_sibling(), parent);
            const std::string_view name = node.name();
            if (name == "object") {
                check(node, stack.size());
                document_.objects.push_back(read_hwloc_object(node, document_.version, parent));
                stack.emplace_back(node.first_child(), document_.objects.size() - 1);
            } else if (name == "distances2" || name == "distances2hetero") {
                document_.distances.push_back(read_distances(node));
            } else if (name == "distances") {
                document_.distances.push_back(read_latencies(node));
            }
        }
        for (const pugi::xml_node& info : topology.children("info"))
            document_.infos.emplace(attribute_text(info, "name"), attribute_text(info, "value"));
    }

  private:
    void check(const pugi::xml_node& node, std::size_t depth) const {
        const auto at = static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
        if (depth > kMostTopologyDepth)
            throw topology_error(lines_, excerpt_, at, "more than 128 objects inside each other",
                                 {});
        if (document_.objects.size() == kMostHwlocObjects)
            throw topology_error(lines_, excerpt_, at, "more than 200000 objects", {});
    }

    const Lines& lines_;
    const TopologyText& excerpt_;
    HwlocDocument& document_;
};

/// 1.x has no version, or "1.0" since hwloc 2 can write it.
int major_version(const pugi::xml_node& topology) {
    const std::string_view version = topology.attribute("version").value();
    if (version.empty()) return 1;
    return to_index(version.substr(0, version.find('.'))).value_or(2);
}

}  // namespace

std::string HwlocObject::info(const std::string& key) const {
    const auto found = infos.find(key);
    return found == infos.end() ? std::string() : found->second;
}

std::optional<std::size_t> find_hwloc_topology(const Lines& lines) {
    for (std::size_t i = 0; i < lines.lines.size(); ++i) {
        if (!starts_topology(lines.lines[i].text)) continue;
        // Another program's <topology> holds no such objects.
        const std::size_t end = std::min(lines.lines.size(), i + 16);
        for (std::size_t next = i; next < end; ++next)
            if (lines.lines[next].text.find("<object type=\"") != std::string::npos) return i;
    }
    return std::nullopt;
}

HwlocDocument read_hwloc_document(const Lines& lines) {
    const auto first = find_hwloc_topology(lines);
    if (!first) throw Error("no <topology> of hwloc in the text", lines.file);
    TopologyText excerpt = take_topology_text(lines, *first);
    if (!excerpt.closed)  // what is left of a tag at the end would be a syntax fault
        excerpt.text.resize(excerpt.text.rfind('>') + 1);
    pugi::xml_document xml;
    const pugi::xml_parse_result result =
        xml.load_buffer(excerpt.text.data(), excerpt.text.size(),
                        pugi::parse_default | pugi::parse_fragment, pugi::encoding_utf8);
    HwlocDocument document;
    document.cut = !excerpt.closed;
    document.first_line = *first;
    document.end_line = *first + excerpt.starts.size();
    // A cut text ends with open elements, which is the one fault allowed, and only at its end.
    const bool open_at_end = document.cut && result.status == pugi::status_end_element_mismatch &&
                             static_cast<std::size_t>(result.offset) + 1 >= excerpt.text.size();
    if (!result && !open_at_end)
        throw topology_error(lines, excerpt,
                             static_cast<std::size_t>(std::max<std::ptrdiff_t>(result.offset, 0)),
                             std::string("not well-formed XML: ") + result.description(),
                             "save the topology again: lstopo --of xml FILE");
    const pugi::xml_node topology = xml.child("topology");
    document.version = major_version(topology);
    if (document.version > 3)
        throw topology_error(
            lines, excerpt, 0,
            "hwloc XML of version " + attribute_text(topology, "version") + " is not known",
            "versions 1 to 3 are read: lstopo --of xml --export-xml-flags v2 FILE");
    HwlocWalk(lines, excerpt, document).run(topology);
    if (document.objects.empty())
        throw topology_error(lines, excerpt, 0, "the topology holds no objects",
                             "save it again: lstopo --of xml FILE");
    return document;
}

std::optional<CpuSet> read_bitmap(std::string_view text) {
    const std::vector<std::string> parts = split(text, ',');
    // taskset's form: one word of any length.
    const bool one = parts.size() == 1;
    if (parts.size() > kMostBitmapWords || (one && text.size() > kMostBitmapWords * 8 + 2))
        return std::nullopt;
    std::vector<int> indices;
    for (std::size_t i = 0; i < parts.size(); ++i) {
        std::string_view digits = parts[parts.size() - 1 - i];
        if (digits.starts_with("0x") || digits.starts_with("0X"))
            digits.remove_prefix(2);
        else if (!digits.empty())
            return std::nullopt;
        if (!one && digits.size() > 8) return std::nullopt;
        for (std::size_t at = 0; at < digits.size(); ++at) {
            const char digit = digits[digits.size() - 1 - at];
            unsigned value = 0;
            if (std::from_chars(&digit, &digit + 1, value, 16).ec != std::errc())
                return std::nullopt;
            for (unsigned bit = 0; bit < 4; ++bit)
                if ((value >> bit & 1u) != 0)
                    indices.push_back(static_cast<int>(i * 32 + at * 4 + bit));
        }
    }
    return CpuSet(std::move(indices));
}

}  // namespace toporun::detect
