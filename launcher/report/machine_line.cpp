#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "base/text.hpp"
#include "detect/gpu/nvlink_rate.hpp"
#include "detect/network/interface_names.hpp"
#include "launcher/report/machine_text.hpp"
#include "launcher/report/machine_view.hpp"

/// The machine in one line.
namespace toporun::launcher {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::Nic;
using detect::NicKind;
using detect::PathType;

/// "18 links", "4 to 6 links", or what they carry where that is known and the same for every GPU;
/// "" where some GPU has none or not all of them are told.
std::string link_count(const Machine& machine) {
    std::vector<int> counts;
    for (std::size_t i = 0; i < machine.gpus.size(); ++i)
        counts.push_back(links_of(machine, i).value_or(0));
    const auto [fewest, most] = std::minmax_element(counts.begin(), counts.end());
    if (*fewest == 0) return {};
    if (*fewest < *most) return fmt::format("{} to {} links", *fewest, *most);
    const auto rate = detect::nominal_nvlink_gbytes_per_s(machine.gpus.front());
    const bool one_rate = all_equal(machine.gpus, detect::nominal_nvlink_gbytes_per_s);
    if (rate && one_rate) return rate_text(*rate * *most) + " GB/s";
    return counted(static_cast<std::size_t>(*most), "link");
}

/// Pairs of GPUs by what is told of them.
struct PairCounts {
    std::size_t all = 0;
    std::size_t told = 0;    ///< their path is known
    std::size_t linked = 0;  ///< by NVLink or xGMI
    bool links_told = true;  ///< of every pair whose path is known
    PathType farthest = PathType::LOC;
};

PairCounts count_pairs(const Machine& machine) {
    PairCounts counts;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = 0; b < a; ++b, ++counts.all) {
            const PathType path = machine.gpu_paths[a][b];
            if (path == PathType::DIS) continue;
            ++counts.told;
            if (path == PathType::NVL) ++counts.linked;
            counts.farthest = std::max(counts.farthest, path);
            const auto& links = machine.gpu_links;
            counts.links_told =
                counts.links_told && links.size() > a && links[a].size() > b && links[a][b] >= 0;
        }
    return counts;
}

/// "NVSwitch, 450 GB/s per GPU", "NVLink on 2 of 6 pairs, 4 links per GPU".
std::string nvlink_summary(const Machine& machine, const PairCounts& pairs) {
    std::string text = machine.nvswitch                       ? "NVSwitch"
                       : machine.gpus.front().vendor == "amd" ? "xGMI"
                                                              : "NVLink";
    if (pairs.linked < pairs.told)
        text += fmt::format(" on {} of {} pairs", pairs.linked, pairs.told);
    const std::string each = link_count(machine);
    return each.empty() ? text : fmt::format("{}, {} per GPU", text, each);
}

/// How the GPUs reach each other, in a few words; "" for one GPU and for unknown paths.
std::string link_summary(const Machine& machine) {
    if (!has_paths(machine)) return {};
    const PairCounts pairs = count_pairs(machine);
    if (pairs.told == 0) return {};
    std::string text;
    if (pairs.linked > 0) {
        text = nvlink_summary(machine, pairs);
    } else {
        // What the driver cannot tell without NVML may still be there, and files may leave it out.
        const bool amd = machine.gpus.front().vendor == "amd";
        const std::string_view unknown = amd ? ", xGMI unknown" : ", NVLinks unknown";
        text = fmt::format("PCIe{}, farthest pair {}", pairs.links_told ? "" : unknown,
                           detect::path_name(pairs.farthest));
    }
    const std::size_t untold = pairs.all - pairs.told;
    return untold == 0 ? text : fmt::format("{}, {} not told", text, counted(untold, "pair"));
}

std::string gpu_summary(const Machine& machine) {
    if (machine.gpus.empty()) return machine.gpus_known ? "no GPU" : "GPUs unknown";
    std::vector<std::pair<std::string, int>> kinds;
    for (const Gpu& gpu : machine.gpus) {
        const std::string name = short_name(gpu);
        const auto same = std::find_if(kinds.begin(), kinds.end(),
                                       [&](const auto& kind) { return kind.first == name; });
        if (same == kinds.end())
            kinds.emplace_back(name, 1);
        else
            ++same->second;
    }
    std::vector<std::string> parts;
    for (const auto& [name, count] : kinds) parts.push_back(fmt::format("{} x {}", count, name));
    const std::string links = link_summary(machine);
    return join(parts, " + ") + (links.empty() ? "" : " (" + links + ")");
}

/// Whether the NUMA nodes are all there are: what tells their memory, their distances or the
/// packages tells of every node; what tells no more than CPUs near devices does not.
bool tells_all_nodes(const detect::Cpu& cpu) {
    return cpu.packages || !cpu.numa_distances.empty() ||
           std::any_of(cpu.numa_nodes.begin(), cpu.numa_nodes.end(),
                       [](const detect::NumaNode& node) { return node.memory_bytes.has_value(); });
}

/// "192 CPUs" where no cores are known, "96 CPUs near the GPUs" where others may exist.
std::string cpu_count(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    if (!cpu.allowed.empty()) return counted(cpu.allowed.indices().size(), "CPU");
    detect::CpuSet known;
    for (const detect::NumaNode& node : cpu.numa_nodes) known = known | node.cpus;
    if (known.empty()) return "CPUs unknown";
    const std::string count = counted(known.indices().size(), "CPU");
    if (tells_all_nodes(cpu)) return count;
    detect::CpuSet near;
    for (const Gpu& gpu : machine.gpus) near = near | gpu.cpus;
    return near == known ? count + " near the GPUs" : "at least " + count;
}

