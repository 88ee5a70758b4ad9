#include "detect/network/interface_list.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>
#include <ifaddrs.h>
#include <net/if.h>

#include <algorithm>
#include <bit>
#include <memory>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostInterfaces = 4096;
constexpr unsigned long kUp = 0x1;  // linux/if.h IFF_UP, in /sys/class/net/*/flags

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

std::vector<ListedInterface> list_real() {
    std::vector<ListedInterface> found;
    ifaddrs* first = nullptr;
    if (getifaddrs(&first) != 0) return found;
    const std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> owner(first, &freeifaddrs);
    for (const ifaddrs* entry = first; entry != nullptr; entry = entry->ifa_next) {
        // An alias ("eth0:1") is a label on an address, not an interface.
        const std::string name = split(entry->ifa_name, ':').front();
        auto same = std::find_if(found.begin(), found.end(), [&](const ListedInterface& listed) {
            return listed.name == name;
        });
        if (same == found.end()) {
            if (found.size() == kMostInterfaces) break;
            found.push_back({});
            same = std::prev(found.end());
            same->name = name;
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

void add_kernel_links(const Files& files, std::vector<ListedInterface>& interfaces) {
    const std::vector<KernelLink> links = kernel_links();
    for (ListedInterface& listed : interfaces) {
        const auto link = std::find_if(links.begin(), links.end(), [&](const KernelLink& other) {
            return other.name == listed.name;
        });
        if (link == links.end()) continue;
        listed.link = *link;
        listed.in_sysfs =
            files.integer("/sys/class/net/" + listed.name + "/ifindex") == link->index;
    }
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

std::vector<ListedInterface> list_tree(const Files& files) {
    std::vector<std::pair<long long, ListedInterface>> found;
    for (const std::string& name : files.list("/sys/class/net")) {
        const std::string directory = "/sys/class/net/" + name;
        const auto index = files.integer(directory + "/ifindex");
        if (!index || found.size() == kMostInterfaces) continue;  // bonding_masters is a file
        ListedInterface listed;
        listed.name = name;
        listed.state = state_of_tree(files, directory);
        found.emplace_back(*index, std::move(listed));
    }
    std::stable_sort(found.begin(), found.end(),
                     [](const auto& a, const auto& b) { return a.first < b.first; });
    std::vector<ListedInterface> ordered;
    for (auto& [index, listed] : found) ordered.push_back(std::move(listed));
    return ordered;
}

}  // namespace

std::vector<ListedInterface> list_interfaces(const Files& files) {
    if (!files.real()) return list_tree(files);
    std::vector<ListedInterface> found = list_real();
    add_kernel_links(files, found);
    return found;
}

}  // namespace toporun::detect
