#include "detect/gpu/kfd.hpp"

#include <algorithm>
#include <charconv>
#include <map>
#include <optional>
#include <string_view>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::uint64_t kKfdXgmi = 11;       ///< CRAT_IOLINK_TYPE_XGMI
constexpr std::uint64_t kKfdHopWeight = 15;  ///< weight of one xGMI hop; PCIe has 20

constexpr std::size_t kMostProperties = 8192;  ///< bytes; the kernel's files end below a page
constexpr std::size_t kMostEntries = 512;      ///< nodes, and links or banks of one
constexpr std::uint64_t kMostLinksOfPair = 16;

template <class Number>
std::optional<Number> parse_number(std::string_view text) {
    Number number{};
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error != std::errc{} || end != text.data() + text.size()) return std::nullopt;
    return number;
}

/// A file of lines "key number".
class Properties {
  public:
    explicit Properties(std::string_view text) {
        for (const std::string& line : split(text, '\n')) {
            const std::size_t blank = line.find(' ');
            if (blank == std::string::npos) continue;
            const auto value =
                parse_number<std::uint64_t>(std::string_view(line).substr(blank + 1));
            if (value) values_.emplace(line.substr(0, blank), *value);
        }
    }
    std::uint64_t of(const std::string& key) const {
        const auto found = values_.find(key);
        return found == values_.end() ? 0 : found->second;
    }

  private:
    std::map<std::string, std::uint64_t> values_;
};

/// Entries of a directory that are numbers, in numeric order.
std::vector<int> numbered(const Files& files, const std::string& directory) {
    std::vector<int> numbers;
    for (const std::string& name : files.list(directory))
        if (const auto number = parse_number<int>(name); number && *number >= 0)
            numbers.push_back(*number);
    std::sort(numbers.begin(), numbers.end());
    if (numbers.size() > kMostEntries) numbers.resize(kMostEntries);
    return numbers;
}

std::optional<Properties> read_properties(const Files& files, const std::string& directory) {
    const auto text = files.read(directory + "/properties", kMostProperties);
    if (!text) return std::nullopt;
    return Properties(*text);
}

std::vector<KfdLink> read_links(const Files& files, const std::string& node) {
    std::vector<KfdLink> links;
    for (const int number : numbered(files, node + "/io_links")) {
        const auto told = read_properties(files, node + "/io_links/" + std::to_string(number));
        if (!told) continue;
        links.push_back({told->of("type"), told->of("node_to"), told->of("weight"),
                         told->of("min_bandwidth"), told->of("max_bandwidth")});
    }
    return links;
}

/// Banks of kind 1 (visible to the CPU) and 2 (not visible) are the GPU's own memory.
std::uint64_t read_memory(const Files& files, const std::string& node) {
    std::uint64_t sum = 0;
    for (const int number : numbered(files, node + "/mem_banks")) {
        const auto told = read_properties(files, node + "/mem_banks/" + std::to_string(number));
        if (!told || (told->of("heap_type") != 1 && told->of("heap_type") != 2)) continue;
        const std::uint64_t size = told->of("size_in_bytes");
        if (size < UINT64_MAX / 2 - sum) sum += size;
    }
    return sum;
}

KfdNode read_node(const Files& files, const std::string& directory, const Properties& told) {
    KfdNode node;
    node.simd_count = told.of("simd_count");
    node.gfx_target_version = told.of("gfx_target_version");
    node.unique_id = told.of("unique_id");
    node.render_minor = told.of("drm_render_minor");
    node.device_id = told.of("device_id");
    const std::uint64_t location = told.of("location_id");  // partition, bus, device, function
    node.partition = static_cast<int>(location >> 28 & 0xf);
    node.pci.domain = static_cast<std::uint32_t>(told.of("domain"));
    node.pci.bus = static_cast<std::uint8_t>(location >> 8 & 0xff);
    node.pci.device = static_cast<std::uint8_t>(location >> 3 & 0x1f);
    node.pci.function = static_cast<std::uint8_t>(location & 0x7);
    if (node.simd_count == 0) return node;
    node.memory_bytes = read_memory(files, directory);
    node.links = read_links(files, directory);
    return node;
}

}  // namespace

KfdTopology read_kfd(const Files& files) {
    KfdTopology topology;
    for (const char* root :
         {"/sys/class/kfd/kfd/topology/nodes", "/sys/devices/virtual/kfd/kfd/topology/nodes"}) {
        for (const int number : numbered(files, root)) {
            topology.present = true;
            const std::string directory = std::string(root) + "/" + std::to_string(number);
            if (const auto told = read_properties(files, directory)) {
                topology.nodes.push_back(read_node(files, directory, *told));
                topology.nodes.back().number = number;
            } else {
                ++topology.unreadable;
            }
        }
        if (topology.present) break;
    }
    return topology;
}

int xgmi_links(const KfdLink& link) {
    if (link.type != kKfdXgmi || link.weight > kKfdHopWeight) return 0;
    const std::uint64_t one = link.least_mbytes_per_s;
    if (one == 0 || link.most_mbytes_per_s % one != 0) return 1;
    return static_cast<int>(
        std::clamp<std::uint64_t>(link.most_mbytes_per_s / one, 1, kMostLinksOfPair));
}

}  // namespace toporun::detect
