#include "detect/network/rdma.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.hpp"
#include "detect/network/port_state.hpp"
#include "detect/network/port_tables.hpp"
#include "detect/network/relations.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostPorts = 16;

struct Port {
    std::string device;
    int number = 0;
    std::string link_layer;
    std::string state;  ///< "active", "down", ... "" unknown
    std::optional<double> rate_gbits;
    std::string interface;  ///< "" = none
    bool efa = false;
    std::vector<Gid> gids;
    std::vector<PortCounter> errors;
};

/// What all ports of an RDMA device share.
struct Device {
    std::string directory;
    std::string guid;
    std::string driver;
    bool virtual_function = false;
    bool iwarp = false;
    std::optional<PciAddress> pci;
    std::string pci_id;
    std::optional<int> numa_node;
    PcieLink link;
};

/// "400 Gb/sec (4X NDR)": 400. "2.5 Gb/sec (1X SDR)": 2.5.
std::optional<double> rate(const std::optional<std::string>& text) {
    if (!text || text->find("Gb/sec") == std::string::npos) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || !(value > 0) || value > 1e6) return std::nullopt;
    return value;
}

/// Whether an interface of the device's PCI function belongs to `port`. Cards with two ports on one
/// function number their interfaces from 0; an IPoIB child has the number of its parent.
bool is_interface_of_port(const Files& files, const std::string& directory, int port, bool alone) {
    if (files.exists(directory + "/parent")) return false;
    const auto number = files.integer(directory + "/dev_port");
    return number ? *number == port - 1 : alone;
}

/// The interface of a port: the one its first GID belongs to, else the one of the same PCI function
/// with the same port number.
std::string interface_of(const Files& files, const std::string& device, int port) {
    const std::string directory = "/sys/class/infiniband/" + device;
    const auto by_gid =
        files.line(directory + "/ports/" + std::to_string(port) + "/gid_attrs/ndevs/0");
    if (by_gid && by_gid->find('/') == std::string::npos &&
        files.exists("/sys/class/net/" + *by_gid))
        return *by_gid;
    const std::vector<std::string> names = files.list(directory + "/device/net");
    for (const std::string& name : names)
        if (is_interface_of_port(files, directory + "/device/net/" + name, port, names.size() == 1))
            return name;
    return {};
}

Device read_device(PciTree& pci, const std::string& name) {
    const Files& files = pci.files();
    Device device;
    device.directory = "/sys/class/infiniband/" + name;
    device.guid = files.line(device.directory + "/node_guid").value_or("");
    if (device.guid.find_first_not_of("0:") == std::string::npos) device.guid.clear();
    device.driver = driver_of(files, device.directory + "/device");
    device.virtual_function =
        is_virtual_function(files, device.directory + "/device", device.driver);
    // "4: RNIC" (Linux drivers/infiniband/core/sysfs.c, node_type_show)
    device.iwarp = files.line(device.directory + "/node_type").value_or("").starts_with("4:");
    device.pci = pci_in_path(files.real_path(device.directory + "/device").value_or(""));
    if (!device.pci) return device;
    if (const auto& on_bus = pci.device(*device.pci)) {
        device.numa_node = on_bus->numa_node;
        device.pci_id = pci_id_text(on_bus->vendor, on_bus->device);
    }
    device.link = pci.link(*device.pci);
    return device;
}

Port read_port(const Files& files, const Device& device, const std::string& name, int number,
               const PortDepth& depth) {
    const std::string directory = device.directory + "/ports/" + std::to_string(number);
    const bool whole = depth.deep || !files.real();
    Port port;
    port.device = name;
    port.number = number;
    port.link_layer = files.line(directory + "/link_layer").value_or("");
    port.state = port_state_of(files.line(directory + "/state").value_or("")).value_or("");
    // A port without a link shows a rate that is no fact: the slowest one, "10 Gb/sec (4X SDR)".
    if (port.state != "down") port.rate_gbits = rate(files.line(directory + "/rate"));
    port.interface = interface_of(files, name, number);
    const auto vendor = files.hex(device.directory + "/device/vendor");
    port.efa = device.driver == "efa" || (vendor && *vendor == kVendorAmazon);
    port.gids =
        read_gids(files, directory, port.link_layer == "InfiniBand", whole, depth.gid_index);
    if (whole) port.errors = read_port_errors(files, directory);
    return port;
}