std::string core_summary(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    std::map<int, int> per_package;
    std::size_t pus = 0;
    for (const detect::Core& core : cpu.cores) {
        ++per_package[core.package];
        pus += core.pus.indices().size();
    }
    std::string text;
    const auto differs = [&](const auto& package) {
        return package.second != per_package.begin()->second;
    };
    if (per_package.empty())
        text = cpu_count(machine);
    else if (std::any_of(per_package.begin(), per_package.end(), differs))
        text = counted(cpu.cores.size(), "core");
    else
        text = fmt::format("{} x {}", per_package.size(),
                           counted(static_cast<std::size_t>(per_package.begin()->second), "core"));
    std::vector<std::string> bounds;
    if (!cpu.allowed.empty() && cpu.allowed.indices().size() < pus)
        bounds.push_back(fmt::format("{} of {} CPUs allowed", cpu.allowed.count(), pus));
    if (machine.limits.cpu_quota)
        bounds.push_back(fmt::format("quota {:.3g} CPUs", *machine.limits.cpu_quota));
    if (!bounds.empty()) text += " (" + join(bounds, ", ") + ")";
    return text;
}

/// "InfiniBand", "RoCE", "EFA" of an RDMA port.
std::string_view rdma_word(const Nic& nic) {
    switch (nic.kind) {
        case NicKind::efa:
            return "EFA";
        case NicKind::ipoib:
        case NicKind::infiniband:
            return "InfiniBand";
        case NicKind::other:
            return "RDMA port";
        default:
            return "RoCE";
    }
}

/// The bond that the port is or belongs to, "" without: its ports carry data as one.
std::string bond_of(const Machine& machine, const Nic& nic) {
    if (nic.kind == NicKind::bond) return nic.name;
    const bool member = std::any_of(machine.nics.begin(), machine.nics.end(), [&](const Nic& bond) {
        return bond.kind == NicKind::bond && bond.name == nic.master;
    });
    return member ? nic.master : "";
}

/// Captures of a topology tell no state of any interface.
bool tells_states(const Machine& machine) {
    return std::any_of(machine.nics.begin(), machine.nics.end(),
                       [](const Nic& nic) { return nic.state == "up" || nic.state == "down"; });
}

/// What stands for the network of a machine without RDMA: a device before what is built on devices,
/// then the faster one, then the one with the default route.
bool stands_before(const Nic& a, const Nic& b) {
    const auto rank = [](const Nic& nic) {
        const bool built =
            nic.kind == NicKind::bridge || nic.kind == NicKind::veth || nic.kind == NicKind::tunnel;
        return std::tuple(!built, nic.speed_gbits.value_or(0), nic.default_route);
    };
    return rank(a) > rank(b);
}

/// What carries data: RDMA ports that are up, else one interface that is.
std::string network_summary(const Machine& machine) {
    std::map<std::pair<std::string_view, double>, int> groups;
    const Nic* chosen = nullptr;
    std::size_t usable = 0;
    std::set<std::string> bonds;  // counted already
    const bool told = tells_states(machine);
    const bool addresses = std::any_of(machine.nics.begin(), machine.nics.end(),
                                       [](const Nic& nic) { return !nic.addresses.empty(); });
    std::size_t numbered = 0;  // of unknown kind, in a log
    for (const Nic& nic : machine.nics) {
        const bool up = told ? nic.state == "up" : nic.kind != NicKind::loopback;
        const bool rdma = rdma_usable(nic);
        if (!up && !rdma) continue;
        ++usable;
        const std::string bond = rdma ? bond_of(machine, nic) : "";
        if (rdma && (bond.empty() || bonds.insert(bond).second))
            ++groups[{rdma_word(nic), nic.speed_gbits.value_or(0)}];
        numbered += nic.name.starts_with("NET/");
        // Of kind `other` are dummies, which carry nothing, and what a text tells too little of.
        const bool carries =
            nic.kind != NicKind::loopback && !nic.name.starts_with("NET/") &&
            detect::kind_of_name(nic.name).value_or(NicKind::ethernet) != NicKind::other;
        const bool wire = carries && (told || nic.kind != NicKind::other);
        if (up && wire && ((told && !addresses) || !nic.addresses.empty()) &&
            (chosen == nullptr || stands_before(nic, *chosen)))
            chosen = &nic;
    }
    std::vector<std::string> parts;
    for (const auto& [group, count] : groups)
        parts.push_back(group.second > 0
                            ? fmt::format("{} x {:g} Gb/s {}", count, group.second, group.first)
                            : fmt::format("{} x {}", count, group.first));
    if (!parts.empty()) return join(parts, " + ");
    if (numbered > 0) return counted(numbered, "NIC");
    if (chosen == nullptr && usable > 0 && !told) return counted(usable, "NIC");
    if (chosen == nullptr) return machine.nics_known ? "no network" : "network unknown";
    const std::string name = printable(chosen->name) + (addresses ? "" : " (addresses unknown)");
    return chosen->speed_gbits ? fmt::format("{} {:g} Gb/s", name, *chosen->speed_gbits) : name;
}

}  // namespace

std::string machine_line(const Machine& machine) {
    const std::string nccl = machine.software.nccl_version
                                 ? "NCCL " + printable(*machine.software.nccl_version)
                                 : "NCCL version unknown";
    return fmt::format("{}{} {}, {}, {}", gpu_summary(machine), machine.gpus.empty() ? ";" : ",",
                       core_summary(machine), network_summary(machine), nccl);
}

}  // namespace toporun::launcher
