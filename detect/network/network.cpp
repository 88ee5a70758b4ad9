#include "detect/network/network.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <memory>

#include "base/text.hpp"
#include "detect/gpu/pci.hpp"
#include "detect/network/rdma.hpp"
#include "detect/network/routes.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostInterfaces = 4096;
constexpr unsigned long kUp = 0x1;  // linux/if.h IFF_UP, in /sys/class/net/*/flags

/// An interface as the kernel lists it, before sysfs is read.
struct Listed {
    std::string name;
    std::string state = "unknown";
    std::vector<std::string> addresses;
};

int prefix_length(const void* mask, std::size_t size) {
    const auto* bytes = static_cast<const unsigned char*>(mask);
    int bits = 0;
    for (std::size_t i = 0; i < size; ++i) bits += std::popcount(bytes[i]);
    return bits;
}

std::string address_text(const ifaddrs& entry) {
    char text[INET6_ADDRSTRLEN] = "";
    const bool v4 = entry.ifa_addr->sa_family == AF_INET;
    // The kernel hands out sockaddr_in and sockaddr_in6 behind sockaddr pointers.
    const auto field = [&](const sockaddr* address) -> const void* {
        if (v4) return &reinterpret_cast<const sockaddr_in*>(address)->sin_addr;
        return &reinterpret_cast<const sockaddr_in6*>(address)->sin6_addr;
    };
    if (inet_ntop(entry.ifa_addr->sa_family, field(entry.ifa_addr), text, sizeof text) == nullptr)
        return {};
    if (entry.ifa_netmask == nullptr) return text;
    return fmt::format("{}/{}", text, prefix_length(field(entry.ifa_netmask), v4 ? 4 : 16));
}

std::vector<Listed> list_real() {
    std::vector<Listed> found;
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return found;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        // An alias ("eth0:1") is a label on an address, not an interface.
        const std::string name = split(entry->ifa_name, ':').front();
        auto same = std::find_if(found.begin(), found.end(),
                                 [&](const Listed& listed) { return listed.name == name; });
        if (same == found.end()) {
            if (found.size() == kMostInterfaces) break;
            found.push_back({name, "", {}});
            same = std::prev(found.end());
            same->state = (entry->ifa_flags & IFF_UP) != 0 && (entry->ifa_flags & IFF_RUNNING) != 0
                              ? "up"
                              : "down";
        }
        const int family = entry->ifa_addr == nullptr ? AF_UNSPEC : entry->ifa_addr->sa_family;
        if (family != AF_INET && family != AF_INET6) continue;
        if (std::string text = address_text(*entry); !text.empty())
            same->addresses.push_back(std::move(text));
    }
    return found;
}

/// The kernel's RUNNING flag is not in sysfs; carrier and operstate tell the same.
std::string state_of_tree(const Files& files, const std::string& directory) {
    const auto flags = files.hex(directory + "/flags");
    const auto carrier = files.integer(directory + "/carrier");
    const std::string operational = files.line(directory + "/operstate").value_or("unknown");
    if ((flags && (*flags & kUp) == 0) || carrier == 0) return "down";
    if (operational == "up" || carrier == 1) return "up";
    return operational == "unknown" ? "unknown" : "down";
}

std::vector<Listed> list_tree(const Files& files) {
    std::vector<std::pair<long long, Listed>> found;
    for (const std::string& name : files.list("/sys/class/net")) {
        const std::string directory = "/sys/class/net/" + name;
        const auto index = files.integer(directory + "/ifindex");
        if (!index || found.size() == kMostInterfaces) continue;  // bonding_masters is a file
        found.push_back({*index, {name, state_of_tree(files, directory), {}}});
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<Listed> ordered;
    for (auto& [index, listed] : found) ordered.push_back(std::move(listed));
    return ordered;
}

/// Virtual pairs and tunnels report a constant of their driver, no speed of a wire.
bool speed_is_real(NicKind kind) {
    return kind != NicKind::veth && kind != NicKind::tunnel && kind != NicKind::other;
}

Nic read_interface(const Files& files, const Listed& listed) {
    const std::string directory = "/sys/class/net/" + listed.name;
    Nic nic;
    nic.name = printable(listed.name);
    nic.kind = interface_kind(files, listed.name);
    nic.state = listed.state;
    nic.addresses = listed.addresses;
    const auto speed = nic.state == "down" || !speed_is_real(nic.kind)
                           ? std::nullopt
                           : files.integer(directory + "/speed");  // Mb/s, -1 unknown
    if (speed && *speed > 0 && *speed < 100'000'000)
        nic.speed_gbits = static_cast<double>(*speed) / 1000;
    const auto mtu = files.integer(directory + "/mtu");
    if (mtu && *mtu > 0 && *mtu <= 1 << 24) nic.mtu = static_cast<int>(*mtu);
    const auto index = files.integer(directory + "/ifindex");
    if (index && *index > 0 && *index <= INT32_MAX) nic.os_index = static_cast<int>(*index);
    if (const auto device = files.real_path(directory + "/device")) {
        nic.pci = pci_in_path(*device);
        const auto pci = nic.pci ? read_pci_device(files, *nic.pci) : std::nullopt;
        if (pci) nic.numa_node = pci->numa_node;
    }
    return nic;
}

}  // namespace

std::vector<Nic> detect_nics(const Files& files) {
    std::vector<Nic> nics;
    for (const Listed& listed : files.real() ? list_real() : list_tree(files))
        nics.push_back(read_interface(files, listed));
    const std::string route = default_route_interface(files);
    for (Nic& nic : nics) nic.default_route = !route.empty() && nic.name == route;
    add_rdma_devices(files, nics);
    return nics;
}

}  // namespace toporun::detect
