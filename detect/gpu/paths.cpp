#include "detect/gpu/paths.hpp"

#include <algorithm>
#include <map>

#include "detect/gpu/gpu_links.hpp"
#include "detect/pci/pci.hpp"
#include "detect/topology/machine_paths.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned kVendorBroadcom = 0x1000;  ///< whose switches show two levels

/// NVML's common ancestor as NCCL's path: 0 internal, 10 one switch, 20 several, 30 host bridge, 40
/// NUMA node, 50 system.
std::optional<PathType> ancestor_path(std::int32_t level) {
    switch (level) {
        case 0:
        case 10:
            return PathType::PIX;
        case 20:
            return PathType::PXB;
        case 30:
        case 40:
            return PathType::PHB;
        case 50:
            return PathType::SYS;
        default:
            return std::nullopt;
    }
}

/// Paths over PCIe by NVML's word.
PciePaths told_paths(std::size_t count, const NvmlReport* report) {
    PciePaths paths(count, std::vector<std::optional<PathType>>(count));
    for (std::size_t a = 0; a < count; ++a)
        for (std::size_t b = 0; b < count; ++b) {
            if (a == b)
                paths[a][b] = PathType::LOC;
            else if (report != nullptr)  // one direction speaks for both
                paths[a][b] = ancestor_path(report->pairs[std::min(a, b)][std::max(a, b)].ancestor);
        }
    return paths;
}

/// Places of devices in sysfs. Every bridge is read once.
class PlaceReader {
  public:
    explicit PlaceReader(PciTree& pci) : pci_(pci) {}

    std::optional<DevicePlace> read(const std::optional<PciAddress>& address) {
        const auto device = address ? pci_.device(*address) : std::nullopt;
        if (!device) return std::nullopt;
        DevicePlace place;
        place.numa_node = device->numa_node;
        place.host_bridge = device->host_bridge;
        place.way.push_back(station(*address));
        for (const PciAddress& bridge : device->bridges) place.way.push_back(station(bridge));
        return place;
    }

  private:
    const WayStation& station(const PciAddress& address) {
        const auto [entry, added] = stations_.try_emplace(address);
        if (!added) return entry->second;
        WayStation& station = entry->second;
        station.address = address;
        const PcieLink& link = pci_.link(address);
        station.generation = link.generation;
        station.width = link.width;
        station.ids.vendor = number(address, "vendor");
        if (station.ids.vendor == kVendorBroadcom) {
            station.ids.device = number(address, "device");
            station.ids.subsystem_vendor = number(address, "subsystem_vendor");
            station.ids.subsystem_device = number(address, "subsystem_device");
        }
        return station;
    }

    unsigned number(const PciAddress& address, const char* file) const {
        const auto value = pci_.files().hex(pci_directory(address) + "/" + file);
        return static_cast<unsigned>(value.value_or(0) & 0xffff);
    }

    PciTree& pci_;
    std::map<PciAddress, WayStation> stations_;
};

}  // namespace

void take_told_paths(const NvmlReport* report, Machine& machine) {
    machine.gpu_paths = gpu_path_matrix(told_paths(machine.gpus.size(), report), machine.gpu_links);
}

void complete_paths(PciTree& pci, Machine& machine) {
    if (machine.gpus.empty()) return;
    PlaceReader reader(pci);
    MachinePlaces places;
    for (const Gpu& gpu : machine.gpus) places.gpus.push_back(reader.read(gpu.pci));
    for (const Nic& nic : machine.nics) places.nics.push_back(reader.read(nic.pci));
    fill_paths(machine, places);
    estimate_path_bandwidth(machine);
    if (machine.gpu_paths.empty())
        machine.notes.emplace_back("paths between GPUs are unknown: the PCI tree is not visible");
}

}  // namespace toporun::detect
