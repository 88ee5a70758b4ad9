#include "detect/network/network.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <span>

#include "base/text.hpp"
#include "detect/network/interface_list.hpp"
#include "detect/network/rdma.hpp"
#include "detect/network/relations.hpp"
#include "detect/network/routes.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostDestinations = 64;

/// Virtual pairs and tunnels report a constant of their driver, no speed of a wire.
bool speed_is_real(NicKind kind) {
    return kind != NicKind::veth && kind != NicKind::tunnel && kind != NicKind::other;
}

NicKind kind_of(const Files& files, const ListedInterface& listed) {
    const auto word = listed.link ? kind_of_driver_word(listed.link->kind) : std::nullopt;
    if (word) return *word;
    if (listed.in_sysfs) return interface_kind(files, listed.name);
    return kind_of_hardware_type(listed.link->hardware_type).value_or(NicKind::other);
}

void read_device(PciTree& pci, const std::string& directory, Nic& nic) {
    const Files& files = pci.files();
    const auto device = files.real_path(directory + "/device");
    if (!device) return;
    nic.driver = driver_of(files, directory + "/device");
    nic.virtual_function = is_virtual_function(files, directory + "/device", nic.driver);
    nic.pci = pci_in_path(*device);
    if (!nic.pci) return;
    if (const auto& on_bus = pci.device(*nic.pci)) {
        nic.numa_node = on_bus->numa_node;
        nic.pci_id = pci_id_text(on_bus->vendor, on_bus->device);
    }
    const PcieLink& link = pci.link(*nic.pci);
    nic.pcie_generation = link.generation;
    nic.pcie_width = link.width;
    nic.pcie_generation_now = link.generation_now;
    nic.pcie_width_now = link.width_now;
}

void read_sysfs(PciTree& pci, const std::string& directory, Nic& nic) {
    const Files& files = pci.files();
    const auto speed = nic.state == "down" || !speed_is_real(nic.kind)
                           ? std::nullopt
                           : files.integer(directory + "/speed");  // Mb/s, -1 unknown
    if (speed && *speed > 0 && *speed < 100'000'000)
        nic.speed_gbits = static_cast<double>(*speed) / 1000;
    if (!nic.mtu) {
        const auto mtu = files.integer(directory + "/mtu");
        if (mtu && *mtu > 0 && *mtu <= 1 << 24) nic.mtu = static_cast<int>(*mtu);
    }
    if (nic.os_index == 0) {
        const auto index = files.integer(directory + "/ifindex");
        if (index && *index > 0 && *index <= INT32_MAX) nic.os_index = static_cast<int>(*index);
    }
    read_device(pci, directory, nic);
}

Nic read_interface(PciTree& pci, const ListedInterface& listed,
                   const std::vector<ListedInterface>& all) {
    const Files& files = pci.files();
    Nic nic;
    nic.name = printable(listed.name);
    nic.kind = kind_of(files, listed);
    nic.state = listed.state;
    nic.addresses = listed.addresses;
    if (listed.link) {
        nic.mtu = listed.link->mtu;
        nic.os_index = listed.link->index;
    }
    if (listed.in_sysfs) read_sysfs(pci, "/sys/class/net/" + listed.name, nic);
    nic.master = master_of(files, listed, all);
    nic.parent = parent_of(files, listed, nic.kind, all);
    return nic;
}

/// The kernel's error in words; it says EINVAL of a route that discards everything.
std::string reason(int error) {
    return error == EINVAL ? "a black hole" : std::strerror(error);
}

void detect_routes(const std::vector<std::string>& destinations, Machine& machine) {
    const std::size_t count = std::min(destinations.size(), kMostDestinations);
    for (const std::string& destination : std::span(destinations).first(count)) {
        RouteAnswer answer = kernel_route(destination);
        if (answer.route)
            machine.routes.push_back(std::move(*answer.route));
        else if (answer.is_address)
            machine.notes.push_back(
                fmt::format("no route to {}: {}", printable(destination), reason(answer.error)));
        else
            machine.notes.push_back(
                fmt::format("route to {} unknown: not an address", printable(destination)));
    }
}

}  // namespace

std::vector<Nic> detect_nics(PciTree& pci, bool deep, std::optional<int> gid_index,
                             std::vector<std::string>& notes) {
    const Files& files = pci.files();
    std::vector<Nic> nics;
    std::vector<ListedInterface> all = list_interfaces(files);
    if (all.size() > kMostMachineNics) {
        notes.push_back(fmt::format("{} interfaces: those after the first {} are left out",
                                    all.size(), kMostMachineNics));
        all.resize(kMostMachineNics);
    }
    for (const ListedInterface& listed : all) nics.push_back(read_interface(pci, listed, all));
    if (!std::all_of(all.begin(), all.end(), [](const auto& listed) { return listed.in_sysfs; }))
        notes.emplace_back(
            "/sys shows another network namespace: speed, driver and place of some interfaces are "
            "unknown");
    const std::string route = default_route_interface(files);
    for (Nic& nic : nics) nic.default_route = !route.empty() && nic.name == route;
    add_rdma_devices(pci, {deep, gid_index}, nics);
    if (nics.size() > kMostMachineNics) nics.resize(kMostMachineNics);
    return nics;
}

void detect_network(const Sources& sources, PciTree& pci, Machine& machine) {
    machine.nics = detect_nics(pci, sources.deep, sources.gid_index, machine.notes);
    if (pci.files().real()) detect_routes(sources.destinations, machine);
}

}  // namespace toporun::detect
