#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
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
    const auto rate = nvlink_gbytes_per_s(machine.gpus.front());
    const bool one_rate = all_equal(machine.gpus, nvlink_gbytes_per_s);
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
        text = cpu.allowed.empty() ? "CPUs unknown" : counted(cpu.allowed.indices().size(), "CPU");
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

/// What carries data: RDMA ports that are up, else the fastest interface that is.
std::string network_summary(const Machine& machine) {
    std::map<std::pair<std::string, double>, int> groups;
    const auto word = [](const Nic& nic) -> std::string {
        if (nic.kind == NicKind::efa) return "EFA";
        const bool infiniband = nic.kind == NicKind::ipoib || nic.kind == NicKind::infiniband;
        return infiniband ? "InfiniBand" : "RoCE";
    };
    const Nic* fastest = nullptr;
    for (const Nic& nic : machine.nics) {
        if (nic.state != "up") continue;
        if (nic.rdma_device) ++groups[{word(nic), nic.speed_gbits.value_or(0)}];
        const bool wire = nic.kind != NicKind::loopback && nic.kind != NicKind::other;
        if (wire && !nic.addresses.empty() &&
            (fastest == nullptr || nic.speed_gbits.value_or(0) > fastest->speed_gbits.value_or(0)))
            fastest = &nic;
    }
    std::vector<std::string> parts;
    for (const auto& [group, count] : groups)
        parts.push_back(group.second > 0
                            ? fmt::format("{} x {:g} Gb/s {}", count, group.second, group.first)
                            : fmt::format("{} x {}", count, group.first));
    if (!parts.empty()) return join(parts, " + ");
    if (fastest == nullptr) return machine.nics_known ? "no network" : "network unknown";
    const std::string name = printable(fastest->name);
    return fastest->speed_gbits ? fmt::format("{} {:g} Gb/s", name, *fastest->speed_gbits) : name;
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
