#include "detect/gpu/amd.hpp"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iterator>

#include "detect/gpu/architecture.hpp"
#include "detect/gpu/kfd.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {
namespace {

/// Names for cards whose firmware has none (product_name is empty). PCI device ids of AMD by the
/// PCI ID repository (pci-ids.ucw.cz), vendor 1002.
struct Product {
    std::uint64_t device_id;
    const char* name;
};
constexpr Product kProducts[] = {
    {0x66a1, "AMD Radeon Instinct MI50"}, {0x738c, "AMD Instinct MI100"},
    {0x738e, "AMD Instinct MI100"},       {0x7408, "AMD Instinct MI250X"},
    {0x740c, "AMD Instinct MI250X"},      {0x740f, "AMD Instinct MI210"},
    {0x74a0, "AMD Instinct MI300A"},      {0x74a1, "AMD Instinct MI300X"},
    {0x74b5, "AMD Instinct MI300X VF"},   {0x74a5, "AMD Instinct MI325X"},
};

std::string product_name(std::uint64_t device_id) {
    const auto* found =
        std::find_if(std::begin(kProducts), std::end(kProducts),
                     [&](const Product& product) { return product.device_id == device_id; });
    return found == std::end(kProducts) ? "" : found->name;
}

/// The device's directory, by PCI address, else by its render node.
std::string device_directory(const Files& files, const KfdNode& node) {
    const std::string directory = pci_directory(node.pci);
    if (node.render_minor == 0 || files.exists(directory)) return directory;
    return fmt::format("/sys/class/drm/renderD{}/device", node.render_minor);
}

std::optional<std::uint64_t> bytes_of(const Files& files, const std::string& file) {
    const auto bytes = files.integer(file);
    if (!bytes || *bytes < 0) return std::nullopt;
    return static_cast<std::uint64_t>(*bytes);
}

void read_device_files(const Files& files, const KfdNode& node, bool partitioned, Gpu& gpu) {
    const std::string directory = device_directory(files, node);
    gpu.name = files.line(directory + "/product_name").value_or("");
    if (gpu.name.empty()) gpu.name = product_name(node.device_id);
    if (node.memory_bytes != 0) gpu.memory_bytes = node.memory_bytes;
    if (!gpu.memory_bytes) gpu.memory_bytes = bytes_of(files, directory + "/mem_info_vram_total");
    const auto used = bytes_of(files, directory + "/mem_info_vram_used");
    // Of a partitioned GPU the file tells of all partitions together.
    if (!partitioned && used && used <= gpu.memory_bytes) gpu.memory_used_bytes = used;
    if (node.unique_id != 0) {
        gpu.uuid = fmt::format("GPU-{:016x}", node.unique_id);
    } else if (const auto id = files.hex(directory + "/unique_id"); id && *id != 0) {
        gpu.uuid = fmt::format("GPU-{:016x}", *id);
    }
}

Gpu make_gpu(PciTree& pci, const KfdNode& node, bool partitioned, const std::vector<Gpu>& on_bus) {
    const auto seen = std::find_if(on_bus.begin(), on_bus.end(),
                                   [&](const Gpu& gpu) { return gpu.pci == node.pci; });
    Gpu gpu = seen == on_bus.end() ? Gpu{} : *seen;
    gpu.vendor = "amd";
    gpu.pci = node.pci;
    gpu.architecture = amd_architecture(static_cast<long long>(node.gfx_target_version));
    read_device_files(pci.files(), node, partitioned, gpu);
    // A partition's address is no device of sysfs: what is said of its link is said here.
    const PcieLink& link = pci.link(node.pci);
    gpu.pcie_generation_now = link.generation_now;
    gpu.pcie_width_now = link.width_now;
    if (node.partition > 0) gpu.pci->function = static_cast<std::uint8_t>(node.partition & 0x7);
    return gpu;
}

/// Position among the GPUs of a node, or their number.
std::size_t position_of(const std::vector<KfdNode>& nodes, std::uint64_t number) {
    const auto found = std::find_if(nodes.begin(), nodes.end(), [&](const KfdNode& node) {
        return static_cast<std::uint64_t>(node.number) == number;
    });
    return static_cast<std::size_t>(found - nodes.begin());
}

void add_links(const KfdLink& entry, const std::vector<KfdNode>& nodes, std::size_t from,
               Machine& machine) {
    const int count = xgmi_links(entry);
    const std::size_t to = position_of(nodes, entry.to);
    if (count == 0 || to == from) return;
    std::vector<GpuLink>& links = machine.gpus[from].links;
    for (int i = 0; i < count; ++i) {
        GpuLink link;  // KFD names the links that were set up, not whether they still work
        link.link = static_cast<int>(links.size());
        link.peer_kind = to < nodes.size() ? "gpu" : "cpu";
        if (to < nodes.size()) link.peer = machine.gpus[to].pci;
        const std::uint64_t speed = entry.most_mbytes_per_s / static_cast<std::uint64_t>(count);
        if (speed > 0 && speed < 100'000'000) link.speed_gbytes_per_s = double(speed) / 1000.0;
        links.push_back(std::move(link));
    }
    if (to >= nodes.size()) return;
    // An end that the kernel keeps to itself does not take the link away.
    int& there = machine.gpu_links[from][to];
    int& back = machine.gpu_links[to][from];
    there = back = std::max({there, back, count});
}

void take_kfd_gpus(PciTree& pci, const std::vector<KfdNode>& nodes, Machine& machine) {
    const std::vector<Gpu> on_bus = std::move(machine.gpus);
    machine.gpus.clear();
    for (const KfdNode& node : nodes) {
        const bool partitioned =
            std::count_if(nodes.begin(), nodes.end(),
                          [&](const KfdNode& other) { return other.pci == node.pci; }) > 1;
        Gpu gpu = make_gpu(pci, node, partitioned, on_bus);
        gpu.index = static_cast<int>(machine.gpus.size());
        if (std::any_of(machine.gpus.begin(), machine.gpus.end(),
                        [&](const Gpu& other) { return other.pci == gpu.pci; }))
            gpu.pci.reset();  // two devices cannot have one address
        machine.gpus.push_back(std::move(gpu));
    }
    machine.gpu_links.assign(nodes.size(), std::vector<int>(nodes.size()));
    for (std::size_t from = 0; from < nodes.size(); ++from)
        for (const KfdLink& link : nodes[from].links) add_links(link, nodes, from, machine);
    for (const Gpu& gpu : on_bus)
        if (std::none_of(nodes.begin(), nodes.end(),
                         [&](const KfdNode& node) { return gpu.pci == node.pci; }))
            machine.notes.push_back(fmt::format(
                "GPU {} is on the PCI bus but KFD does not show it: hidden from this job, or no "
                "device for computing",
                gpu.pci->text()));
}

void note_access(const Files& files, Machine& machine) {
    if (!files.exists("/dev")) return;  // a tree of /sys alone
    if (!files.exists("/dev/kfd"))
        machine.notes.emplace_back(
            "/dev/kfd is missing: the amdgpu driver has no compute part here, or the container was "
            "started without GPUs");
    else if (files.real() && access("/dev/kfd", R_OK | W_OK) != 0)
        machine.notes.emplace_back(
            "/dev/kfd may not be opened by this user: usually the groups render and video may");
}

}  // namespace

void detect_amd_gpus(PciTree& pci, Machine& machine) {
    const Files& files = pci.files();
    KfdTopology kfd = read_kfd(files);
    std::erase_if(kfd.nodes, [](const KfdNode& node) { return node.simd_count == 0; });
    if (!kfd.present && machine.gpus.empty()) return;
    if (!kfd.present)
        machine.notes.emplace_back(
            "AMD GPUs without KFD (/sys/class/kfd is missing): xGMI links and memory are unknown");
    if (kfd.unreadable > 0)
        machine.notes.push_back(fmt::format(
            "KFD keeps {} of its nodes from this process: GPUs that are not given to this job",
            kfd.unreadable));
    if (kfd.present) machine.software.gpus_withheld = kfd.unreadable;
    if (!kfd.nodes.empty()) take_kfd_gpus(pci, kfd.nodes, machine);
    if (!machine.gpus.empty()) note_access(files, machine);
}

}  // namespace toporun::detect
