#pragma once

#include <optional>
#include <string_view>

#include "detect/files.hpp"
#include "detect/pci/pci_address.hpp"

namespace toporun::detect {

/// The PCIe link of a device, as sysfs tells it. A virtual function has none of its own.
struct PcieLink {
    std::optional<int> generation;  ///< possible
    std::optional<int> width;       ///< lanes
    std::optional<int> generation_now;
    std::optional<int> width_now;
    friend bool operator==(const PcieLink&, const PcieLink&) = default;
};

/// Generation of a link rate as sysfs prints it: "16.0 GT/s PCIe" is 4. Nothing for "Unknown".
std::optional<int> pcie_generation_of(std::string_view rate);

PcieLink read_pcie_link(const Files& files, const PciAddress& address);

}  // namespace toporun::detect
