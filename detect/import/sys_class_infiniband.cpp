#include <algorithm>
#include <array>
#include <charconv>
#include <map>

#include "base/text.hpp"
#include "detect/import/formats.hpp"
#include "detect/import/interface_text.hpp"
#include "detect/import/open_end.hpp"
#include "detect/network/port_counters.hpp"

/// Files of /sys/class/infiniband as lines "path: value", as `grep -r . /sys/class/infiniband` and
/// collectors of diagnostics print them.
namespace toporun::detect {
namespace {

/// Attributes of a device that make a line one of this format even without a port in its path.
constexpr std::array<std::string_view, 11> kDeviceFiles = {
    "board_id",  "fw_ver",    "hca_type",      "hw_rev",        "node_guid",       "sys_image_guid",
    "node_type", "node_desc", "device/vendor", "device/device", "device/numa_node"};

/// One file.
struct File {
    std::string_view device;
    std::optional<int> port;
    std::string_view name;  ///< below the port or the device: "counters/link_downed"
    std::string_view value;
    std::optional<PciAddress> pci;  ///< of a path through /sys/devices
};

/// Cuts "/sys/devices/.../0000:18:00.0/infiniband/" or "/sys/class/infiniband/" off the path.
std::string_view relative_path(std::string_view line, File& file) {
    constexpr std::string_view kDirectory = "infiniband/";
    const std::size_t at = line.find(kDirectory);
    if (at == std::string_view::npos || (at > 0 && line[at - 1] != '/'))
        return line.substr(line.starts_with("./") ? 2 : 0);
    const std::string_view before = line.substr(0, at == 0 ? 0 : at - 1);
    const std::size_t slash = before.rfind('/');
    if (slash != std::string_view::npos) file.pci = PciAddress::parse(before.substr(slash + 1));
    return line.substr(at + kDirectory.size());
}

/// Cuts "name: value" or "name:value".
bool take_value(std::string_view rest, File& file) {
    const auto pair = key_and_value(rest);
    if (!pair || pair->first.empty() || pair->first.find_first_of(" \t") != std::string_view::npos)
        return false;
    file.name = pair->first;
    file.value = pair->second;
    return true;
}

std::optional<File> read_file_line(std::string_view text) {
    File file;
    std::string_view path = relative_path(trim(text), file);
    const std::size_t slash = path.find('/');
    if (slash == std::string_view::npos || !rdma_name(path.substr(0, slash))) return std::nullopt;
    file.device = path.substr(0, slash);
    path.remove_prefix(slash + 1);
    if (!path.starts_with("ports/")) {
        if (!take_value(path, file)) return std::nullopt;
        const bool known =
            std::find(kDeviceFiles.begin(), kDeviceFiles.end(), file.name) != kDeviceFiles.end();
        return known ? std::optional(file) : std::nullopt;
    }
    path.remove_prefix(6);
    const std::size_t end = path.find('/');
    if (end == std::string_view::npos) return std::nullopt;
    file.port = number_in(path.substr(0, end), 1, 255);
    if (!file.port || !take_value(path.substr(end + 1), file)) return std::nullopt;
    return file;
}

/// What the lines say of one port; GIDs come in three files each.
struct Port {
    PastedPort port;
    struct Entry {
        std::string address, type, interface;
    };
    std::map<int, Entry> gids;
};

struct Device {
    PastedPort facts;  ///< that hold for all its ports
    std::map<int, Port> ports;
};

/// Whether the value is one of its file.
bool device_fact(const File& file, PastedPort& facts) {
    if (file.pci) facts.pci = file.pci;
    if (file.port) return true;
    if (file.name == "node_guid") return take_guid(file.value, facts);
    if (file.name == "node_type") facts.iwarp = file.value.starts_with("4:");  // "4: RNIC"
    if (file.name == "device/vendor") facts.vendor_id = file.value;
    if (file.name != "device/numa_node") return true;
    facts.numa_node = number_in(file.value, 0, 1023);
    return facts.numa_node || file.value == "-1";
}

/// The index in "gids/3" and in "gid_attrs/types/3".
std::optional<int> index_below(std::string_view name, std::string_view directory) {
    if (!name.starts_with(directory)) return std::nullopt;
    return number_in(name.substr(directory.size()), 0, 65535);
}

/// Whether the value is a number, or the file is no counter of errors.
bool counter(std::string_view name, std::string_view value, PastedPort& port) {
    const std::string_view base = name.substr(name.find('/') + 1);
    if (error_counter(base) == nullptr) return true;
    std::uint64_t number = 0;
    const auto [end, error] = std::from_chars(value.data(), value.data() + value.size(), number);
    if (error != std::errc() || end != value.data() + value.size())
        return value == "-1" || value.starts_with("N/A");
    const bool there =
        std::any_of(port.errors.begin(), port.errors.end(),
                    [&](const PortCounter& counter) { return counter.name == base; });
    if (number > 0 && !there) port.errors.push_back({std::string(base), number});
    return true;
}

bool gid_fact(const File& file, Port& into) {
    if (const auto index = index_below(file.name, "gids/")) {
        into.gids[*index].address = file.value;
        return listed_gid(*index, file.value, "", "") || empty_gid(file.value);
    }
    if (const auto index = index_below(file.name, "gid_attrs/types/")) {
        into.gids[*index].type = file.value;
        return file.value == "IB/RoCE v1" || file.value == "RoCE v2";
    }
    if (const auto index = index_below(file.name, "gid_attrs/ndevs/")) {
        into.gids[*index].interface = file.value;
        return interface_name(file.value);
    }
    return true;
}

/// Whether the value is one of its file.
bool port_fact(const File& file, Port& into) {
    PastedPort& port = into.port;
    if (file.name == "state") return take_state(file.value, port);
    if (file.name == "link_layer") return take_link_layer(file.value, port);
    if (file.name == "rate") return take_rate(file.value, "Gb/sec", port);
    if (file.name.starts_with("counters/") || file.name.starts_with("hw_counters/"))
        return counter(file.name, file.value, port);
    return gid_fact(file, into);
}

/// A message of grep or cat on one of these files: empty GID types cannot be read.
bool complaint(std::string_view text) {
    return (text.starts_with("grep: ") || text.starts_with("cat: ")) &&
           text.find("infiniband/") != std::string_view::npos;
}

PastedPort whole_port(const std::string& name, const PastedPort& facts, int number, Port& from) {
    PastedPort port = std::move(from.port);
    port.device = name;
    port.port = number;
    port.guid = facts.guid;
    port.vendor_id = facts.vendor_id;
    port.iwarp = facts.iwarp;
    port.pci = facts.pci;
    port.numa_node = facts.numa_node;
    for (const auto& [index, entry] : from.gids) {
        // sysfs has one word for InfiniBand and RoCE version 1.
        const bool infiniband = port.link_layer == "InfiniBand" && entry.type == "IB/RoCE v1";
        if (auto gid =
                listed_gid(index, entry.address, infiniband ? "IB" : entry.type, entry.interface))
            port.gids.push_back(std::move(*gid));
    }
    const auto first = from.gids.find(0);
    if (first != from.gids.end() && interface_name(first->second.interface))
        port.interface = first->second.interface;
    return port;
}

bool recognise(const Lines& lines) {
    return std::any_of(lines.lines.begin(), lines.lines.end(), [](const PastedLine& line) {
        const auto file = read_file_line(line.text);
        return file && file->port;
    });
}

Reading read(const Lines& lines) {
    Reading reading;
    std::vector<std::string> order;
    std::map<std::string, Device, std::less<>> devices;
    for (const PastedLine& line : lines.lines) {
        const bool of_the_tool = complaint(line.text);
        const auto file = of_the_tool ? std::nullopt : read_file_line(line.text);
        reading.understood.push_back(of_the_tool);
        if (!file) continue;
        auto at = devices.find(file->device);
        if (at == devices.end()) {
            order.emplace_back(file->device);
            at = devices.emplace(order.back(), Device{}).first;
        }
        bool understood = device_fact(*file, at->second.facts);
        if (file->port) understood = port_fact(*file, at->second.ports[*file->port]) && understood;
        reading.understood.back() = understood;
    }
    std::vector<PastedPort> ports;
    for (const std::string& name : order) {
        Device& device = devices.at(name);
        for (auto& [number, port] : device.ports)
            ports.push_back(whole_port(name, device.facts, number, port));
    }
    reading.machine = machine_of_ports(ports);
    return reading;
}

}  // namespace

Importer sys_class_infiniband_importer() {
    return {"/sys/class/infiniband", recognise, read_to_open_end<read>};
}

}  // namespace toporun::detect
