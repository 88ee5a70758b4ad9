#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <tuple>

#include "base/text.hpp"
#include "detect/gpu/nvlink_rate.hpp"
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

/// "18 links", "4 to 6 links", or what they carry where that is known and the same for every GPU.
std::string link_count(const Machine& machine) {
    int fewest = links_of(machine, 0);
    int most = fewest;
    for (std::size_t i = 1; i < machine.gpus.size(); ++i) {
        fewest = std::min(fewest, links_of(machine, i));
        most = std::max(most, links_of(machine, i));
    }
    if (fewest < most) return fmt::format("{} to {} links", fewest, most);
    const auto rate = detect::nominal_nvlink_gbytes_per_s(machine.gpus.front());
    const bool one_rate = all_equal(machine.gpus, detect::nominal_nvlink_gbytes_per_s);
    if (rate && one_rate) return rate_text(*rate * most) + " GB/s";
    return counted(static_cast<std::size_t>(most), "link");
}

/// "NVSwitch, 450 GB/s per GPU", "NVLink on 2 of 6 pairs, 4 links per GPU".
std::string nvlink_summary(const Machine& machine, std::size_t linked, std::size_t pairs) {
    std::string text = machine.nvswitch                       ? "NVSwitch"
                       : machine.gpus.front().vendor == "amd" ? "xGMI"
                                                              : "NVLink";
    if (linked < pairs) text += fmt::format(" on {} of {} pairs", linked, pairs);
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        if (links_of(machine, gpu) == 0) return text;
    return fmt::format("{}, {} per GPU", text, link_count(machine));
}

/// How the GPUs reach each other, in a few words; "" for one GPU and for unknown paths.
std::string link_summary(const Machine& machine) {
    if (!has_paths(machine)) return {};
    std::size_t linked = 0;
    std::size_t pairs = 0;
    PathType farthest = PathType::LOC;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = 0; b < a; ++b, ++pairs) {
            if (machine.gpu_paths[a][b] == PathType::NVL) ++linked;
            if (machine.gpu_paths[a][b] != PathType::DIS)  // unknown
                farthest = std::max(farthest, machine.gpu_paths[a][b]);
        }
    if (linked > 0) return nvlink_summary(machine, linked, pairs);
    if (farthest == PathType::LOC) return {};
    // What the driver cannot tell without NVML may still be there.
    const std::string_view what = machine.gpu_links.empty() ? "PCIe, NVLinks unknown" : "PCIe";
    return fmt::format("{}, farthest pair {}", what, detect::path_name(farthest));
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

/// "192 CPUs" where no cores are known.
std::string cpu_count(const detect::Cpu& cpu) {
    detect::CpuSet known = cpu.allowed;
    if (known.empty())
        for (const detect::NumaNode& node : cpu.numa_nodes) known = known | node.cpus;
    return known.empty() ? "CPUs unknown" : counted(known.indices().size(), "CPU");
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
        text = cpu_count(cpu);
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
    const bool told = tells_states(machine);
    for (const Nic& nic : machine.nics) {
        if (told ? nic.state != "up" : nic.kind == NicKind::loopback) continue;
        ++usable;
        if (nic.rdma_device) ++groups[{rdma_word(nic), nic.speed_gbits.value_or(0)}];
        const bool wire = nic.kind != NicKind::loopback && nic.kind != NicKind::other;
        if (wire && !nic.addresses.empty() && (chosen == nullptr || stands_before(nic, *chosen)))
            chosen = &nic;
    }
    std::vector<std::string> parts;
    for (const auto& [group, count] : groups)
        parts.push_back(group.second > 0
                            ? fmt::format("{} x {:g} Gb/s {}", count, group.second, group.first)
                            : fmt::format("{} x {}", count, group.first));
    if (!parts.empty()) return join(parts, " + ");
    if (chosen == nullptr && usable > 0 && !told) return counted(usable, "NIC");
    if (chosen == nullptr) return machine.nics_known ? "no network" : "network unknown";
    const std::string name = printable(chosen->name);
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
