#include "detect/pci/pci_address.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>

namespace toporun::detect {
namespace {

std::optional<std::uint32_t> hex(std::string_view text, std::size_t most_digits) {
    std::uint32_t value = 0;
    if (text.empty() || text.size() > most_digits) return std::nullopt;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace

std::optional<PciAddress> PciAddress::parse(std::string_view text) {
    const std::size_t dot = text.rfind('.');
    const std::size_t colon = text.rfind(':', dot);
    if (dot == std::string_view::npos || colon == std::string_view::npos) return std::nullopt;
    const std::size_t domain_colon =
        colon == 0 ? std::string_view::npos : text.rfind(':', colon - 1);
    const bool has_domain = domain_colon != std::string_view::npos;
    const auto domain = has_domain ? hex(text.substr(0, domain_colon), 8) : 0;
    const std::size_t bus_begin = has_domain ? domain_colon + 1 : 0;
    const auto bus = hex(text.substr(bus_begin, colon - bus_begin), 2);
    const auto device = hex(text.substr(colon + 1, dot - colon - 1), 2);
    const auto function = hex(text.substr(dot + 1), 1);
    if (!domain || !bus || !device || !function || *device > 31 || *function > 7)
        return std::nullopt;
    return PciAddress{*domain, static_cast<std::uint8_t>(*bus), static_cast<std::uint8_t>(*device),
                      static_cast<std::uint8_t>(*function)};
}

std::string PciAddress::text() const {
    return fmt::format("{:04x}:{:02x}:{:02x}.{:x}", domain, bus, device, function);
}

std::string pci_directory(const PciAddress& address) {
    return "/sys/bus/pci/devices/" + address.text();
}

std::string pci_id_text(unsigned vendor, unsigned device) {
    if (vendor == 0 || vendor >= 0xffff || device == 0 || device >= 0xffff) return {};
    return fmt::format("{:04x}:{:04x}", vendor, device);
}

bool is_pci_id(std::string_view text) {
    const auto digit = [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); };
    return text.size() == 9 && text[4] == ':' &&
           std::all_of(text.begin(), text.begin() + 4, digit) &&
           std::all_of(text.begin() + 5, text.end(), digit);
}

}  // namespace toporun::detect
