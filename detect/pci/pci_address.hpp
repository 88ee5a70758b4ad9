#pragma once

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace toporun::detect {

/// A PCI bus id. One text form everywhere: "0000:18:00.0" (lower case, domain of at least 4
/// digits).
struct PciAddress {
    std::uint32_t domain = 0;
    std::uint8_t bus = 0;
    std::uint8_t device = 0;
    std::uint8_t function = 0;

    /// Accepts "18:00.0", "0000:18:00.0", NVML's "00000000:18:00.0", any case; nothing otherwise.
    static std::optional<PciAddress> parse(std::string_view text);
    std::string text() const;

    friend auto operator<=>(const PciAddress&, const PciAddress&) = default;
};

/// Its directory in sysfs: /sys/bus/pci/devices/...
std::string pci_directory(const PciAddress& address);

/// "10de:2330", "" when one of them is none (0 or all ones).
std::string pci_id_text(unsigned vendor, unsigned device);
/// Four lower-case hexadecimal digits, a colon, four more.
bool is_pci_id(std::string_view text);

}  // namespace toporun::detect
