#include "detect/network/rdma.hpp"

#include <algorithm>
#include <charconv>
#include <string>

#include "base/text.hpp"
#include "detect/gpu/pci.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostPorts = 16;

struct Port {
    std::string device;
    int number = 0;
    std::string link_layer;
    std::string state;
    std::optional<double> rate_gbits;
    std::string interface;  ///< "" = none
    bool efa = false;
    std::optional<PciAddress> pci;
    std::optional<int> numa_node;
};

/// "400 Gb/sec (4X NDR)": 400. "2.5 Gb/sec (1X SDR)": 2.5.
std::optional<double> rate(const std::optional<std::string>& text) {
    if (!text || text->find("Gb/sec") == std::string::npos) return std::nullopt;
    double value = 0;
    const auto [end, error] = std::from_chars(text->data(), text->data() + text->size(), value);
    if (error != std::errc() || !(value > 0) || value > 1e6) return std::nullopt;
    return value;
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
    for (const std::string& name : names) {
        const auto number = files.integer(directory + "/device/net/" + name + "/dev_port");
        if (names.size() == 1 || number == port - 1) return name;
    }
    return {};
}

Port read_port(const Files& files, const std::string& device, int number) {
    const std::string directory = "/sys/class/infiniband/" + device;
    const std::string port_directory = directory + "/ports/" + std::to_string(number);
    Port port;
    port.device = device;
    port.number = number;
    port.link_layer = files.line(port_directory + "/link_layer").value_or("");
    const auto state = files.line(port_directory + "/state");  // "4: ACTIVE"
    port.state = !state ? "unknown" : state->ends_with(": ACTIVE") ? "up" : "down";
    port.rate_gbits = rate(files.line(port_directory + "/rate"));
    port.interface = interface_of(files, device, number);
    const std::string driver = files.real_path(directory + "/device/driver").value_or("");
    port.pci = pci_in_path(files.real_path(directory + "/device").value_or(""));
    const auto vendor = files.hex(directory + "/device/vendor");
    port.efa = driver.ends_with("/efa") || (vendor && *vendor == kVendorAmazon);
    if (port.pci)
        if (const auto pci = read_pci_device(files, *port.pci)) port.numa_node = pci->numa_node;
    return port;
}

NicKind kind_without_interface(const Port& port) {
    if (port.efa) return NicKind::efa;
    if (port.link_layer == "Ethernet") return NicKind::roce;
    return port.link_layer == "InfiniBand" ? NicKind::infiniband : NicKind::other;
}

void merge(const Port& port, Nic& nic) {
    nic.rdma_device = printable(port.device);
    nic.port = port.number;
    if (nic.kind == NicKind::ethernet) nic.kind = NicKind::roce;
    if (!nic.speed_gbits || nic.kind == NicKind::ipoib) nic.speed_gbits = port.rate_gbits;
    if (!nic.pci) nic.pci = port.pci;
    if (!nic.numa_node) nic.numa_node = port.numa_node;
}

Nic rdma_only(const Port& port) {
    Nic nic;
    nic.name = printable(port.device);
    nic.kind = kind_without_interface(port);
    nic.state = port.state;
    nic.speed_gbits = port.rate_gbits;
    nic.pci = port.pci;
    nic.numa_node = port.numa_node;
    nic.rdma_device = nic.name;
    nic.port = port.number;
    return nic;
}

}  // namespace

void add_rdma_devices(const Files& files, std::vector<Nic>& nics) {
    const std::size_t interfaces = nics.size();
    for (const std::string& device : files.list("/sys/class/infiniband")) {
        std::vector<int> numbers;
        for (const std::string& name : files.list("/sys/class/infiniband/" + device + "/ports"))
            if (const auto number = to_integer(name); number && *number > 0 && *number < 256)
                numbers.push_back(static_cast<int>(*number));
        std::sort(numbers.begin(), numbers.end());
        if (numbers.size() > kMostPorts) numbers.resize(kMostPorts);
        for (const int number : numbers) {
            const Port port = read_port(files, device, number);
            const auto end = nics.begin() + static_cast<std::ptrdiff_t>(interfaces);
            const auto same = std::find_if(nics.begin(), end, [&](const Nic& nic) {
                return !port.interface.empty() && nic.name == printable(port.interface) &&
                       !nic.rdma_device;
            });
            if (same != end)
                merge(port, *same);
            else
                nics.push_back(rdma_only(port));
        }
    }
}

}  // namespace toporun::detect
