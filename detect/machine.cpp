#include "detect/machine.hpp"

#include <algorithm>
#include <array>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

constexpr std::array<std::string_view, 12> kPathNames = {"LOC", "NVL", "NVB", "C2C", "PIX", "PXB",
                                                         "P2C", "PXN", "PHB", "SYS", "NET", "DIS"};
constexpr std::array<std::string_view, 13> kNicKindNames = {
    "ethernet", "ipoib", "infiniband", "roce", "efa",      "bond", "vlan",
    "bridge",   "veth",  "tunnel",     "vf",   "loopback", "other"};

template <class Enum, std::size_t N>
std::optional<Enum> find_name(const std::array<std::string_view, N>& names, std::string_view name) {
    const auto found = std::find(names.begin(), names.end(), name);
    if (found == names.end()) return std::nullopt;
    return static_cast<Enum>(found - names.begin());
}

}  // namespace

std::string_view path_name(PathType path) {
    return kPathNames.at(static_cast<std::size_t>(path));
}
std::optional<PathType> parse_path_name(std::string_view name) {
    return find_name<PathType>(kPathNames, name);
}
std::string_view nic_kind_name(NicKind kind) {
    return kNicKindNames.at(static_cast<std::size_t>(kind));
}
std::optional<NicKind> parse_nic_kind(std::string_view name) {
    return find_name<NicKind>(kNicKindNames, name);
}

bool rdma_usable(const Nic& nic) {
    if (!nic.rdma_device) return false;
    if (!nic.port_state.empty()) return nic.port_state == "active";
    return nic.state != "down" || nic.kind == NicKind::ipoib;
}

std::optional<int> nccl_version_code(const std::optional<std::string>& version) {
    if (!version) return std::nullopt;
    const std::vector<std::string> parts = split(*version, '.');
    if (parts.size() < 2) return std::nullopt;
    int code = 0;
    for (std::size_t i = 0; i < 3; ++i) {
        const auto number = i < parts.size() ? to_integer(parts[i]) : 0;
        if (!number || *number < 0 || *number > 99) return std::nullopt;
        code = code * 100 + static_cast<int>(*number);
    }
    return code;
}

}  // namespace toporun::detect
