#include "detect/gpu/paths.hpp"

#include <algorithm>

#include "detect/gpu/gpu_links.hpp"
#include "detect/gpu/pci.hpp"

namespace toporun::detect {
namespace {

/// NVML's common ancestor as NCCL's path: 0 internal, 10 one switch, 20 several, 30 host bridge, 40
/// NUMA node, 50 system.
std::optional<PathType> ancestor_path(std::int32_t level) {
    switch (level) {
        case 0:
        case 10:
            return PathType::PIX;
        case 20:
            return PathType::PXB;
        case 30:
        case 40:
            return PathType::PHB;
        case 50:
            return PathType::SYS;
        default:
            return std::nullopt;
    }
}

/// Paths over PCIe, from sysfs, else by NVML's word.
PciePaths pcie_paths(const Files& files, const std::vector<Gpu>& gpus, const NvmlReport* report) {
    std::vector<std::optional<PciDevice>> devices;
    for (const Gpu& gpu : gpus)
        devices.push_back(gpu.pci ? read_pci_device(files, *gpu.pci) : std::nullopt);
    PciePaths paths(gpus.size(), std::vector<std::optional<PathType>>(gpus.size()));
    for (std::size_t a = 0; a < gpus.size(); ++a)
        for (std::size_t b = 0; b < gpus.size(); ++b) {
            if (a == b)
                paths[a][b] = PathType::LOC;
            else if (devices[a] && devices[b])
                paths[a][b] = pci_path(*devices[a], *devices[b]);
            else if (report != nullptr)  // one direction speaks for both
                paths[a][b] = ancestor_path(report->pairs[std::min(a, b)][std::max(a, b)].ancestor);
        }
    return paths;
}

}  // namespace

void detect_gpu_paths(const Files& files, const NvmlReport* report, Machine& machine) {
    machine.gpu_paths = gpu_path_matrix(pcie_paths(files, machine.gpus, report), machine.gpu_links);
    if (machine.gpu_paths.size() != machine.gpus.size())
        machine.notes.emplace_back("paths between GPUs are unknown: the PCI tree is not visible");
}

void detect_gpu_nic_paths(const Files& files, Machine& machine) {
    if (machine.gpus.empty() || machine.nics.empty()) return;
    std::vector<std::optional<PciDevice>> nics;
    for (const Nic& nic : machine.nics)
        nics.push_back(nic.pci ? read_pci_device(files, *nic.pci) : std::nullopt);
    for (const Gpu& gpu : machine.gpus) {
        const auto device = gpu.pci ? read_pci_device(files, *gpu.pci) : std::nullopt;
        std::vector<std::optional<PathType>> row;
        for (const auto& nic : nics)
            row.push_back(device && nic ? std::optional(pci_path(*device, *nic)) : std::nullopt);
        machine.gpu_nic_paths.push_back(std::move(row));
    }
}

}  // namespace toporun::detect
