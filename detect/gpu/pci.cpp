#include "detect/gpu/pci.hpp"

#include <algorithm>

#include "base/error.hpp"
#include "base/text.hpp"

namespace toporun::detect {
namespace {

std::optional<int> node_of(const Files& files, const std::string& directory) {
    const auto node = files.integer(directory + "/numa_node");
    if (!node || *node < 0 || *node > 65535) return std::nullopt;
    return static_cast<int>(*node);
}

/// Generation of a Broadcom PCIe switch whose levels NCCL merges, 0 for every other bridge. Level 0
/// is the upper one. Ids: NCCL src/graph/topo.cc, getBcmGen.
int broadcom_generation(const Files& files, const PciAddress& bridge, unsigned long level) {
    const std::string directory = pci_directory(bridge);
    if (files.hex(directory + "/vendor") != 0x1000ul) return 0;
    const auto device = files.hex(directory + "/device");
    const auto subsystem = files.hex(directory + "/subsystem_device");
    if (files.hex(directory + "/subsystem_vendor") != 0x1000ul || !device || !subsystem) return 0;
    if (*device == 0xc010 && (*subsystem & 0xf000) == 0xa000) return 4;
    if (*device == 0xc030 && (*subsystem & 0xf000) == level * 0x1000) return 5;
    return 0;
}

std::vector<PciAddress> switches_above(const Files& files, const std::vector<PciAddress>& bridges) {
    std::vector<PciAddress> switches;
    for (std::size_t i = 1; i < bridges.size(); i += 2) {
        const PciAddress& upper = bridges[i];
        const int generation =
            switches.empty() ? 0 : broadcom_generation(files, switches.back(), 1);
        if (generation != 0 && generation == broadcom_generation(files, upper, 0))
            switches.back() = upper;
        else
            switches.push_back(upper);
    }
    return switches;
}

bool is_gpu(unsigned vendor, unsigned device_class) {
    const bool display = device_class == 0x0300 || device_class == 0x0302;
    // AMD's accelerators say "other display controller" (MI200) or "processing accelerator"
    // (MI300).
    const bool accelerator = device_class == 0x0380 || device_class == 0x1200;
    return (vendor == kVendorNvidia && display) ||
           (vendor == kVendorAmd && (display || accelerator));
}

/// Generation of a link rate as sysfs prints it: "16.0 GT/s PCIe" is 4.
std::optional<int> pcie_generation(const std::optional<std::string>& speed) {
    constexpr std::string_view kRates[] = {"2.5", "5", "8", "16", "32", "64"};
    if (!speed) return std::nullopt;
    std::string_view rate = std::string_view(*speed).substr(0, speed->find(' '));
    if (rate.ends_with(".0")) rate.remove_suffix(2);
    const auto found = std::find(std::begin(kRates), std::end(kRates), rate);
    if (found == std::end(kRates)) return std::nullopt;
    return static_cast<int>(found - std::begin(kRates)) + 1;
}

CpuSet local_cpus(const Files& files, const std::string& directory) {
    try {
        return CpuSet::parse(files.line(directory + "/local_cpulist").value_or(""));
    } catch (const Error&) {
        return {};  // a list that is none tells as little as a missing one
    }
}

Gpu read_gpu(const Files& files, const PciDevice& device) {
    const std::string directory = pci_directory(device.address);
    Gpu gpu;
    gpu.vendor = device.vendor == kVendorNvidia ? "nvidia" : "amd";
    gpu.pci = device.address;
    gpu.numa_node = device.numa_node;
    gpu.cpus = local_cpus(files, directory);
    gpu.pcie_generation = pcie_generation(files.line(directory + "/max_link_speed"));
    const auto width = files.integer(directory + "/max_link_width");
    if (width && *width >= 1 && *width <= 32) gpu.pcie_width = static_cast<int>(*width);
    const std::string driver = "/proc/driver/nvidia/gpus/" + device.address.text();
    if (const auto text = files.read(driver + "/information", 4096)) {
        gpu.name = value_of(*text, "Model").value_or("");
        gpu.uuid = value_of(*text, "GPU UUID");
        if (gpu.uuid && gpu.uuid->find('?') != std::string::npos) gpu.uuid.reset();
    }
    return gpu;
}

}  // namespace

std::string pci_directory(const PciAddress& address) {
    return "/sys/bus/pci/devices/" + address.text();
}

std::optional<PciAddress> pci_in_path(std::string_view sysfs_path) {
    std::optional<PciAddress> last;
    for (const std::string& part : split(sysfs_path, '/'))
        if (const auto address = PciAddress::parse(part)) last = address;
    return last;
}

std::optional<PciDevice> read_pci_device(const Files& files, const PciAddress& address) {
    const std::string directory = pci_directory(address);
    const auto device_class = files.hex(directory + "/class");
    if (!device_class) return std::nullopt;
    PciDevice device;
    device.address = address;
    device.device_class = static_cast<unsigned>(*device_class >> 8) & 0xffff;
    device.vendor = static_cast<unsigned>(files.hex(directory + "/vendor").value_or(0));
    device.numa_node = node_of(files, directory);
    std::vector<std::string> parts = split(files.real_path(directory).value_or(""), '/');
    if (!parts.empty()) parts.pop_back();
    for (; !parts.empty(); parts.pop_back()) {
        const auto bridge = PciAddress::parse(parts.back());
        if (!bridge) break;
        device.bridges.push_back(*bridge);
    }
    if (!parts.empty()) device.host_bridge = parts.back();
    device.switches = switches_above(files, device.bridges);
    return device;
}

std::vector<Gpu> pci_gpus(const Files& files) {
    std::vector<Gpu> gpus;
    for (const std::string& name : files.list("/sys/bus/pci/devices")) {
        const auto address = PciAddress::parse(name);
        if (!address) continue;
        const auto device_class = files.hex(pci_directory(*address) + "/class");
        // Most devices end here: one file read for each.
        if (!device_class || (*device_class >> 16 != 0x03 && *device_class >> 16 != 0x12)) continue;
        const auto device = read_pci_device(files, *address);
        if (device && is_gpu(device->vendor, device->device_class))
            gpus.push_back(read_gpu(files, *device));
    }
    const auto nvidia = [](const Gpu& gpu) { return gpu.vendor == "nvidia"; };
    if (std::any_of(gpus.begin(), gpus.end(), nvidia))
        std::erase_if(gpus, [&](const Gpu& gpu) { return !nvidia(gpu); });
    std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });
    for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
    return gpus;
}

PathType pci_path(const PciDevice& a, const PciDevice& b) {
    if (a.address == b.address) return PathType::LOC;
    for (std::size_t i = 0; i < a.switches.size(); ++i) {
        const auto common = std::find(b.switches.begin(), b.switches.end(), a.switches[i]);
        if (common == b.switches.end()) continue;
        return i == 0 && common == b.switches.begin() ? PathType::PIX : PathType::PXB;
    }
    // NCCL's "CPU" is a NUMA node; devices whose node the firmware does not tell share one.
    const bool same_bridge = !a.host_bridge.empty() && a.host_bridge == b.host_bridge;
    return same_bridge || a.numa_node == b.numa_node ? PathType::PHB : PathType::SYS;
}

}  // namespace toporun::detect
