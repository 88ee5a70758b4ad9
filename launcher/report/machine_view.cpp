#include "launcher/report/machine_view.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "base/text.hpp"

namespace toporun::launcher {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::Nic;
using detect::NicKind;
using detect::PathType;

constexpr std::string_view kUnknown = "?";

/// "3 links", "1 link".
std::string counted(std::size_t count, std::string_view noun) {
    return fmt::format("{} {}{}", count, noun, count == 1 ? "" : "s");
}

/// The name without what every card has: "NVIDIA H100 80GB HBM3" is "H100 80GB".
std::string short_name(const Gpu& gpu) {
    std::string_view name = gpu.name;
    for (const std::string_view maker : {"NVIDIA ", "AMD "})
        if (name.starts_with(maker)) name.remove_prefix(maker.size());
    for (const std::string_view memory : {" HBM2", " HBM2e", " HBM3", " HBM3e"})
        if (name.ends_with(memory)) name.remove_suffix(memory.size());
    if (!name.empty()) return printable(name);
    return gpu.vendor == "amd" ? "AMD GPU" : gpu.vendor == "nvidia" ? "NVIDIA GPU" : "GPU";
}

/// How the GPUs reach each other, in a few words; "" for one GPU and for unknown paths.
std::string link_summary(const Machine& machine) {
    int fewest = 0;
    int most = 0;
    bool every_pair = machine.gpu_links.size() > 1;
    for (std::size_t a = 0; a < machine.gpu_links.size(); ++a) {
        int links = 0;
        for (std::size_t b = 0; b < machine.gpu_links[a].size(); ++b) {
            every_pair = every_pair && (a == b || machine.gpu_links[a][b] > 0);
            links = machine.nvswitch ? std::max(links, machine.gpu_links[a][b])
                                     : links + machine.gpu_links[a][b];
        }
        fewest = a == 0 ? links : std::min(fewest, links);
        most = std::max(most, links);
    }
    if (most > 0) {
        const std::string count =
            fewest == most ? fmt::format("{}", most) : fmt::format("{} to {}", fewest, most);
        return fmt::format("{}, {} links per GPU{}", machine.nvswitch ? "NVSwitch" : "NVLink",
                           count, every_pair ? "" : ", not every pair");
    }
    if (machine.gpu_paths.size() < 2) return {};
    const PathType worst = [&] {
        PathType path = PathType::LOC;
        for (const auto& row : machine.gpu_paths)
            path = std::max(path, *std::max_element(row.begin(), row.end()));
        return path;
    }();
    // What the driver cannot tell without NVML may still be there.
    const std::string_view what = machine.gpu_links.empty() ? "PCIe, NVLinks unknown" : "PCIe";
    return fmt::format("{}, farthest pair {}", what, detect::path_name(worst));
}

std::string gpu_summary(const Machine& machine) {
    if (machine.gpus.empty()) return "no GPU";
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
    if (fastest == nullptr) return machine.nics.empty() ? "network unknown" : "no network";
    const std::string name = printable(fastest->name);
    return fastest->speed_gbits ? fmt::format("{} {:g} Gb/s", name, *fastest->speed_gbits) : name;
}

/// Rows of cells, left-aligned, two blanks between columns and before the first.
class Table {
  public:
    void row(std::vector<std::string> cells) {
        for (std::string& cell : cells) cell = printable(cell);
        rows_.push_back(std::move(cells));
    }
    std::string text() const {
        std::vector<std::size_t> widths;
        for (const auto& cells : rows_)
            for (std::size_t i = 0; i < cells.size(); ++i) {
                if (i == widths.size()) widths.push_back(0);
                widths[i] = std::max(widths[i], width(cells[i]));
            }
        std::string out;
        for (const auto& cells : rows_) {
            std::string line;
            for (std::size_t i = 0; i < cells.size(); ++i)
                line += "  " + cells[i] + std::string(widths[i] - width(cells[i]), ' ');
            line.erase(line.find_last_not_of(' ') + 1);
            out += line + "\n";
        }
        return out;
    }

