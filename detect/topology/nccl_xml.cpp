#include "detect/topology/nccl_xml.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <pugixml.hpp>
#include <utility>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/pci/pcie_link.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned kNvidia = 0x10de;
constexpr unsigned kAmd = 0x1002;
/// More of a kind than any node has; NCCL's own limit is 576 nodes of a kind, 256 elements (2.8).
constexpr std::size_t kMostDevices = 256;
constexpr std::size_t kMostSwitches = 1024;
constexpr int kMostPus = 65536;

/// Reads one `<system>` into the result.
class SystemReader {
  public:
    SystemReader(std::string_view text, std::size_t offset,
                 const std::function<std::string(std::size_t)>& place, TopologyXml& result)
        : text_(text), offset_(offset), place_(place), result_(result) {}

    void read() {
        pugi::xml_document document;
        const pugi::xml_parse_result parsed =
            document.load_buffer(text_.data(), text_.size(), pugi::parse_default);
        if (!parsed) {
            const std::string where =
                at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(parsed.offset, 0)));
            if (!document.child("system").first_child())
                throw Error(fmt::format("no topology can be read: {}", parsed.description()), where,
                            "a whole file as NCCL_TOPO_DUMP_FILE writes it is expected");
            result_.notes.push_back(
                fmt::format("{}: the XML ends early or is damaged ({}): what stands before is used",
                            where, parsed.description()));
        }
        for (const pugi::xml_node cpu : document.child("system").children("cpu")) read_cpu(cpu);
        if (own_links_.size() == 1)
            result_.notes.push_back(
                fmt::format("{}: a link of GPU {} leads to that GPU itself: a fault of the file, "
                            "NCCL gets no path from it",
                            own_link_place_, own_links_.front()));
        else if (!own_links_.empty())
            result_.notes.push_back(fmt::format(
                "{}: links of {} GPUs lead to that GPU itself ({}): a fault of the file, NCCL gets "
                "no path from them",
                own_link_place_, own_links_.size(), join(own_links_, ", ")));
    }

  private:
    std::string at(std::size_t byte) const { return place_(offset_ + byte); }

    std::string at(const pugi::xml_node& node) const {
        return at(static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0)));
    }

    /// The place of an attribute's value; pugixml knows only that of the element.
    std::string at(const pugi::xml_node& node, const char* attribute) const {
        const auto start =
            static_cast<std::size_t>(std::max<std::ptrdiff_t>(node.offset_debug(), 0));
        const std::string_view tag = text_.substr(start, text_.find('>', start) - start);
        const std::size_t found = tag.find(fmt::format(" {}=", attribute));
        if (found == std::string_view::npos) return at(start);
        return at(start + found + std::string_view(attribute).size() + 3);
    }

    [[noreturn]] void fail(const pugi::xml_node& node, const char* attribute,
                           const std::string& expected) const {
        throw Error(fmt::format("{} of <{}> must be {}, found '{}'", attribute, node.name(),
                                expected, printable(node.attribute(attribute).value())),
                    at(node, attribute));
    }

    /// A whole number: decimal, or hexadecimal after 0x. Nothing when the attribute is missing or
    /// empty; Error when it is none or outside of the bounds.
    std::optional<long long> number(const pugi::xml_node& node, const char* attribute,
                                    long long least, long long most) const {
        const std::string_view value = trim(node.attribute(attribute).value());
        if (value.empty()) return std::nullopt;
        const bool hex = value.starts_with("0x") || value.starts_with("0X");
        long long result = 0;
        const char* first = value.data() + (hex ? 2 : 0);
        const char* end = value.data() + value.size();
        const auto [last, error] = std::from_chars(first, end, result, hex ? 16 : 10);
        if (error != std::errc{} || last != end || result < least || result > most)
            fail(node, attribute, fmt::format("a number from {} to {}", least, most));
        return result;
    }

    std::optional<int> small(const pugi::xml_node& node, const char* attribute, int least,
                             int most) const {
        const auto value = number(node, attribute, least, most);
        return value ? std::optional(static_cast<int>(*value)) : std::nullopt;
    }

    unsigned id(const pugi::xml_node& node, const char* attribute) const {
        return static_cast<unsigned>(number(node, attribute, 0, 0xffff).value_or(0));
    }

    PciIds ids(const pugi::xml_node& pci) const {
        return {id(pci, "vendor"), id(pci, "device"), id(pci, "subsystem_vendor"),
                id(pci, "subsystem_device")};
    }

    PciAddress address(const pugi::xml_node& node, const char* attribute) const {
        const auto parsed = PciAddress::parse(node.attribute(attribute).value());
        if (!parsed) fail(node, attribute, "a PCI address such as 0000:18:00.0");
        return *parsed;
    }

    /// The words of a bit mask in the form of sysfs: "00000000,0000ffff".
    CpuSet affinity(const pugi::xml_node& cpu) const {
        const std::string_view mask = trim(cpu.attribute("affinity").value());
        std::vector<int> pus;
        int pu = 0;
        for (std::size_t i = mask.size(); i-- > 0 && pu < kMostPus;) {
            if (mask[i] == ',') {
                pu = (pu + 31) / 32 * 32;  // a word is 32 PUs, however it is written
                continue;
            }
            unsigned digit = 0;
            const auto [last, error] = std::from_chars(&mask[i], &mask[i] + 1, digit, 16);
            if (error != std::errc{}) fail(cpu, "affinity", "a mask of hexadecimal words");
            for (unsigned bit = 0; bit < 4; ++bit)
                if ((digit >> bit & 1u) != 0) pus.push_back(pu + static_cast<int>(bit));
            pu += 4;
        }
        return CpuSet(std::move(pus));
    }

    void read_cpu(const pugi::xml_node& element) {
        TreeCpu cpu;
        cpu.host = element.attribute("host_hash").value();
        if (!result_.tree.cpus.empty() && cpu.host != result_.tree.cpus.front().host) {
            note_once("the file tells of several hosts: only the first is read");
            return;
        }
        cpu.numa_node = small(element, "numaid", -1, 65535).value_or(-1);
        cpu.architecture = element.attribute("arch").value();
        cpu.vendor = element.attribute("vendor").value();
        cpu.family = small(element, "familyid", 0, 65535).value_or(0);
        cpu.model = small(element, "modelid", 0, 65535).value_or(0);
        const auto known =
            std::find_if(result_.tree.cpus.begin(), result_.tree.cpus.end(),
                         [&](const TreeCpu& other) { return other.numa_node == cpu.numa_node; });
        const TreeParent parent{static_cast<std::size_t>(known - result_.tree.cpus.begin()), {}};
        if (known == result_.tree.cpus.end()) {
            if (result_.tree.cpus.size() == kMostDevices) too_many(element);
            result_.tree.cpus.push_back(std::move(cpu));
            result_.affinities.push_back(affinity(element));
        }
        read_children(element, parent);
    }

    void read_children(const pugi::xml_node& element, const TreeParent& parent) {
        for (const pugi::xml_node child : element.children()) {
            const std::string_view name = child.name();
            if (name == "pci")
                read_pci(child, parent);
            else if (name == "nic")
                read_adapter(child, child, parent);
        }
    }

    /// The two upper bytes of a class as it is written: 0x030200, 0x03.
    unsigned pci_class(const pugi::xml_node& pci) const {
        const auto value = number(pci, "class", 0, 0xffffff);
        if (!value) return 0;
        const bool short_form = trim(pci.attribute("class").value()).size() <= 4;
        return static_cast<unsigned>(short_form ? *value << 8 : *value >> 8);
    }

    void read_pci(const pugi::xml_node& pci, const TreeParent& parent) {
        const unsigned kind = pci_class(pci);
        const bool has_devices = pci.child("pci") != nullptr;
        const bool display = kind >> 8 == 0x03 || kind == 0x1200;
        if (pci.child("gpu") || (display && !pci.child("nic") && !has_devices && may_be_gpu(pci)))
            read_gpu(pci, parent);
        else if (pci.child("nic") || (kind >> 8 == 0x02 && !has_devices))
            read_adapter(pci, pci.child("nic"), parent);
        else
            read_switch(pci, parent);
    }

    /// Not the graphics of a board's management controller.
    bool may_be_gpu(const pugi::xml_node& pci) const {
        const unsigned vendor = id(pci, "vendor");
        return vendor == 0 || vendor == kNvidia || vendor == kAmd;
    }

    void read_switch(const pugi::xml_node& pci, const TreeParent& parent) {
        if (result_.tree.switches.size() == kMostSwitches) too_many(pci);
        TreeSwitch bridge;
        bridge.address = address(pci, "busid");
        bridge.parent = parent;
        bridge.ids = ids(pci);
        bridge.gbytes_per_s = pcie_gbytes_per_s(generation(pci), width(pci));
        for (const pugi::xml_node link : pci.children("pcilink"))
            bridge.peers.push_back(address(link, "target"));
        result_.tree.switches.push_back(std::move(bridge));
        read_children(pci, {parent.cpu, result_.tree.switches.size() - 1});
    }

    static std::optional<int> generation(const pugi::xml_node& pci) {
        return pcie_generation_of(pci.attribute("link_speed").value());
    }

    std::optional<int> width(const pugi::xml_node& pci) const {
        const auto lanes = small(pci, "link_width", 0, 255);  // 255: sysfs' word for unknown
        return lanes && *lanes >= 1 && *lanes <= 32 ? lanes : std::nullopt;
    }

    void read_gpu(const pugi::xml_node& pci, const TreeParent& parent) {
        const pugi::xml_node element = pci.child("gpu");
        TreeGpu gpu;
        gpu.address = address(pci, "busid");
        const bool again = std::any_of(result_.tree.gpus.begin(), result_.tree.gpus.end(),
                                       [&](const TreeGpu& g) { return g.address == gpu.address; });
        if (again || element.next_sibling("gpu"))
            note_once(fmt::format("GPU {} stands in the file more than once: the first is used",
                                  gpu.address.text()));
        if (again) return;
        if (result_.tree.gpus.size() == kMostDevices) too_many(pci);
        gpu.parent = parent;
        XmlGpu facts;
        facts.ids = ids(pci);
        facts.generation = generation(pci);
        facts.width = width(pci);
        gpu.gbytes_per_s = pcie_gbytes_per_s(facts.generation, facts.width);
        facts.described = static_cast<bool>(element);
        facts.index = small(element, "dev", 0, 65535);
        facts.architecture = amd_architecture(element);
        gpu.gpu_direct = small(element, "gdr", -1, 255).value_or(1) != 0;
        facts.vendor = vendor(pci, facts);
        // RCCL writes the number of compute units where NCCL writes the capability.
        const auto sm = number(element, "sm", 0, 100000);
        if (facts.vendor != "amd" && sm && *sm >= 30 && *sm < 1000)
            gpu.compute_capability = static_cast<int>(*sm);
        if (facts.vendor == "amd")
            gpu.amd_architecture = facts.architecture.empty() ? "gfx" : facts.architecture;
        gpu.index = facts.index.value_or(static_cast<int>(result_.tree.gpus.size()));
        read_links(element, gpu);
        result_.tree.gpus.push_back(std::move(gpu));
        result_.gpus.push_back(std::move(facts));
    }

    /// "gfx942", or "942" in files of older releases (also decimal: 910 is gfx90a).
    static std::string amd_architecture(const pugi::xml_node& gpu) {
        const std::string_view gcn = trim(gpu.attribute("gcn").value());
        if (gcn.empty() || gcn.starts_with("gfx")) return printable(gcn.substr(0, gcn.find(':')));
        return gcn == "910" ? "gfx90a" : "gfx" + printable(gcn);
    }

    static std::string vendor(const pugi::xml_node& pci, const XmlGpu& facts) {
        if (facts.ids.vendor == kNvidia) return "nvidia";
        if (facts.ids.vendor == kAmd || !facts.architecture.empty()) return "amd";
        const pugi::xml_node gpu = pci.child("gpu");
        if (gpu.child("xgmi")) return "amd";
        // No AMD accelerator is a "3D controller": they are 0x0300, 0x0380 or 0x1200.
        const std::string_view kind = trim(pci.attribute("class").value());
        return kind.starts_with("0x0302") || gpu.child("nvlink") ? "nvidia" : "";
    }

    void read_links(const pugi::xml_node& element, TreeGpu& gpu) {
        for (const pugi::xml_node link : element.children()) {
            const std::string_view name = link.name();
            if (name == "c2c") {
                // MB/s of one link
                const auto bandwidth = number(link, "bw", 0, 10'000'000).value_or(0);
                const auto count = number(link, "count", 0, 256).value_or(1);
                gpu.c2c_gbytes_per_s += static_cast<double>(bandwidth * count) / 1000;
            } else if (name == "nvlink" || name == "xgmi") {
                read_link(link, gpu);
            }
        }
    }

    void read_link(const pugi::xml_node& link, TreeGpu& gpu) {
        TreeNvLink entry;
        entry.count = small(link, "count", 0, 256).value_or(1);
        const std::string_view target_class = trim(link.attribute("tclass").value());
        if (target_class.starts_with("0x068001")) {
            entry.target = LinkTarget::cpu;
        } else if (target_class.starts_with("0x03") || target_class.starts_with("0x12")) {
            entry.target = LinkTarget::gpu;
            entry.address = address(link, "target");
        } else if (!target_class.empty() && !target_class.starts_with("0x068000")) {
            fail(link, "tclass", "the PCI class of a GPU, a switch or a CPU");
        }
        if (entry.target == LinkTarget::gpu && entry.address == gpu.address) {
            if (own_links_.empty()) own_link_place_ = at(link, "target");
            own_links_.push_back(gpu.address.text());
            return;
        }
        if (entry.count > 0) gpu.links.push_back(entry);
    }

    void read_adapter(const pugi::xml_node& pci, const pugi::xml_node& nic,
                      const TreeParent& parent) {
        if (result_.tree.adapters.size() == kMostDevices) too_many(pci);
        TreeAdapter adapter;
        XmlAdapter facts;
        adapter.parent = parent;
        if (std::string_view(pci.name()) == "pci") {
            adapter.address = address(pci, "busid");
            facts.pci_class = pci_class(pci);
            facts.ids = ids(pci);
            facts.generation = generation(pci);
            facts.width = width(pci);
            adapter.gbytes_per_s = pcie_gbytes_per_s(facts.generation, facts.width);
        } else {
            adapter.gbytes_per_s = 5000;  // a virtual one: no link limits it
        }
        for (const pugi::xml_node net : nic.children("net")) read_net(net, adapter, facts);
        if (facts.nets.empty()) {
            if (!adapter.address) return;  // an empty element says nothing
            adapter.nets.push_back({"", kDefaultNet, false, true});
        }
        result_.tree.adapters.push_back(std::move(adapter));
        result_.adapters.push_back(std::move(facts));
    }

    void read_net(const pugi::xml_node& element, TreeAdapter& adapter, XmlAdapter& facts) {
        if (adapter.nets.size() == kMostDevices) too_many(element);
        XmlNet net;
        net.name = element.attribute("name").value();
        net.port = small(element, "port", -1, 65535);
        net.guid = element.attribute("guid").value();
        const auto megabits = number(element, "speed", -1, 1'000'000'000);
        if (megabits && *megabits > 0) net.speed_gbits = static_cast<double>(*megabits) / 1000;
        const bool used = net.port.value_or(1) > 0;  // NET/Socket has no port and no GPUDirect
        const double speed = net.speed_gbits ? *net.speed_gbits / 8 : kDefaultNet;
        const bool gpu_direct = small(element, "gdr", -1, 255).value_or(1) != 0;
        adapter.nets.push_back({net.name, speed, used, gpu_direct});
        facts.nets.push_back(std::move(net));
    }

    [[noreturn]] void too_many(const pugi::xml_node& element) const {
        throw Error(fmt::format("more <{}> elements than a node can have", element.name()),
                    at(element));
    }

    void note_once(const std::string& text) {
        if (std::find(result_.notes.begin(), result_.notes.end(), text) == result_.notes.end())
            result_.notes.push_back(text);
    }

    static constexpr double kDefaultNet = 1.25;  ///< GB/s where the file has no speed, as NCCL

    std::vector<std::string> own_links_;  ///< GPUs whose links lead to themselves
    std::string own_link_place_;          ///< of the first one
    std::string_view text_;
    std::size_t offset_;
    const std::function<std::string(std::size_t)>& place_;
    TopologyXml& result_;
};

}  // namespace

