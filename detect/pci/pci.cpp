#include "detect/pci/pci.hpp"

#include "base/text.hpp"

namespace toporun::detect {
namespace {

std::optional<int> node_of(const Files& files, const std::string& directory) {
    const auto node = files.integer(directory + "/numa_node");
    if (!node || *node < 0 || *node > 65535) return std::nullopt;
    return static_cast<int>(*node);
}

}  // namespace

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
    device.device = static_cast<unsigned>(files.hex(directory + "/device").value_or(0));
    device.numa_node = node_of(files, directory);
    std::vector<std::string> parts = split(files.real_path(directory).value_or(""), '/');
    if (!parts.empty()) parts.pop_back();
    for (; !parts.empty(); parts.pop_back()) {
        const auto bridge = PciAddress::parse(parts.back());
        if (!bridge) break;
        device.bridges.push_back(*bridge);
    }
    for (std::size_t i = 1; i < device.bridges.size(); i += 2)
        device.switches.push_back(device.bridges[i]);
    if (!parts.empty()) device.host_bridge = parts.back();
    return device;
}

const std::optional<PciDevice>& PciTree::device(const PciAddress& address) {
    const auto known = devices_.find(address);
    if (known != devices_.end()) return known->second;
    return devices_.emplace(address, read_pci_device(files_, address)).first->second;
}

const PcieLink& PciTree::link(const PciAddress& address) {
    const auto known = links_.find(address);
    if (known != links_.end()) return known->second;
    return links_.emplace(address, read_pcie_link(files_, address)).first->second;
}

}  // namespace toporun::detect
