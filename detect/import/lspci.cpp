#include <algorithm>
#include <charconv>
#include <optional>
#include <vector>

#include "base/text.hpp"
#include "detect/import/formats.hpp"

/// `lspci -vvv`: whether bridges redirect peer-to-peer requests (ACS). Nothing else is taken.
namespace toporun::detect {
namespace {

enum class Redirect { unknown, off, on };

struct ListedDevice {
    PciAddress address;
    bool bridge = false;
    bool gpu = false;
    std::optional<unsigned> secondary, subordinate;  ///< buses below a bridge
    bool capabilities = false;                       ///< they are listed, with their registers
    bool acs = false;                                ///< the capability is there
    Redirect redirect = Redirect::unknown;
};

/// "ReqRedir+" or "CmpltRedir+" behind "ACSCtl:".
std::optional<Redirect> acs_control(std::string_view text) {
    const std::size_t at = text.find("ACSCtl:");
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view bits = text.substr(at);
    if (bits.find("ReqRedir+") != std::string_view::npos ||
        bits.find("CmpltRedir+") != std::string_view::npos)
        return Redirect::on;
    const bool whole = bits.find("ReqRedir-") != std::string_view::npos &&
                       bits.find("CmpltRedir-") != std::string_view::npos;
    return whole ? Redirect::off : Redirect::unknown;
}

/// "3a:00.0 PCI bridge: Broadcom ..."
std::optional<ListedDevice> device_line(std::string_view text) {
    if (text.empty() || text[0] == ' ' || text[0] == '\t') return std::nullopt;
    const std::size_t blank = text.substr(0, 16).find(' ');
    if (blank == std::string_view::npos) return std::nullopt;
    const auto address = PciAddress::parse(text.substr(0, blank));
    const std::string_view name = text.substr(blank + 1);
    if (!address || name.find(": ") == std::string_view::npos) return std::nullopt;
    ListedDevice device;
    device.address = *address;
    device.bridge = name.starts_with("PCI bridge");
    const bool kind =
        name.starts_with("3D controller") || name.starts_with("VGA compatible controller") ||
        name.starts_with("Display controller") || name.starts_with("Processing accelerators");
    device.gpu = kind && (name.find("NVIDIA") != std::string_view::npos ||
                          name.find("[AMD") != std::string_view::npos);
    return device;
}

std::optional<unsigned> bus_number(std::string_view text, std::string_view key) {
    const std::size_t at = text.find(key);
    if (at == std::string_view::npos) return std::nullopt;
    const char* begin = text.data() + at + key.size();
    unsigned bus = 0;
    const auto end = std::from_chars(begin, text.data() + text.size(), bus, 16);
    return end.ec == std::errc() && bus < 256 ? std::optional(bus) : std::nullopt;
}

void take_line(ListedDevice& device, std::string_view text) {
    if (text.find("Bus: primary=") != std::string_view::npos) {
        device.secondary = bus_number(text, "secondary=");
        device.subordinate = bus_number(text, "subordinate=");
    }
    if (text.find("LnkCtl:") != std::string_view::npos) device.capabilities = true;
    if (text.find("Access Control Services") != std::string_view::npos) device.acs = true;
    if (const auto control = acs_control(text)) device.redirect = *control;
}

bool above(const ListedDevice& bridge, const ListedDevice& gpu) {
    return bridge.bridge && bridge.secondary && bridge.subordinate &&
           bridge.address.domain == gpu.address.domain && *bridge.secondary <= gpu.address.bus &&
           gpu.address.bus <= *bridge.subordinate;
}

/// Over the bridges above GPUs: on where one redirects, off where none does and all could be read.
std::optional<bool> above_gpus(const std::vector<ListedDevice>& devices) {
    bool any = false, all_read = true;
    for (const ListedDevice& bridge : devices) {
        if (std::none_of(devices.begin(), devices.end(),
                         [&](const ListedDevice& gpu) { return gpu.gpu && above(bridge, gpu); }))
            continue;
        if (bridge.redirect == Redirect::on) return true;
        any = true;
        all_read =
            all_read && (bridge.redirect == Redirect::off || (bridge.capabilities && !bridge.acs));
    }
    return any && all_read ? std::optional(false) : std::nullopt;
}

bool recognise(const Lines& lines) {
    bool bridge = false;
    for (const PastedLine& line : lines.lines) {
        if (acs_control(line.text)) return true;
        if (const auto device = device_line(line.text)) bridge = device->bridge;
        if (bridge && (line.text.find("Capabilities: <access denied>") != std::string::npos ||
                       line.text.find("LnkCtl:") != std::string::npos))
            return true;
    }
    return false;
}

Reading read(const Lines& lines) {
    constexpr std::size_t kMostDevices = 4096;
    Reading reading;
    Machine& machine = reading.machine;
    machine.gpus_known = machine.nics_known = false;
    std::vector<ListedDevice> devices;
    bool denied = false, anywhere = false;
    for (const PastedLine& line : lines.lines) {
        const std::string_view text = line.text;
        const auto device = devices.size() < kMostDevices ? device_line(text) : std::nullopt;
        const bool inside =
            !devices.empty() && !text.empty() && (text[0] == ' ' || text[0] == '\t');
        const auto control = acs_control(text);
        if (device) devices.push_back(*device);
        if (inside) take_line(devices.back(), text);
        const bool of_bridge = inside && devices.back().bridge;
        anywhere = anywhere || (control == Redirect::on && (of_bridge || devices.empty()));
        denied = denied || (inside && text.find("<access denied>") != std::string_view::npos);
        reading.understood.push_back(device || inside || control);
    }
    const bool gpus = std::any_of(devices.begin(), devices.end(),
                                  [](const ListedDevice& device) { return device.gpu; });
    machine.software.acs_redirect = above_gpus(devices);
    if (!gpus && anywhere) {
        machine.software.acs_redirect = true;
        machine.notes.emplace_back(
            "a PCI bridge redirects peer-to-peer requests (ACS); whether it is above a GPU is not "
            "told: paste all of lspci -vvv");
    } else if (!machine.software.acs_redirect) {
        machine.notes.emplace_back(
            denied ? "ACS is unknown: lspci -vvv needs root to read it"
                   : "ACS above the GPUs is unknown: paste all of lspci -vvv, as root");
    }
    return reading;
}

}  // namespace

Importer lspci_importer() {
    return {"lspci -vvv", recognise, read};
}

}  // namespace toporun::detect