  private:
    static std::size_t width(const std::string& cell) {  // code points of valid UTF-8
        return static_cast<std::size_t>(std::count_if(cell.begin(), cell.end(), [](char c) {
            return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
        }));
    }
    std::vector<std::vector<std::string>> rows_;
};

template <class Value>
std::string or_unknown(const std::optional<Value>& value) {
    return value ? fmt::format("{}", *value) : std::string(kUnknown);
}

std::string bytes_text(const std::optional<std::uint64_t>& bytes) {
    if (!bytes) return std::string(kUnknown);
    return *bytes == detect::kUnlimited ? "unlimited" : format_bytes(*bytes);
}

std::string gpu_table(const Machine& machine) {
    if (machine.gpus.empty()) return {};
    Table table;
    table.row({"GPU", "name", "PCI", "NUMA", "memory", "PCIe", "MIG", "near CPUs"});
    for (const Gpu& gpu : machine.gpus) {
        const std::string pcie =
            gpu.pcie_generation && gpu.pcie_width
                ? fmt::format("Gen{} x{}", *gpu.pcie_generation, *gpu.pcie_width)
                : std::string(kUnknown);
        table.row({fmt::format("{}", gpu.index),
                   gpu.name.empty() ? std::string(kUnknown) : gpu.name,
                   gpu.pci ? gpu.pci->text() : std::string(kUnknown), or_unknown(gpu.numa_node),
                   bytes_text(gpu.memory_bytes), pcie,
                   !gpu.mig   ? std::string(kUnknown)
                   : *gpu.mig ? "on"
                              : "off",
                   gpu.cpus.empty() ? std::string(kUnknown) : gpu.cpus.text()});
    }
    return "\nGPUs\n" + table.text();
}

/// Pairs "0-1 2-3" for which `applies`.
template <class Applies>
std::string pairs_where(const Machine& machine, const Applies& applies) {
    std::vector<std::string> pairs;
    std::size_t all = 0;
    for (std::size_t a = 0; a < machine.gpus.size(); ++a)
        for (std::size_t b = a + 1; b < machine.gpus.size(); ++b, ++all)
            if (applies(a, b))
                pairs.push_back(fmt::format("{}-{}", machine.gpus[a].index, machine.gpus[b].index));
    return pairs.size() > 1 && pairs.size() == all ? "every pair" : join(pairs, " ");
}

std::string path_table(const Machine& machine) {
    if (machine.gpus.size() < 2 || machine.gpu_paths.size() != machine.gpus.size()) return {};
    Table table;
    std::vector<std::string> header = {"GPU"};
    for (const Gpu& gpu : machine.gpus) header.push_back(fmt::format("{}", gpu.index));
    const bool to_nics = machine.gpu_nic_paths.size() == machine.gpus.size();
    for (std::size_t n = 0; to_nics && n < machine.nics.size(); ++n)
        if (machine.nics[n].rdma_device) header.push_back(*machine.nics[n].rdma_device);
    table.row(header);
    for (std::size_t a = 0; a < machine.gpus.size(); ++a) {
        std::vector<std::string> cells = {fmt::format("{}", machine.gpus[a].index)};
        for (std::size_t b = 0; b < machine.gpu_paths[a].size(); ++b) {
            const int links = machine.gpu_links.size() > a && machine.gpu_links[a].size() > b
                                  ? machine.gpu_links[a][b]
                                  : 0;
            const std::string name(detect::path_name(machine.gpu_paths[a][b]));
            cells.push_back(links > 0 ? fmt::format("{}{}", name, links) : name);
        }
        for (std::size_t n = 0; to_nics && n < machine.nics.size(); ++n) {
            if (!machine.nics[n].rdma_device) continue;
            const auto& path = machine.gpu_nic_paths[a].at(n);
            cells.emplace_back(path ? detect::path_name(*path) : kUnknown);
        }
        table.row(cells);
    }
    std::string out = "\npaths in NCCL's terms (with the number of NVLinks)\n" + table.text();
    if (machine.peer_access.size() == machine.gpus.size()) {
        const std::string refused = pairs_where(machine, [&](std::size_t a, std::size_t b) {
            return machine.peer_access[a].at(b) == detect::PeerAccess::refused;
        });
        if (!refused.empty()) out += "  peer access refused by the driver: " + refused + "\n";
    }
    if (machine.gpu_acs_redirect.size() == machine.gpus.size()) {
        const std::string redirected = pairs_where(machine, [&](std::size_t a, std::size_t b) {
            return machine.gpu_acs_redirect[a].at(b) == detect::AcsRedirect::on;
        });
        if (!redirected.empty())
            out += "  PCIe traffic sent through the CPU by ACS: " + redirected + "\n";
    }
    return out;
}

std::string nic_table(const Machine& machine) {
    if (machine.nics.empty()) return {};
    Table table;
    table.row({"interface", "kind", "state", "Gb/s", "MTU", "NUMA", "RDMA", "addresses"});
    for (const Nic& nic : machine.nics) {
        std::string rdma = nic.rdma_device.value_or("-");
        if (nic.rdma_device && nic.port) rdma += fmt::format(":{}", *nic.port);
        std::string addresses = nic.addresses.empty() ? "-" : join(nic.addresses, " ");
        if (nic.default_route) addresses += "  (default route)";
        table.row({nic.name, std::string(detect::nic_kind_name(nic.kind)),
                   nic.state.empty() ? std::string(kUnknown) : nic.state,
                   nic.speed_gbits ? fmt::format("{:g}", *nic.speed_gbits) : std::string(kUnknown),
                   or_unknown(nic.mtu), or_unknown(nic.numa_node), rdma, addresses});
    }
    return "\nnetwork\n" + table.text();
}

std::string cpu_text(const Machine& machine) {
    const detect::Cpu& cpu = machine.cpu;
    std::string out = "\nprocessors\n";
    Table table;
    table.row({"model", cpu.model.empty() ? std::string(kUnknown) : cpu.model});
    for (const detect::NumaNode& node : cpu.numa_nodes) {
        std::set<int> caches;
        std::size_t cores = 0;
        for (const detect::Core& core : cpu.cores) {
            if (core.numa_node != node.os_index) continue;
            ++cores;
            if (core.l3) caches.insert(*core.l3);
        }
        std::string text = node.cpus.empty() ? "no CPUs" : "CPUs " + node.cpus.text();
        if (cores > 0) text += ", " + counted(cores, "core");
        if (!caches.empty()) text += ", " + counted(caches.size(), "last-level cache");
        if (node.memory_bytes) text += ", " + bytes_text(node.memory_bytes);
        table.row({fmt::format("NUMA node {}", node.os_index), text});
    }
    table.row({"allowed CPUs", cpu.allowed.empty() ? std::string(kUnknown) : cpu.allowed.text()});
    return out + table.text();
}

std::string limit_text(const Machine& machine) {
    const detect::Limits& limits = machine.limits;
    Table table;
    std::string shm = bytes_text(limits.shm_bytes);
    if (limits.shm_free_bytes) shm += ", " + bytes_text(limits.shm_free_bytes) + " free";
    table.row({"/dev/shm", shm});
    table.row({"locked memory", bytes_text(limits.memlock_bytes)});
    table.row({"open files",
               limits.nofile == detect::kUnlimited ? "unlimited" : or_unknown(limits.nofile)});
    table.row(
        {"CPU quota", limits.cpu_quota ? fmt::format("{:.3g} CPUs", *limits.cpu_quota) : "none"});
    std::string memory = bytes_text(limits.memory_bytes);
    if (limits.memory_limit_bytes)
        memory += ", limited to " + bytes_text(limits.memory_limit_bytes);
    table.row({"memory", memory});
    return "\nlimits\n" + table.text();
}

std::string yes_no(const std::optional<bool>& value) {
    return !value ? std::string(kUnknown) : *value ? "yes" : "no";
}

std::string software_text(const Machine& machine) {
    const detect::Software& software = machine.software;
    Table table;
    std::string nccl = or_unknown(software.nccl_version);
    if (software.nccl_library) nccl += " (" + *software.nccl_library + ")";
    table.row({"NCCL", nccl});
    if (!software.nccl_plugins.empty())
        table.row({"NCCL plugins", join(software.nccl_plugins, " ")});
    if (!machine.gpus.empty()) table.row({"GPU driver", or_unknown(software.driver)});
    table.row({"kernel", software.kernel.empty() ? std::string(kUnknown) : software.kernel});
    const std::string maker =
        machine.vendor + (machine.vendor.empty() ? "" : " ") + machine.product;
    if (!maker.empty()) table.row({"machine", maker});
    table.row({"virtual machine", machine.virtual_machine ? "yes" : "no"});
    table.row({"container", machine.container ? "yes" : "no"});
    table.row({"IOMMU translates", yes_no(software.iommu_translating)});
    if (!machine.gpus.empty())
        table.row({"ACS redirect above a GPU", yes_no(software.acs_redirect)});
    return "\nsoftware\n" + table.text();
}

std::string note_text(const Machine& machine) {
    if (machine.notes.empty()) return {};
    std::string out = "\nnotes\n";
    for (const std::string& note : machine.notes) out += "  " + printable(note) + "\n";
    return out;
}

}  // namespace

std::string machine_line(const Machine& machine) {
    const std::string nccl = machine.software.nccl_version
                                 ? "NCCL " + printable(*machine.software.nccl_version)
                                 : "NCCL version unknown";
    return fmt::format("{}{} {}, {}, {}", gpu_summary(machine), machine.gpus.empty() ? ";" : ",",
                       core_summary(machine), network_summary(machine), nccl);
}

std::string machine_view(const Machine& machine) {
    std::string out = machine_line(machine) + "\n";
    if (!machine.hostname.empty()) out = printable(machine.hostname) + ": " + out;
    return out + gpu_table(machine) + path_table(machine) + nic_table(machine) + cpu_text(machine) +
           limit_text(machine) + software_text(machine) + note_text(machine);
}

}  // namespace toporun::launcher
