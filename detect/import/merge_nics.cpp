#include <algorithm>

#include "detect/import/merge_facts.hpp"

namespace toporun::detect::merge {
namespace {

/// An interface with its column of the GPU x NIC matrices; an empty column is unknown.
struct Entry {
    Nic nic;
    std::vector<std::optional<PathType>> paths;
    std::vector<AcsRedirect> redirects;
    bool gone = false;  ///< joined with an earlier one
};

/// Whether the name is an interface's and not just that of the RDMA device.
bool has_interface(const Nic& nic) {
    return nic.rdma_device != nic.name;
}

/// A row of `topo -m` without a legend, "NIC3", names nothing that others could know.
bool numbered(const Nic& nic) {
    return !nic.rdma_device && nic.name.starts_with("NIC");
}

bool same_port(const Nic& a, const Nic& b) {
    return !a.port || !b.port || *a.port == *b.port;
}

std::size_t with_pci(const std::vector<Entry>& entries, const std::optional<PciAddress>& pci) {
    return static_cast<std::size_t>(
        std::count_if(entries.begin(), entries.end(),
                      [&](const Entry& entry) { return !entry.gone && entry.nic.pci == pci; }));
}

/// `pci_counts`: nobody else on either side has this bus id.
bool same_nic(const Nic& a, const Nic& b, bool pci_counts) {
    const bool names = has_interface(a) && has_interface(b);
    if (names && a.name != b.name && !numbered(a) && !numbered(b)) return false;
    if (a.rdma_device && b.rdma_device) return a.rdma_device == b.rdma_device && same_port(a, b);
    if (names && a.name == b.name) return true;
    return pci_counts && a.pci && a.pci == b.pci;
}

/// The kind is that of the interface (docs/machine.md); what the RDMA device knows makes a plain
/// Ethernet interface RoCE and an unknown one IPoIB.
NicKind join_kinds(const Nic& a, const Nic& b, bool iwarp) {
    const auto either = [&](NicKind kind) { return a.kind == kind || b.kind == kind; };
    const bool interface = has_interface(a) || has_interface(b);
    if (a.kind == b.kind) return a.kind;
    for (const NicKind kind : {NicKind::loopback, NicKind::bond, NicKind::vlan, NicKind::bridge,
                               NicKind::veth, NicKind::tunnel, NicKind::efa, NicKind::ipoib})
        if (either(kind)) return kind;
    if (either(NicKind::infiniband)) return interface ? NicKind::ipoib : NicKind::infiniband;
    if (either(NicKind::roce) && !iwarp) return NicKind::roce;
    if (either(NicKind::vf)) return NicKind::vf;
    const bool rdma = (a.rdma_device || b.rdma_device) && !iwarp;
    return rdma && interface ? NicKind::roce : NicKind::ethernet;
}

template <class T, class Same>
void append_new(std::vector<T>& into, const std::vector<T>& from, const Same& same) {
    for (const T& item : from)
        if (std::none_of(into.begin(), into.end(),
                         [&](const T& other) { return same(item, other); }))
            into.push_back(item);
}

/// State and MTU of an RDMA port are not those of the interface above it: the interface's stay, and
/// the port's state goes where it belongs.
void merge_interface_facts(Nic& into, Nic from, const std::string& subject, Facts& facts) {
    const auto known = [](const Nic& nic) { return nic.state == "up" || nic.state == "down"; };
    if (has_interface(into) != has_interface(from)) {
        Nic& port = has_interface(into) ? from : into;
        if (port.port_state.empty() && known(port))
            port.port_state = port.state == "up" ? "active" : "down";
        port.state.clear();
        port.mtu.reset();
    }
    if (known(into) && known(from) && into.state != from.state)
        facts.contradiction(subject, "the state", into.state, from.state);
    if (!known(into) && !from.state.empty()) into.state = from.state;
    facts.take(into.mtu, from.mtu, subject, "the MTU");
    facts.take(into.port_state, from.port_state, subject, "the port's state");
}

/// GIDs of RoCE's types belong to a device that speaks it.
bool has_roce_gid(const Nic& nic) {
    return std::any_of(nic.gids.begin(), nic.gids.end(),
                       [](const Gid& gid) { return gid.type.starts_with("RoCE"); });
}

/// Tells who knows it from who says nothing of it.
void merge_transport(Nic& into, const Nic& from, const std::string& subject, Facts& facts) {
    if (into.iwarp && has_roce_gid(from))
        facts.contradiction(subject, "the transport", "iWARP", "RoCE");
    if (from.iwarp && has_roce_gid(into)) {
        facts.contradiction(subject, "the transport", "RoCE", "iWARP");
        return;
    }
    into.iwarp = into.iwarp || from.iwarp;
}

void merge_nic(Nic& into, const Nic& from, Facts& facts) {
    const std::string subject = printable(has_interface(into) ? into.name : from.name);
    merge_transport(into, from, subject, facts);
    const NicKind kind = join_kinds(into, from, into.iwarp);
    merge_interface_facts(into, from, subject, facts);
    if (has_interface(from) && (!has_interface(into) || numbered(into))) into.name = from.name;
    into.kind = kind;
    facts.take(into.speed_gbits, from.speed_gbits, subject, "the speed");
    append_new(into.addresses, from.addresses, std::equal_to<>());
    facts.take(into.pci, from.pci, subject, "the bus id");
    facts.take(into.pci_id, from.pci_id, subject, "vendor and device");
    facts.take(into.numa_node, from.numa_node, subject, "the NUMA node");
    facts.take(into.rdma_device, from.rdma_device, subject, "the RDMA device");
    facts.take(into.port, from.port, subject, "the port");
    if (into.os_index == 0) into.os_index = from.os_index;
    into.default_route = into.default_route || from.default_route;
    facts.take(into.master, from.master, subject, "the master");
    facts.take(into.parent, from.parent, subject, "the parent");
    into.virtual_function = into.virtual_function || from.virtual_function;
    facts.take(into.driver, from.driver, subject, "the driver");
    facts.take(into.guid, from.guid, subject, "the GUID");
    append_new(into.gids, from.gids, [](const Gid& a, const Gid& b) { return a.index == b.index; });
    append_new(into.errors, from.errors,
               [](const PortCounter& a, const PortCounter& b) { return a.name == b.name; });
    facts.take(into.pcie_generation, from.pcie_generation, subject, "pcie_generation");
    facts.take(into.pcie_width, from.pcie_width, subject, "pcie_width");
    Facts::take_latest(into.pcie_generation_now, from.pcie_generation_now);
    Facts::take_latest(into.pcie_width_now, from.pcie_width_now);
}

void merge_entry(Entry& into, const Entry& from, Facts& facts) {
    merge_nic(into.nic, from.nic, facts);
    if (into.paths.empty()) into.paths = from.paths;
    for (std::size_t i = 0; i < from.paths.size(); ++i) {
        const auto& other = from.paths[i];
        auto& path = into.paths[i];
        if (!path)
            path = other;
        else if (other && *other != *path)
            facts.contradiction(
                fmt::format("GPU at position {} and {}", i, printable(into.nic.name)), "the path",
                std::string(path_name(*path)), std::string(path_name(*other)));
    }
    if (into.redirects.empty()) into.redirects = from.redirects;
    for (std::size_t i = 0; i < from.redirects.size(); ++i)
        if (into.redirects[i] == AcsRedirect::unknown) into.redirects[i] = from.redirects[i];
}

/// Column `nic` of a GPU x NIC matrix, at the new positions of the GPUs.
template <class T>
std::vector<T> column(const std::vector<std::vector<T>>& matrix, std::size_t nic,
                      const std::vector<std::size_t>& positions, std::size_t gpus, T unknown) {
    std::vector<T> out;
    for (std::size_t gpu = 0; gpu < matrix.size() && gpu < positions.size(); ++gpu) {
        if (nic >= matrix[gpu].size()) continue;
        out.resize(gpus, unknown);
        out[positions[gpu]] = matrix[gpu][nic];
    }
    return out;
}

std::vector<Entry> entries_of(const Machine& machine, const std::vector<std::size_t>& positions,
                              std::size_t gpus) {
    std::vector<Entry> entries;
    for (std::size_t i = 0; i < machine.nics.size(); ++i)
        entries.push_back({machine.nics[i],
                           column<std::optional<PathType>>(machine.gpu_nic_paths, i, positions,
                                                           gpus, std::nullopt),
                           column<AcsRedirect>(machine.gpu_nic_acs_redirect, i, positions, gpus,
                                               AcsRedirect::unknown)});
    return entries;
}

void store(const std::vector<Entry>& entries, std::size_t gpus, Machine& machine) {
    machine.nics.clear();
    bool paths = false, redirects = false;
    std::vector<const Entry*> kept;
    for (const Entry& entry : entries) {
        if (entry.gone) continue;
        kept.push_back(&entry);
        machine.nics.push_back(entry.nic);
        paths = paths || !entry.paths.empty();
        redirects = redirects || !entry.redirects.empty();
    }
    machine.gpu_nic_paths.clear();
    machine.gpu_nic_acs_redirect.clear();
    for (std::size_t gpu = 0; gpu < gpus; ++gpu) {
        if (paths) machine.gpu_nic_paths.emplace_back();
        if (redirects) machine.gpu_nic_acs_redirect.emplace_back();
        for (const Entry* entry : kept) {
            if (paths)
                machine.gpu_nic_paths[gpu].push_back(entry->paths.empty() ? std::nullopt
                                                                          : entry->paths[gpu]);
            if (redirects)
                machine.gpu_nic_acs_redirect[gpu].push_back(
                    entry->redirects.empty() ? AcsRedirect::unknown : entry->redirects[gpu]);
        }
    }
}

/// A bond carries several RDMA devices but is one interface: the others go by their own name.
void leave_the_name(const std::vector<Entry>& entries, Nic& nic) {
    if (!nic.rdma_device || !has_interface(nic)) return;
    const bool used = std::any_of(entries.begin(), entries.end(), [&](const Entry& entry) {
        return !entry.gone && entry.nic.name == nic.name;
    });
    if (!used) return;
    nic.name = *nic.rdma_device;
    nic.addresses.clear();
}

bool knows_a_path(const Entry& entry) {
    return std::any_of(entry.paths.begin(), entry.paths.end(),
                       [](const std::optional<PathType>& path) { return path.has_value(); });
}

}  // namespace

void merge_nics(Machine& into, const Machine& from, const GpuPositions& gpus, Facts& facts) {
    std::vector<Entry> entries = entries_of(into, gpus.into, gpus.count);
    const std::vector<Entry> others = entries_of(from, gpus.from, gpus.count);
    for (const Entry& other : others) {
        const bool pci_counts = other.nic.pci && with_pci(others, other.nic.pci) == 1 &&
                                with_pci(entries, other.nic.pci) == 1;
        Entry* first = nullptr;
        for (Entry& entry : entries) {
            if (entry.gone || !same_nic(entry.nic, other.nic, pci_counts)) continue;
            if (first == nullptr) {
                first = &entry;
            } else {  // `other` names an interface and an RDMA device that were apart until now
                merge_entry(*first, entry, facts);
                entry.gone = true;
            }
        }
        if (first != nullptr) {
            merge_entry(*first, other, facts);
            continue;
        }
        entries.push_back(other);
        Nic& added = entries.back().nic;
        entries.back().gone = true;
        leave_the_name(entries, added);
        entries.back().gone = false;
    }
    store(entries, gpus.count, into);
    into.nics_known = into.nics_known || from.nics_known;
}

void finish_nics(Machine& machine) {
    std::vector<std::size_t> same(machine.gpus.size());
    for (std::size_t i = 0; i < same.size(); ++i) same[i] = i;
    std::vector<Entry> entries = entries_of(machine, same, same.size());
    for (Entry& entry : entries) {
        if (!entry.nic.rdma_device || knows_a_path(entry)) continue;
        for (const Entry& other : entries)
            if (other.nic.rdma_device == entry.nic.rdma_device && knows_a_path(other))
                entry.paths = other.paths;
    }
    const bool ordered = std::any_of(entries.begin(), entries.end(),
                                     [](const Entry& entry) { return entry.nic.os_index > 0; });
    if (ordered)
        std::stable_sort(entries.begin(), entries.end(), [](const Entry& a, const Entry& b) {
            const bool first = has_interface(a.nic), second = has_interface(b.nic);
            return first != second ? first : a.nic.os_index < b.nic.os_index;
        });
    store(entries, same.size(), machine);
}

}  // namespace toporun::detect::merge
