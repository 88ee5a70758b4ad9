#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "base/text.hpp"
#include "detect/gpu/gpu_links.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/hwloc_devices.hpp"
#include "detect/import/hwloc_document.hpp"
#include "detect/import/hwloc_processors.hpp"
#include "detect/topology/machine_paths.hpp"

/// XML of `lstopo --of xml` and of programs that link hwloc, versions 1.x to 3.0.
namespace toporun::detect {
namespace {

/// hwloc adds up the links of a pair (hwloc/topology-nvml.c): 25000 MB/s a link, 20000 of the
/// first generation; a fifth-generation link of 50000 shows as more links than a GPU has.
struct HwlocLinkCount {
    int count = 0;
    double gbytes_per_s = 25;
};
HwlocLinkCount nvlinks_of(std::uint64_t megabytes_per_s) {
    if (megabytes_per_s == 0 || megabytes_per_s > 2'000'000) return {};
    const std::uint64_t single = megabytes_per_s % 25000 == 0 ? 25000 : 20000;
    const std::uint64_t links = std::max<std::uint64_t>(megabytes_per_s / single, 1);
    if (links <= kMostDirectLinks)
        return {static_cast<int>(links), static_cast<double>(single) / 1000};
    return {static_cast<int>(std::min<std::uint64_t>(links / 2, kMostDirectLinks)), 50};
}

/// A device in a row of a matrix.
struct LinkPeer {
    std::optional<std::size_t> gpu;  ///< position in Machine::gpus
    bool nvswitch = false;
    std::optional<PciAddress> address;
};

class HwlocLinks {
  public:
    HwlocLinks(const HwlocDocument& document, const HwlocDevices& devices)
        : document_(document), devices_(devices) {
        for (std::size_t i = 0; i < document.objects.size(); ++i)
            if (document.objects[i].gp_index)
                by_gp_index_.emplace(*document.objects[i].gp_index, i);
    }

    /// Fills Gpu::links and gpu_links from the matrices of the file; false when it has none.
    bool fill(Machine& machine) const {
        const HwlocDistances* nvlink = find("NVLinkBandwidth", machine);
        const HwlocDistances* xgmi = find("XGMIBandwidth", machine);
        const HwlocDistances* hops = find("XGMIHops", machine);
        if (nvlink != nullptr)
            read(*nvlink, machine,
                 [](std::uint64_t value, std::size_t) { return nvlinks_of(value); });
        else if (xgmi != nullptr)
            read(*xgmi, machine, [&](std::uint64_t value, std::size_t cell) {
                // The bandwidth stands at every pair of a hive; links are those of one hop.
                const bool direct =
                    hops == nullptr || hops->objects != xgmi->objects || hops->values[cell] == 1;
                return HwlocLinkCount{value > 0 && direct ? 1 : 0, 0};
            });
        else
            return false;
        return true;
    }

  private:
    const HwlocDistances* find(std::string_view name, const Machine& machine) const {
        for (const HwlocDistances& distances : document_.distances) {
            const std::size_t size = distances.objects.size();
            if (distances.name == name && !distances.by_os_index && size > 0 &&
                size <= 4 * std::max<std::size_t>(machine.gpus.size(), 16) &&
                distances.values.size() == size * size)
                return &distances;
        }
        return nullptr;
    }

    LinkPeer peer_of(std::uint64_t gp_index) const {
        LinkPeer peer;
        const auto found = by_gp_index_.find(gp_index);
        if (found == by_gp_index_.end()) return peer;
        const std::size_t pci = hwloc_ancestor(document_, found->second, "PCIDev");
        const std::size_t object = pci == kNoParent ? found->second : pci;
        const auto& gpus = devices_.gpu_objects;
        const auto gpu = std::find(gpus.begin(), gpus.end(), object);
        if (gpu != gpus.end()) peer.gpu = static_cast<std::size_t>(gpu - gpus.begin());
        peer.nvswitch = document_.objects[object].subtype == "NVSwitch";
        peer.address = PciAddress::parse(document_.objects[object].pci_busid);
        return peer;
    }

