#include "detect/gpu/pci_gpus.hpp"

#include <algorithm>

#include "base/error.hpp"

namespace toporun::detect {
namespace {

bool is_gpu(unsigned vendor, unsigned device_class) {
    const bool display = device_class == 0x0300 || device_class == 0x0302;
    // AMD's accelerators say "other display controller" (MI200) or "processing accelerator"
    // (MI300).
    const bool accelerator = device_class == 0x0380 || device_class == 0x1200;
    return (vendor == kVendorNvidia && display) ||
           (vendor == kVendorAmd && (display || accelerator));
}

CpuSet local_cpus(const Files& files, const std::string& directory) {
    try {
        return CpuSet::parse(files.line(directory + "/local_cpulist").value_or(""));
    } catch (const Error&) {
        return {};  // a list that is none tells as little as a missing one
    }
}

Gpu read_gpu(PciTree& pci, const PciDevice& device) {
    const Files& files = pci.files();
    const std::string directory = pci_directory(device.address);
    Gpu gpu;
    gpu.vendor = device.vendor == kVendorNvidia ? "nvidia" : "amd";
    gpu.pci = device.address;
    gpu.pci_id = pci_id_text(device.vendor, device.device);
    gpu.numa_node = device.numa_node;
    gpu.cpus = local_cpus(files, directory);
    const PcieLink& link = pci.link(device.address);
    gpu.pcie_generation = link.generation;
    gpu.pcie_width = link.width;
    const std::string driver = "/proc/driver/nvidia/gpus/" + device.address.text();
    if (const auto text = files.read(driver + "/information", 4096)) {
        gpu.name = value_of(*text, "Model").value_or("");
        gpu.uuid = value_of(*text, "GPU UUID");
        if (gpu.uuid && gpu.uuid->find('?') != std::string::npos) gpu.uuid.reset();
    }
    return gpu;
}

}  // namespace

std::vector<Gpu> pci_gpus(PciTree& pci) {
    const Files& files = pci.files();
    std::vector<Gpu> gpus;
    for (const std::string& name : files.list("/sys/bus/pci/devices")) {
        const auto address = PciAddress::parse(name);
        if (!address) continue;
        const auto device_class = files.hex(pci_directory(*address) + "/class");
        // Most devices end here: one file read for each.
        if (!device_class || (*device_class >> 16 != 0x03 && *device_class >> 16 != 0x12)) continue;
        const auto& device = pci.device(*address);
        if (device && is_gpu(device->vendor, device->device_class))
            gpus.push_back(read_gpu(pci, *device));
        if (gpus.size() == kMostMachineGpus) break;
    }
    const auto nvidia = [](const Gpu& gpu) { return gpu.vendor == "nvidia"; };
    if (std::any_of(gpus.begin(), gpus.end(), nvidia))
        std::erase_if(gpus, [&](const Gpu& gpu) { return !nvidia(gpu); });
    std::sort(gpus.begin(), gpus.end(), [](const Gpu& a, const Gpu& b) { return a.pci < b.pci; });
    for (std::size_t i = 0; i < gpus.size(); ++i) gpus[i].index = static_cast<int>(i);
    return gpus;
}

}  // namespace toporun::detect