NicKind kind_without_interface(const Port& port) {
    if (port.efa) return NicKind::efa;
    if (port.link_layer == "Ethernet") return NicKind::roce;
    return port.link_layer == "InfiniBand" ? NicKind::infiniband : NicKind::other;
}

/// What both kinds of Nic get from their port.
void take_port(const Device& device, Port port, Nic& nic) {
    nic.rdma_device = printable(port.device);
    nic.port = port.number;
    nic.port_state = std::move(port.state);
    nic.guid = device.guid;
    nic.gids = std::move(port.gids);
    nic.errors = std::move(port.errors);
    nic.virtual_function = nic.virtual_function || device.virtual_function;
    nic.iwarp = device.iwarp;
    if (nic.driver.empty()) nic.driver = device.driver;
    if (!nic.numa_node) nic.numa_node = device.numa_node;
    if (!nic.pci) {
        nic.pci = device.pci;
        nic.pci_id = device.pci_id;
        nic.pcie_generation = device.link.generation;
        nic.pcie_width = device.link.width;
        nic.pcie_generation_now = device.link.generation_now;
        nic.pcie_width_now = device.link.width_now;
    }
}

void merge(const Device& device, Port port, Nic& nic) {
    if (nic.kind == NicKind::ethernet && !device.iwarp) nic.kind = NicKind::roce;
    if (!nic.speed_gbits || nic.kind == NicKind::ipoib) nic.speed_gbits = port.rate_gbits;
    take_port(device, std::move(port), nic);
}

Nic rdma_only(const Device& device, Port port) {
    Nic nic;
    nic.name = printable(port.device);
    nic.kind = device.iwarp ? NicKind::other : kind_without_interface(port);
    nic.state = port.state.empty() ? "unknown" : port.state == "active" ? "up" : "down";
    nic.speed_gbits = port.rate_gbits;
    take_port(device, std::move(port), nic);
    return nic;
}

std::vector<int> port_numbers(const Files& files, const Device& device) {
    std::vector<int> numbers;
    for (const std::string& name : files.list(device.directory + "/ports"))
        if (const auto number = to_integer(name); number && *number > 0 && *number < 256)
            numbers.push_back(static_cast<int>(*number));
    std::sort(numbers.begin(), numbers.end());
    if (numbers.size() > kMostPorts) numbers.resize(kMostPorts);
    return numbers;
}

/// The kernel numbers devices in the order in which it found them, which is NCCL's order too.
std::vector<std::string> devices_in_order(const Files& files) {
    std::vector<std::string> names = files.list("/sys/class/infiniband");
    std::stable_sort(names.begin(), names.end(), [](const std::string& a, const std::string& b) {
        return compare_by_number(a, b) < 0;
    });
    return names;
}

}  // namespace

void add_rdma_devices(PciTree& pci, const PortDepth& depth, std::vector<Nic>& nics) {
    const Files& files = pci.files();
    const std::size_t interfaces = nics.size();
    for (const std::string& name : devices_in_order(files)) {
        const Device device = read_device(pci, name);
        for (const int number : port_numbers(files, device)) {
            Port port = read_port(files, device, name, number, depth);
            const auto end = nics.begin() + static_cast<std::ptrdiff_t>(interfaces);
            const auto same = std::find_if(nics.begin(), end, [&](const Nic& nic) {
                return !port.interface.empty() && nic.name == printable(port.interface);
            });
            if (same != end && !same->rdma_device) {
                merge(device, std::move(port), *same);
                continue;
            }
            Nic alone = rdma_only(device, std::move(port));
            if (same != end) alone.master = same->name;  // a bond of several devices
            nics.push_back(std::move(alone));
        }
    }
}

}  // namespace toporun::detect