    template <class Count>
    void read(const HwlocDistances& distances, Machine& machine, Count count) const {
        std::vector<LinkPeer> peers;
        for (const auto& [type, index] : distances.objects) peers.push_back(peer_of(index));
        const std::size_t gpus = machine.gpus.size();
        NvLinks links{std::vector(gpus, std::vector<int>(gpus)), std::vector<int>(gpus),
                      std::vector<int>(gpus)};
        for (std::size_t a = 0; a < peers.size(); ++a)
            for (std::size_t b = 0; b < peers.size(); ++b) {
                if (!peers[a].gpu || peers[a].gpu == peers[b].gpu) continue;
                const std::size_t cell = a * peers.size() + b;
                const HwlocLinkCount found = count(distances.values[cell], cell);
                if (found.count == 0) continue;
                if (peers[b].gpu)
                    links.direct[*peers[a].gpu][*peers[b].gpu] += found.count;
                else if (peers[b].nvswitch)
                    links.to_switch[*peers[a].gpu] += found.count;
                add(machine.gpus[*peers[a].gpu], peers[b], found);
                machine.nvswitch = machine.nvswitch || peers[b].nvswitch;
            }
        machine.gpu_links = pair_links(links);
    }

    static void add(Gpu& gpu, const LinkPeer& peer, const HwlocLinkCount& found) {
        for (int i = 0; i < found.count && gpu.links.size() < kMostDirectLinks; ++i) {
            GpuLink link;
            link.link = static_cast<int>(gpu.links.size());
            link.active = true;
            link.peer = peer.address;
            link.peer_kind = peer.gpu ? "gpu" : peer.nvswitch ? "switch" : "cpu";
            if (found.gbytes_per_s > 0) link.speed_gbytes_per_s = found.gbytes_per_s;
            gpu.links.push_back(std::move(link));
        }
    }

