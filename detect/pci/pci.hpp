#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "detect/files.hpp"
#include "detect/pci/pci_address.hpp"
#include "detect/pci/pcie_link.hpp"

namespace toporun::detect {

inline constexpr unsigned kVendorNvidia = 0x10de;
inline constexpr unsigned kVendorAmd = 0x1002;
inline constexpr unsigned kVendorAmazon = 0x1d0f;

/// A device on the PCI bus and the way up to its host bridge.
struct PciDevice {
    PciAddress address;
    unsigned device_class = 0;  ///< class and subclass: 0x0302 for a 3D controller
    unsigned vendor = 0;
    unsigned device = 0;
    std::optional<int> numa_node;     ///< OS index
    std::vector<PciAddress> bridges;  ///< nearest first, root port last
    /// Upper ports of the switches above, nearest first: of two bridges that make a switch NCCL
    /// knows this one (src/graph/xml.cc goes up two levels at a time). Root ports are none.
    std::vector<PciAddress> switches;
    std::string host_bridge;  ///< "pci0000:00", the end of the way up
};

/// Nothing when the device is not in sysfs.
std::optional<PciDevice> read_pci_device(const Files& files, const PciAddress& address);

/// The PCI devices of sysfs, each with its link read once: a launch asks for the same few many
/// times.
class PciTree {
  public:
    explicit PciTree(Files files) : files_(std::move(files)) {}

    const Files& files() const { return files_; }
    /// As read_pci_device.
    const std::optional<PciDevice>& device(const PciAddress& address);
    /// As read_pcie_link.
    const PcieLink& link(const PciAddress& address);

  private:
    Files files_;
    std::map<PciAddress, std::optional<PciDevice>> devices_;
    std::map<PciAddress, PcieLink> links_;
};

/// The last PCI address in a path of /sys/devices ("virtio0" and the like below it are passed
/// over).
std::optional<PciAddress> pci_in_path(std::string_view sysfs_path);

}  // namespace toporun::detect
