#include <fmt/format.h>

#include <map>

#include "base/text.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view_parts.hpp"

/// Interfaces and RDMA ports.
namespace toporun::launcher {
namespace {

using detect::Machine;
using detect::Nic;
using detect::NicKind;

/// More members of a group than this are told in one line.
constexpr std::size_t kMostRowsOfGroup = 2;

/// What a NIC is told together with when there are many: its kind for virtual ones, "down" for
/// those that carry nothing; "" for those that always have a row.
std::string group_of(const Machine& machine, std::size_t position) {
    const Nic& nic = machine.nics[position];
    if (nic.kind == NicKind::vf && nic.addresses.empty()) return "vf";
    if (nic.default_route || nic.rdma_device) return {};
    if (nic.kind == NicKind::loopback) return "loopback";
    if (nic.state == "down") return "down";
    if (nic.kind == NicKind::other && nearest_gpus(machine, position)) return {};
    for (const NicKind kind : {NicKind::veth, NicKind::tunnel, NicKind::bridge, NicKind::vlan,
                               NicKind::vf, NicKind::other})
        if (nic.kind == kind) return std::string(detect::nic_kind_name(kind));
    return {};
}

struct Groups {
    std::vector<std::size_t> rows;                           ///< positions in Machine::nics
    std::map<std::string, std::vector<std::string>> folded;  ///< names by group
};

Groups groups_of(const Machine& machine) {
    std::map<std::string, std::size_t> sizes;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) ++sizes[group_of(machine, i)];
    Groups groups;
    for (std::size_t i = 0; i < machine.nics.size(); ++i) {
        const std::string group = group_of(machine, i);
        const bool folds = !group.empty() && machine.nics.size() > 1 &&
                           (group == "loopback" || sizes[group] > kMostRowsOfGroup);
        if (folds)
            groups.folded[group].push_back(machine.nics[i].name);
        else
            groups.rows.push_back(i);
    }
    return groups;
}

/// "0,1 (PIX)", "all (PHB)"
std::string nearest_cell(const Machine& machine, std::size_t nic) {
    const auto nearest = nearest_gpus(machine, nic);
    if (!nearest) return {};
    const bool all = nearest->indices.size() == machine.gpus.size() && machine.gpus.size() > 1;
    return fmt::format("{} ({})", all ? "all" : index_list(nearest->indices),
                       detect::path_name(nearest->path));
}

std::string pcie_cell(const Nic& nic) {
    const bool slower = nic.pcie_generation && nic.pcie_generation_now < nic.pcie_generation &&
                        nic.pcie_generation_now;
    const bool narrower =
        nic.pcie_width && nic.pcie_width_now && nic.pcie_width_now < nic.pcie_width;
    if (!slower && !narrower) return {};
    const auto link = [](const std::optional<int>& generation, const std::optional<int>& width) {
        std::vector<std::string> words;
        if (generation) words.push_back(fmt::format("Gen{}", *generation));
        if (width) words.push_back(fmt::format("x{}", *width));
        return join(words, " ");
    };
    return link(nic.pcie_generation_now, nic.pcie_width_now) + " of " +
           link(nic.pcie_generation, nic.pcie_width);
}

/// "mlx5_0:1", with the port's state where it is another than the interface's.
std::string rdma_cell(const Nic& nic) {
    if (!nic.rdma_device) return {};
    std::string cell = *nic.rdma_device;
    if (nic.port) cell += fmt::format(":{}", *nic.port);
    const std::string expected = nic.state == "up" ? "active" : nic.state;
    if (!nic.port_state.empty() && nic.port_state != expected) cell += " " + nic.port_state;
    return cell;
}

/// What it is a part of.
std::string relation(const Nic& nic) {
    if (!nic.master.empty()) return "member of " + nic.master;
    if (!nic.parent.empty()) return "on " + nic.parent;
    if (nic.iwarp) return "iWARP";
    return nic.virtual_function && nic.kind != NicKind::vf ? "virtual function" : "";
}

/// Addresses that fit into `room` columns, at least one; link-local ones only where there is no
/// other.
std::string address_cell(const Nic& nic, std::size_t room) {
    std::vector<std::string> addresses;
    for (const std::string& address : nic.addresses)
        if (!address.starts_with("fe80:")) addresses.push_back(address);
    if (addresses.empty()) addresses = nic.addresses;
    std::string tail = nic.default_route ? " (default route)" : "";
    if (const std::string part = relation(nic); !part.empty()) tail += " (" + part + ")";
    std::string cell;
    for (std::size_t i = 0; i < addresses.size(); ++i) {
        const std::string more = cell.empty() ? addresses[i] : cell + " " + addresses[i];
        if (i > 0 && text_width(more) + tail.size() > room) {
            cell += fmt::format(" +{}", addresses.size() - i);
            break;
        }
        cell = more;
    }
    return std::string(trim(cell + tail));
}

std::vector<std::string> nic_cells(const Machine& machine, std::size_t position) {
    const Nic& nic = machine.nics[position];
    const bool named_by_device = nic.rdma_device == nic.name;
    const bool state_known = nic.state == "up" || nic.state == "down";
    const bool kind_known = nic.kind != NicKind::other || state_known;
    return {nic.name,
            kind_known ? std::string(detect::nic_kind_name(nic.kind)) : "",
            state_known ? nic.state : "",
            nic.speed_gbits ? rate_text(*nic.speed_gbits) : "",
            nic.mtu ? fmt::format("{}", *nic.mtu) : "",
            named_by_device && nic.port.value_or(1) == 1 ? "" : rdma_cell(nic),
            nic.numa_node ? fmt::format("{}", *nic.numa_node) : "",
            pcie_cell(nic),
            nearest_cell(machine, position)};
}

std::string nic_table(const Machine& machine, const std::vector<std::size_t>& rows) {
    const std::vector<std::string> header = {"name", "kind", "state", "Gb/s",    "MTU",
                                             "RDMA", "NUMA", "PCIe",  "near GPU"};
    Table measure(header);
    for (const std::size_t row : rows) measure.row(nic_cells(machine, row));
    std::vector<std::string> whole = header;
    whole.emplace_back("addresses");
    Table table(whole);
    constexpr std::size_t kLeastRoom = 20;
    const std::size_t before = measure.width();
    const std::size_t room = before + kLeastRoom > kViewWidth ? kLeastRoom : kViewWidth - before;
    for (const std::size_t row : rows) {
        std::vector<std::string> cells = nic_cells(machine, row);
        cells.push_back(address_cell(machine.nics[row], room));
        table.row(cells);
    }
    return table.text();
}

/// "  30 veth: cali0 cali1 ..." in one line.
std::string folded_line(const std::string& group, const std::vector<std::string>& names) {
    std::string line = names.size() > 1 ? fmt::format("  {} {}:", names.size(), group)
                                        : fmt::format("  {}:", group);
    constexpr std::size_t kRoomForRest = 12;
    for (std::size_t i = 0; i < names.size(); ++i) {
        const std::string name = " " + printable(names[i]);
        if (i > 0 && text_width(line + name) + kRoomForRest > kViewWidth)
            return line + fmt::format(" and {} more\n", names.size() - i);
        line += name;
    }
    return line + "\n";
}

/// Ports with the same counters in one line.
std::string error_lines(const Machine& machine) {
    std::map<std::string, std::vector<std::string>> ports;
    for (const Nic& nic : machine.nics) {
        std::vector<std::string> counters;
        for (const detect::PortCounter& counter : nic.errors)
            counters.push_back(fmt::format("{} {}", counter.name, counter.value));
        if (!counters.empty()) ports[printable(join(counters, ", "))].push_back(nic_label(nic));
    }
    std::string out;
    for (const auto& [counters, names] : ports)
        out += fmt::format("  errors of {}: {}\n", name_list(names), counters);
    return out;
}

std::string route_lines(const Machine& machine) {
    std::string out;
    for (const detect::Route& route : machine.routes) {
        std::string way = route.interface.empty() ? "none" : route.interface;
        if (!route.source.empty()) way += ", from " + route.source;
        out += fmt::format("  way to {}: {}\n", printable(route.destination), printable(way));
    }
    return out;
}

}  // namespace

std::string network_section(const Machine& machine) {
    const Groups groups = groups_of(machine);
    std::string out = nic_table(machine, groups.rows);
    for (const auto& [group, names] : groups.folded) out += folded_line(group, names);
    return titled("network", out + error_lines(machine) + route_lines(machine));
}

}  // namespace toporun::launcher
