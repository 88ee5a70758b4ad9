#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/software/acs.hpp"

/// `lspci -vvv`: whether bridges redirect peer-to-peer requests (ACS) between GPUs. The GPUs that
/// it lists carry their bus ids alone: they are there for what another capture tells of them.
namespace toporun::detect {
namespace {

struct ListedDevice {
    PciAddress address;
    bool bridge = false;
    bool gpu = false;
    std::string vendor;                              ///< of a GPU: "nvidia", "amd"
    std::optional<unsigned> secondary, subordinate;  ///< buses below a bridge
    bool root_port = false;
    bool capabilities = false;  ///< they are listed, with their registers
    bool acs = false;           ///< the capability is there
    AcsRedirect redirect = AcsRedirect::unknown;

    std::optional<bool> redirects() const {
        if (redirect != AcsRedirect::unknown) return redirect == AcsRedirect::on;
        return capabilities && !acs ? std::optional(false) : std::nullopt;
    }
};

/// "ReqRedir+" or "CmpltRedir+" behind "ACSCtl:".
std::optional<AcsRedirect> acs_control(std::string_view text) {
    const std::size_t at = text.find("ACSCtl:");
    if (at == std::string_view::npos) return std::nullopt;
    const std::string_view bits = text.substr(at);
    if (bits.find("ReqRedir+") != std::string_view::npos ||
        bits.find("CmpltRedir+") != std::string_view::npos)
        return AcsRedirect::on;
    const bool whole = bits.find("ReqRedir-") != std::string_view::npos &&
                       bits.find("CmpltRedir-") != std::string_view::npos;
    return whole ? AcsRedirect::off : AcsRedirect::unknown;
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
    if (name.find("NVIDIA") != std::string_view::npos) device.vendor = "nvidia";
    if (name.find("[AMD") != std::string_view::npos) device.vendor = "amd";
    device.gpu = kind && !device.vendor.empty();
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
    if (text.find("Root Port") != std::string_view::npos &&
        text.find("Express") != std::string_view::npos)
        device.root_port = true;
    if (text.find("LnkCtl:") != std::string_view::npos) device.capabilities = true;
    if (text.find("Access Control Services") != std::string_view::npos) device.acs = true;
    if (const auto control = acs_control(text)) device.redirect = *control;
}

bool above(const ListedDevice& bridge, const ListedDevice& gpu) {
    return bridge.bridge && bridge.secondary && bridge.subordinate &&
           bridge.address.domain == gpu.address.domain && *bridge.secondary <= gpu.address.bus &&
           gpu.address.bus <= *bridge.subordinate;
}

/// The bridges above a GPU by the buses below them; nothing when the list has none.
std::optional<AcsWay> way_up(const std::vector<ListedDevice>& devices, const ListedDevice& gpu) {
    std::vector<const ListedDevice*> bridges;
    for (const ListedDevice& device : devices)
        if (above(device, gpu)) bridges.push_back(&device);
    if (bridges.empty()) return std::nullopt;
    std::stable_sort(bridges.begin(), bridges.end(),
                     [](const ListedDevice* a, const ListedDevice* b) {
                         return *a->secondary > *b->secondary;  // nearest first
                     });
    AcsWay way;
    for (const ListedDevice* bridge : bridges)
        way.push_back({bridge->address, bridge->root_port, bridge->redirects()});
    return way;
}

/// NVIDIA's GPUs, or AMD's where there is none of NVIDIA, in bus order like those of sysfs.
std::vector<ListedDevice> listed_gpus(const std::vector<ListedDevice>& devices) {
    std::vector<ListedDevice> gpus;
    std::copy_if(devices.begin(), devices.end(), std::back_inserter(gpus),
                 [](const ListedDevice& device) { return device.gpu; });
    const auto nvidia = [](const ListedDevice& gpu) { return gpu.vendor == "nvidia"; };
    if (std::any_of(gpus.begin(), gpus.end(), nvidia))
        std::erase_if(gpus, [&](const ListedDevice& gpu) { return !nvidia(gpu); });
    std::sort(gpus.begin(), gpus.end(),
              [](const ListedDevice& a, const ListedDevice& b) { return a.address < b.address; });
    const auto same = [](const ListedDevice& a, const ListedDevice& b) {
        return a.address == b.address;  // a list that was pasted twice
    };
    gpus.erase(std::unique(gpus.begin(), gpus.end(), same), gpus.end());
    if (gpus.size() > kMostMachineGpus) gpus.resize(kMostMachineGpus);
    return gpus;
}

/// The IOMMU's mode is not in the text, so root ports that redirect stay unknown: they are told
/// GPU by GPU.
void take_gpus(const std::vector<ListedDevice>& devices, Machine& machine) {
    std::vector<std::optional<AcsWay>> ways;
    for (const ListedDevice& listed : listed_gpus(devices)) {
        Gpu gpu;
        gpu.index = static_cast<int>(machine.gpus.size());
        gpu.vendor = listed.vendor;
        gpu.pci = listed.address;
        ways.push_back(way_up(devices, listed));
        gpu.acs_root_port = redirecting_root(ways.back());
        machine.gpus.push_back(std::move(gpu));
    }
    machine.software.acs_redirect = acs_above(ways, std::nullopt);
    machine.gpu_acs_redirect = acs_matrix(ways, std::nullopt);
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
        anywhere = anywhere || (control == AcsRedirect::on &&
                                (devices.empty() || (inside && devices.back().bridge)));
        denied = denied || (inside && text.find("<access denied>") != std::string_view::npos);
        reading.understood.push_back(device || inside || control);
    }
    take_gpus(devices, machine);
    const bool by_root = std::any_of(machine.gpus.begin(), machine.gpus.end(),
                                     [](const Gpu& gpu) { return gpu.acs_root_port.has_value(); });
    if (machine.software.acs_redirect || by_root) return reading;
    machine.notes.emplace_back(
        denied ? "ACS is unknown: lspci -vvv needs root to read it"
        : anywhere
            ? "a PCI bridge redirects peer-to-peer requests (ACS); whether that concerns GPUs "
              "is not told: add a capture that tells the GPUs' bus ids (nvidia-smi), all of lspci "
              "-vvv, "
              "and /proc/cmdline for the IOMMU"
            : "ACS above the GPUs is unknown: paste all of lspci -vvv, as root");
    return reading;
}

}  // namespace

Importer lspci_importer() {
    return {"lspci -vvv", recognise, read};
}

}  // namespace toporun::detect
