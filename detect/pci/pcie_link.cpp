#include "detect/pci/pcie_link.hpp"

#include <algorithm>
#include <array>

namespace toporun::detect {
namespace {

/// Widths of the PCI Express base specification. sysfs says 0 for no link, 63 or 255 for a device
/// that no longer answers.
constexpr std::array<long long, 7> kWidths = {1, 2, 4, 8, 12, 16, 32};

std::optional<int> generation_in(const Files& files, const std::string& file) {
    const auto rate = files.line(file);
    return rate ? pcie_generation_of(*rate) : std::nullopt;
}

std::optional<int> width_in(const Files& files, const std::string& file) {
    const auto width = files.integer(file);
    if (!width || std::find(kWidths.begin(), kWidths.end(), *width) == kWidths.end())
        return std::nullopt;
    return static_cast<int>(*width);
}

}  // namespace

std::optional<int> pcie_generation_of(std::string_view rate) {
    constexpr std::array<std::string_view, 6> kRates = {"2.5", "5", "8", "16", "32", "64"};
    std::string_view number = rate.substr(0, rate.find_first_not_of("0123456789."));
    const std::string_view unit = rate.substr(number.size());
    if (!unit.empty() && !unit.starts_with(' ') && !unit.starts_with("GT/s")) return std::nullopt;
    if (number.ends_with(".0")) number.remove_suffix(2);
    const auto found = std::find(kRates.begin(), kRates.end(), number);
    if (found == kRates.end()) return std::nullopt;
    return static_cast<int>(found - kRates.begin()) + 1;
}

PcieLink read_pcie_link(const Files& files, const PciAddress& address) {
    const std::string directory = pci_directory(address);
    PcieLink link;
    link.generation = generation_in(files, directory + "/max_link_speed");
    if (!link.generation) return link;  // a virtual device: no link, three reads saved
    link.width = width_in(files, directory + "/max_link_width");
    link.generation_now = generation_in(files, directory + "/current_link_speed");
    link.width_now = width_in(files, directory + "/current_link_width");
    return link;
}

}  // namespace toporun::detect
