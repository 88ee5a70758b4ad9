#include "env/gid.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <set>

#include "base/text.hpp"
#include "env/hca.hpp"
#include "env/interface.hpp"
#include "env/interface_model.hpp"

namespace toporun::env {

using detect::Gid;
using detect::Nic;

namespace {

constexpr const char* kGidIndex = "NCCL_IB_GID_INDEX";
constexpr int kAutomaticSince = 22105;

bool is_ipv4(const Gid& gid) {
    return plain_address(gid) != gid.address;
}

/// NCCL's validGid: neither null nor fe80::/64.
bool is_valid(const Gid& gid) {
    const auto address = parse_ip(gid.address);
    return address && !is_null(gid) && !(address->v6 && link_local(*address));
}

bool types_known(const Nic& nic) {
    return !nic.gids.empty() && std::none_of(nic.gids.begin(), nic.gids.end(),
                                             [](const Gid& gid) { return gid.type.empty(); });
}

/// "index 3 (RoCE v2, 10.0.0.1)".
std::string entry_text(const Nic& nic, long long index) {
    const Gid* gid = gid_at(nic, index);
    if (gid == nullptr) return fmt::format("index {} (empty)", index);
    return fmt::format("index {} ({}, {})", index,
                       gid->type.empty() ? "type unknown" : printable(gid->type),
                       printable(plain_address(*gid)));
}

int default_index(const Inputs& inputs, const Nic& nic) {
    return chooses_gid(inputs) ? automatic_gid_index(nic) : 0;
}

bool default_is_right(const Inputs& inputs, const Nic& nic) {
    const Gid* gid = gid_at(nic, default_index(inputs, nic));
    return gid != nullptr && is_routable_v2(*gid);
}

struct Table {
    std::vector<int> ports;  ///< RoCE ports
    std::vector<std::string> defaults;
    std::set<int> best;    ///< the right indices, of all ports
    bool known = true;     ///< every port has a table with types
    bool complete = true;  ///< every port has a right entry
    bool right = true;     ///< NCCL takes a right entry on every port
};

Table read_table(const Inputs& inputs, const std::vector<int>& ports) {
    Table table;
    for (const int port : ports) {
        const Nic& nic = nic_at(inputs, port);
        if (!is_roce(nic)) continue;
        table.ports.push_back(port);
        if (!types_known(nic)) {
            table.known = false;
            continue;
        }
        table.defaults.push_back(
            fmt::format("{} {}", port_name(nic), entry_text(nic, default_index(inputs, nic))));
        table.right = table.right && default_is_right(inputs, nic);
        if (const Gid* best = best_gid(nic))
            table.best.insert(best->index);
        else
            table.complete = false;
    }
    return table;
}

std::string shortened(const std::vector<std::string>& lines) {
    constexpr std::size_t kNamed = 3;
    const std::vector<std::string> first(
        lines.begin(), lines.begin() + static_cast<std::ptrdiff_t>(std::min(lines.size(), kNamed)));
    return join(first, ", ") +
           (lines.size() > kNamed ? fmt::format(" and {} more", lines.size() - kNamed) : "");
}

std::string gid_default_text(const Inputs& inputs, const Table& table) {
    const std::string rule = chooses_gid(inputs) ? "picks from the GID table (-1, 2.21.5 and later)"
                                                 : "takes index 0 on every port (before 2.21.5)";
    return fmt::format("{} {}{}", library_text(inputs), rule,
                       table.defaults.empty() ? "" : ": " + shortened(table.defaults));
}

/// What else the user has set to steer NCCL's own choice; "" when nothing.
std::string steered_by(const Inputs& inputs) {
    for (const char* name :
         {"NCCL_IB_ADDR_FAMILY", "NCCL_IB_ADDR_RANGE", "NCCL_IB_ROCE_VERSION_NUM"})
        if (user_has(inputs, name)) return name;
    return "";
}

std::string why_left(const Inputs& inputs, const Table& table) {
    if (inputs.rccl) return "left to RCCL, whose own rule is not known here";
    if (const std::string name = steered_by(inputs); !name.empty())
        return fmt::format("{} is set and steers NCCL's own choice", name);
    if (!table.known)
        return chooses_gid(inputs)
                   ? "NCCL chooses from the GID table by itself since 2.21.5"
                   : "the GID table is not known, and a wrong index ends in time-outs";
    if (table.right) return "NCCL's own choice is RoCE v2 of a routable address on every port";
    if (!table.complete)
        return "a port has no RoCE v2 entry of a routable address: no index is right for all";
    if (table.best.size() > 1)
        return "the right index differs between the ports, and the variable holds for all of them";
    return "";
}

}  // namespace

std::string plain_address(const Gid& gid) {
    const auto address = parse_ip(gid.address);
    if (!address || !address->v6) return gid.address;
    const auto& bytes = address->bytes;
    const bool mapped = std::all_of(bytes.begin(), bytes.begin() + 10,
                                    [](unsigned char byte) { return byte == 0; }) &&
                        bytes[10] == 0xff && bytes[11] == 0xff;
    if (!mapped) return gid.address;
    return fmt::format("{}.{}.{}.{}", bytes[12], bytes[13], bytes[14], bytes[15]);
}

bool is_null(const Gid& gid) {
    const auto address = parse_ip(gid.address);
    return address && std::all_of(address->bytes.begin(), address->bytes.end(),
                                  [](unsigned char byte) { return byte == 0; });
}

bool is_link_local(const Gid& gid) {
    const auto address = parse_ip(plain_address(gid));
    return address && link_local(*address);
}

bool is_routable_v2(const Gid& gid) {
    return gid.type == "RoCE v2" && !is_link_local(gid) && !is_null(gid) && parse_ip(gid.address);
}

const Gid* best_gid(const Nic& nic) {
    const Gid* best = nullptr;
    for (const Gid& gid : nic.gids) {
        if (!is_routable_v2(gid)) continue;
        if (best == nullptr) best = &gid;
        if (is_ipv4(gid)) return &gid;
    }
    return best;
}

const Gid* gid_at(const Nic& nic, long long index) {
    for (const Gid& gid : nic.gids)
        if (gid.index == index) return &gid;
    return nullptr;
}

bool chooses_gid(const Inputs& inputs) {
    return !inputs.nccl || *inputs.nccl >= kAutomaticSince;
}

int automatic_gid_index(const Nic& nic) {
    const Gid* now = gid_at(nic, 0);
    for (const Gid& gid : nic.gids) {
        if (gid.index == 0 || !is_ipv4(gid)) continue;
        const bool other_family = now == nullptr || !is_ipv4(*now);
        const bool other_version = now == nullptr || now->type != gid.type || !is_valid(*now);
        if (other_family || (is_valid(gid) && other_version && gid.type == "RoCE v2")) now = &gid;
    }
    return now == nullptr ? 0 : now->index;
}

GidAdvice gid_index_advice(const Inputs& inputs, const Nic& nic, const std::vector<int>& ports) {
    const Gid* best = best_gid(nic);
    const std::string better = best == nullptr
                                   ? "give the port's interface an IP address"
                                   : fmt::format("index {} is RoCE v2 of {}", best->index,
                                                 printable(plain_address(*best)));
    if (user_has(inputs, kGidIndex) && inputs.nccl && chooses_gid(inputs))
        return {"unset NCCL_IB_GID_INDEX",
                "NCCL 2.21.5 and later choose by themselves; here " + better};
    if (best == nullptr) return {better, ""};
    const Table table = read_table(inputs, ports);
    if (table.known && table.complete && table.best.size() == 1)
        return {fmt::format("export NCCL_IB_GID_INDEX={}", best->index),
                better + "; look with show_gids that it is so on all nodes"};
    return {"use NCCL 2.21.5 or later",
            fmt::format("it chooses port by port{}; here {}, but no index is right for all ports",
                        user_has(inputs, kGidIndex) ? " without NCCL_IB_GID_INDEX" : "", better)};
}

Setting decide_gid_index(const Inputs& inputs, const std::vector<int>& ports) {
    const Table table = read_table(inputs, ports);
    const std::string evidence =
        table.ports.size() == 1 ? "1 RoCE port" : fmt::format("{} RoCE ports", table.ports.size());
    Setting wanted =
        left_alone(kGidIndex, why_left(inputs, table), evidence, gid_default_text(inputs, table));
    if (!wanted.reason.empty()) return wanted;
    const int index = *table.best.begin();
    const Nic& first = nic_at(inputs, table.ports.front());
    wanted.value = std::to_string(index);
    wanted.origin = Origin::detected;
    wanted.reason = fmt::format(
        "the entry that NCCL takes is link-local or RoCE v1, which is not routed; {} is RoCE v2 of "
        "a routable address on every port",
        index);
    wanted.evidence =
        fmt::format("{}: {} {}", evidence, port_name(first), entry_text(first, index));
    return wanted;
}

}  // namespace toporun::env