    const HwlocDocument& document_;
    const HwlocDevices& devices_;
    std::map<std::uint64_t, std::size_t> by_gp_index_;
};

/// "0302 [10de:1eb8] [10de:12a2] a1"
PciIds hwloc_ids(std::string_view type) {
    PciIds ids;
    const auto hex = [&](std::size_t at) {
        unsigned value = 0;
        for (std::size_t i = at; i < std::min(at + 4, type.size()); ++i) {
            const std::size_t digit = std::string_view("0123456789abcdef").find(type[i]);
            if (digit > 15) return 0u;
            value = value * 16 + static_cast<unsigned>(digit);
        }
        return value;
    };
    if (type.size() < 28 || type[5] != '[' || type[17] != '[') return ids;
    return {hex(6), hex(11), hex(18), hex(23)};
}

std::optional<DevicePlace> hwloc_place(const HwlocDocument& document, const Cpu& cpu,
                                       std::size_t object) {
    DevicePlace place;
    place.numa_node = hwloc_locality(document, cpu, object).numa_node;
    for (; object != kNoParent; object = document.objects[object].parent) {
        const HwlocObject& station = document.objects[object];
        if (station.type != "PCIDev" && station.type != "Bridge") break;
        if (const auto address = PciAddress::parse(station.pci_busid)) {
            place.way.push_back({*address, hwloc_ids(station.pci_type), {}, {}});
        } else if (station.type == "Bridge") {  // to the host: "0000:[17-19]"
            const std::string_view buses = station.bridge_pci;
            const std::size_t open = buses.find(":[");
            if (open != std::string_view::npos)
                place.host_bridge =
                    fmt::format("pci{}:{}", buses.substr(0, open), buses.substr(open + 2, 2));
        }
    }
    if (place.way.empty()) return std::nullopt;
    return place;
}

MachinePlaces hwloc_places(const HwlocDocument& document, const Cpu& cpu,
                           const HwlocDevices& devices) {
    MachinePlaces places;
    for (const std::size_t object : devices.gpu_objects)
        places.gpus.push_back(hwloc_place(document, cpu, object));
    for (const std::size_t object : devices.nic_objects)
        places.nics.push_back(hwloc_place(document, cpu, object));
    return places;
}

void read_hwloc_host(const HwlocDocument& document, Machine& machine) {
    const HwlocObject& root = document.objects.front();
    const auto info = [&](const std::string& key) {
        const auto found = document.infos.find(key);
        const std::string own = root.info(key);
        return !own.empty() || found == document.infos.end() ? own : found->second;
    };
    machine.hostname = info("HostName");
    machine.vendor = info("DMISysVendor");
    if (machine.vendor.empty()) machine.vendor = info("DMIBoardVendor");
    machine.product = info("DMIProductName");
    if (machine.product.empty()) machine.product = info("PlatformModel");
    machine.asset_tag = info("DMIChassisAssetTag");
    machine.board = std::string(trim(info("DMIBoardVendor") + " " + info("DMIBoardName")));
    machine.software.kernel = info("OSRelease");
    std::uint64_t memory = 0;
    for (const NumaNode& node : machine.cpu.numa_nodes)
        if (!node.cpus.empty() && node.memory_bytes) memory += *node.memory_bytes;
    if (memory > 0) machine.limits.memory_bytes = memory;
}

/// What hwloc knows nothing of, so that nobody takes it for absent.
void add_hwloc_notes(const HwlocDocument& document, bool links, Machine& machine) {
    if (document.cut)
        machine.notes.push_back(
            fmt::format("hwloc XML: the text is cut off before </topology>, {} objects were read",
                        document.objects.size()));
    const bool hive = std::any_of(
        document.objects.begin(), document.objects.end(), [](const HwlocObject& object) {
            const std::string id = object.info("XGMIHiveID");
            return !id.empty() && id.find_first_not_of("0x") != std::string::npos;
        });
    if (machine.gpus.size() > 1 && !links)
        machine.notes.push_back(
            hive ? "hwloc XML: the GPUs are in an xGMI hive, their links are not in the file: the "
                   "paths are those over PCIe"
                 : "hwloc XML: links between GPUs are not in the file: the paths are those over "
                   "PCIe");
    if (!machine.nics.empty())
        machine.notes.push_back(
            "hwloc XML: speed, MTU, state and addresses of interfaces are not in the file");
}

Reading read_hwloc_xml(const Lines& lines) {
    const HwlocDocument document = read_hwloc_document(lines);
    Reading reading;
    Machine& machine = reading.machine;
    machine.cpu = read_hwloc_processors(document);
    HwlocDevices devices = read_hwloc_devices(document, machine.cpu);
    machine.gpus = std::move(devices.gpus);
    machine.nics = std::move(devices.nics);
    machine.notes = std::move(devices.notes);
    const auto is_io = [](const HwlocObject& object) {
        return object.type == "PCIDev" || object.type == "OSDev" || object.type == "Bridge";
    };
    // lstopo --no-io, and programs that load a topology without devices
    if (std::none_of(document.objects.begin(), document.objects.end(), is_io)) {
        machine.gpus_known = machine.nics_known = false;
        machine.notes.push_back(
            "hwloc XML: the file holds no devices (lstopo --whole-io has them)");
    }
    // A filter of lstopo may leave out network devices; no host is without any.
    if (machine.nics.empty()) machine.nics_known = false;
    read_hwloc_host(document, machine);
    const bool links = HwlocLinks(document, devices).fill(machine);
    fill_paths(machine, hwloc_places(document, machine.cpu, devices));
    add_hwloc_notes(document, links, machine);
    reading.understood.assign(lines.lines.size(), false);
    std::fill(reading.understood.begin() + static_cast<std::ptrdiff_t>(document.first_line),
              reading.understood.begin() + static_cast<std::ptrdiff_t>(document.end_line), true);
    // <?xml ...?> and <!DOCTYPE ...> stand before it.
    for (std::size_t i = document.first_line; i > 0; --i) {
        const std::string& text = lines.lines[i - 1].text;
        if (!text.starts_with("<?xml") && !text.starts_with("<!DOCTYPE")) break;
        reading.understood[i - 1] = true;
    }
    return reading;
}

}  // namespace

Importer hwloc_xml_importer() {
    return {"hwloc XML", [](const Lines& lines) { return find_hwloc_topology(lines).has_value(); },
            read_hwloc_xml};
}

}  // namespace toporun::detect
