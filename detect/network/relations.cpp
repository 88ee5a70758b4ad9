#include "detect/network/relations.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned long kVendorMellanox = 0x15b3;
/// Virtual functions of Connect-IB, ConnectX-4 to 6 and later ("mlx5Gen"), BlueField (Linux
/// drivers/net/ethernet/mellanox/mlx5/core/main.c) and ConnectX-3 (mlx4/main.c).
constexpr std::array<unsigned long, 9> kMellanoxVirtual = {0x1004, 0x1012, 0x1014, 0x1016, 0x1018,
                                                           0x101a, 0x101c, 0x101e, 0xa2d3};
constexpr std::array<std::string_view, 4> kVirtualDrivers = {"iavf", "ixgbevf", "igbvf",
                                                             "octeontx2-nicvf"};

std::string directory_of(const ListedInterface& listed) {
    return "/sys/class/net/" + listed.name;
}

std::string name_of_index(long long index, const Files& files,
                          const std::vector<ListedInterface>& all) {
    for (const ListedInterface& other : all) {
        const auto own = other.link ? std::optional<long long>(other.link->index)
                                    : files.integer(directory_of(other) + "/ifindex");
        if (own == index) return printable(other.name);
    }
    return {};
}

bool is_listed(const std::string& name, const std::vector<ListedInterface>& all) {
    return std::any_of(all.begin(), all.end(),
                       [&](const ListedInterface& other) { return other.name == name; });
}

std::string last_part(const std::string& path) {
    return path.substr(path.rfind('/') + 1);
}

/// The name in the one `lower_NAME` link that stacked interfaces have; "" for none or several.
std::string only_lower(const Files& files, const std::string& directory) {
    constexpr std::string_view kPrefix = "lower_";
    std::string found;
    for (const std::string& name : files.list(directory)) {
        if (!name.starts_with(kPrefix)) continue;
        if (!found.empty()) return {};
        found = name.substr(kPrefix.size());
    }
    return found;
}

std::string parent_in_files(const Files& files, const ListedInterface& listed,
                            const std::vector<ListedInterface>& all) {
    const std::string directory = directory_of(listed);
    if (const std::string lower = only_lower(files, directory); !lower.empty()) return lower;
    if (const auto vlan = files.read("/proc/net/vlan/" + listed.name, 4096))
        if (const auto name = value_of(*vlan, "Device"); name && is_listed(*name, all))
            return *name;
    if (files.real()) return {};  // iflink may be the number of another namespace
    const auto own = files.integer(directory + "/ifindex");
    const auto below = files.integer(directory + "/iflink");
    if (!below || *below <= 0 || below == own) return {};
    return name_of_index(*below, files, all);
}

}  // namespace

std::string master_of(const Files& files, const ListedInterface& listed,
                      const std::vector<ListedInterface>& all) {
    if (listed.link) {
        return listed.link->master == 0 ? std::string()
                                        : name_of_index(listed.link->master, files, all);
    }
    const auto path = files.real_path(directory_of(listed) + "/master");
    return path ? printable(last_part(*path)) : std::string();
}

std::string parent_of(const Files& files, const ListedInterface& listed, NicKind kind,
                      const std::vector<ListedInterface>& all) {
    const bool stacked = kind == NicKind::vlan || kind == NicKind::tunnel ||
                         kind == NicKind::ethernet || kind == NicKind::ipoib;
    if (!stacked) return {};
    if (listed.link && listed.link->parent != 0)
        return name_of_index(listed.link->parent, files, all);
    const std::string directory = directory_of(listed);
    if (!listed.in_sysfs) return {};
    if (kind == NicKind::ipoib)  // a child has the device of its parent, and says so
        return files.line(directory + "/parent").value_or("");
    if (files.exists(directory + "/device")) return {};
    return printable(parent_in_files(files, listed, all));
}

std::string driver_of(const Files& files, const std::string& device_directory) {
    if (const auto path = files.real_path(device_directory + "/driver"))
        return printable(last_part(*path));
    const std::string uevent = files.read(device_directory + "/uevent", 4096).value_or("");
    for (const std::string& line : split(uevent, '\n'))
        if (line.starts_with("DRIVER=")) return printable(trim(line.substr(7)));
    return {};
}

bool is_virtual_function(const Files& files, const std::string& device_directory,
                         const std::string& driver) {
    if (files.exists(device_directory + "/physfn")) return true;
    if (std::find(kVirtualDrivers.begin(), kVirtualDrivers.end(), driver) != kVirtualDrivers.end())
        return true;
    if (files.hex(device_directory + "/vendor") != kVendorMellanox) return false;
    const auto device = files.hex(device_directory + "/device");
    return device && std::find(kMellanoxVirtual.begin(), kMellanoxVirtual.end(), *device) !=
                         kMellanoxVirtual.end();
}

}  // namespace toporun::detect