std::vector<std::pair<std::size_t, std::size_t>> find_system_elements(std::string_view text) {
    constexpr std::string_view kStart = "<system";
    constexpr std::string_view kEnd = "</system>";
    constexpr std::size_t kMostSystems = 64;  // more is no report of a machine
    std::vector<std::pair<std::size_t, std::size_t>> found;
    for (std::size_t at = text.find(kStart); at != std::string_view::npos;) {
        const std::size_t after = at + kStart.size();
        if (after < text.size() &&
            std::string_view(" \t\r\n>").find(text[after]) == std::string_view::npos) {
            at = text.find(kStart, after);  // <systemd and the like
            continue;
        }
        // A piece that was cut ends where the next one starts.
        const std::size_t next = std::min(text.find(kStart, after), text.size());
        const std::size_t end = text.substr(after, next - after).find(kEnd);
        const std::size_t stop = end == std::string_view::npos ? next : after + end + kEnd.size();
        found.emplace_back(at, stop - at);
        if (found.size() == kMostSystems) break;
        at = text.find(kStart, after);
    }
    return found;
}

TopologyXml read_topology_xml(std::string_view text,
                              const std::function<std::string(std::size_t)>& place) {
    std::optional<TopologyXml> chosen;
    std::optional<Error> fault;
    std::vector<std::size_t> others;
    for (const auto& [start, length] : find_system_elements(text)) {
        const bool complete = chosen && !(chosen->gpus.empty() && chosen->adapters.empty());
        if (complete) {
            others.push_back(start);
            continue;
        }
        TopologyXml topology;
        try {
            SystemReader(text.substr(start, length), start, place, topology).read();
        } catch (const Error& error) {
            if (!fault) fault = error;
            continue;
        }
        if (chosen && topology.gpus.empty() && topology.adapters.empty()) continue;
        chosen = std::move(topology);
    }
    if (!chosen && fault) throw *fault;
    TopologyXml result = chosen.value_or(TopologyXml{});
    if (fault) result.notes.push_back(fmt::format("{}: {}", fault->where(), fault->what()));
    if (!others.empty())
        result.notes.push_back(
            fmt::format("{}: another topology begins, {} more in all: only the first is read",
                        place(others.front()), others.size()));
    return result;
}

}  // namespace toporun::detect
