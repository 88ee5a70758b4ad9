#include "detect/software/platform.hpp"

#include <algorithm>
#include <array>
#include <map>

#include "base/text.hpp"
#include "detect/gpu/pci.hpp"
#include "detect/mounts.hpp"

namespace toporun::detect {
namespace {

constexpr std::array<std::string_view, 6> kContainerWords = {"docker", "kubepods", "containerd",
                                                             "libpod", "lxc",      "garden"};
constexpr std::array<std::string_view, 4> kVirtualProducts = {
    "Virtual Machine", "Google Compute Engine", "KVM", "VMware"};
constexpr std::array<std::string_view, 3> kVirtualVendors = {"QEMU", "OpenStack", "Xen"};

bool in_container(const Files& files) {
    for (const char* file :
         {"/.dockerenv", "/run/.containerenv", "/.singularity.d", "/run/systemd/container"})
        if (files.exists(file)) return true;
    const auto names_engine = [](const std::string& text) {
        return std::any_of(kContainerWords.begin(), kContainerWords.end(),
                           [&](std::string_view word) { return text.find(word) != text.npos; });
    };
    if (names_engine(files.read("/proc/self/cgroup", 65536).value_or(""))) return true;
    // With a cgroup namespace only the layers of the root file system name the engine.
    const std::vector<Mount> mounts = read_mounts(files);
    return std::any_of(mounts.begin(), mounts.end(), [&](const Mount& mount) {
        return mount.point == "/" && mount.type == "overlay" && names_engine(mount.super_options);
    });
}

bool in_virtual_machine(const Files& files, const Machine& machine) {
    if (files.exists("/sys/hypervisor/type")) return true;
    const std::string cpuinfo = files.read("/proc/cpuinfo", 4096).value_or("");
    const std::string flags = " " + value_of(cpuinfo, "flags").value_or("") + " ";
    if (flags.find(" hypervisor ") != std::string::npos) return true;
    const auto within = [](const std::string& text, const auto& words) {
        return std::any_of(words.begin(), words.end(), [&](std::string_view word) {
            return text.find(word) != std::string::npos;
        });
    };
    return within(machine.product, kVirtualProducts) || within(machine.vendor, kVirtualVendors);
}

bool has_word(const std::string& command_line, std::string_view word) {
    const std::vector<std::string> words = split(command_line, ' ');
    return std::find(words.begin(), words.end(), word) != words.end();
}

/// "DMA", "DMA-FQ" translate, "identity" does not.
std::optional<bool> group_translates(const Files& files, const std::string& group) {
    const auto type = files.line(group + "/type");
    if (!type) return std::nullopt;
    if (*type == "identity") return false;
    if (type->starts_with("DMA")) return true;
    return std::nullopt;
}

constexpr std::size_t kConfigBytes = 4096;
constexpr std::size_t kExtendedBegin = 0x100;
constexpr unsigned kAcsCapability = 0x000d;      // PCI Express base specification, 7.7.8
constexpr unsigned kRedirect = 0x0004 | 0x0008;  // P2P request and completion redirect

unsigned word_at(const std::string& config, std::size_t offset) {
    if (offset + 1 >= config.size()) return 0;
    return static_cast<unsigned char>(config[offset]) |
           static_cast<unsigned>(static_cast<unsigned char>(config[offset + 1])) << 8;
}

std::optional<bool> bridge_redirects(const Files& files, const PciAddress& bridge) {
    const auto config = files.read(pci_directory(bridge) + "/config", kConfigBytes);
    // 64 bytes without the right to read more; a plain PCI bridge has 256 and no ACS.
    if (!config || config->size() < kExtendedBegin) return std::nullopt;
    std::size_t offset = kExtendedBegin;
    for (int hops = 0; hops < 64 && offset >= kExtendedBegin && offset + 8 <= config->size();
         ++hops) {
        const unsigned capability = word_at(*config, offset);
        if (capability == kAcsCapability) return (word_at(*config, offset + 6) & kRedirect) != 0;
        if (capability == 0xffff) return std::nullopt;  // the device is gone
        if (capability == 0) break;
        offset = word_at(*config, offset + 2) >> 4 & 0xffcu;
    }
    return false;
}

/// The port right below what `device` and `other` have in common on the way up; nothing for a
/// device that stands there itself.
std::optional<PciAddress> turning_port(const PciDevice& device, const PciDevice& other) {
    std::size_t own = device.bridges.size(), others = other.bridges.size();
    while (own > 0 && others > 0 && device.bridges[own - 1] == other.bridges[others - 1])
        --own, --others;
    if (own == 0) return std::nullopt;
    return device.bridges[own - 1];
}

/// Reads each port once: a configuration space of 4 KiB takes about a millisecond.
class Ports {
  public:
    explicit Ports(const Files& files) : files_(files) {}

    AcsRedirect between(const PciDevice& a, const PciDevice& b) {
        AcsRedirect redirect = AcsRedirect::off;
        for (const auto& port : {turning_port(a, b), turning_port(b, a)}) {
            if (!port) continue;
            const auto told = redirects(*port);
            if (told && *told) return AcsRedirect::on;
            if (!told) redirect = AcsRedirect::unknown;
        }
        return redirect;
    }

  private:
    std::optional<bool> redirects(const PciAddress& port) {
        const auto known = known_.find(port);
        if (known != known_.end()) return known->second;
        return known_.emplace(port, bridge_redirects(files_, port)).first->second;
    }

    const Files& files_;
    std::map<PciAddress, std::optional<bool>> known_;
};

}  // namespace

std::optional<bool> iommu_translating(const Files& files, const std::vector<Gpu>& gpus) {
    for (const Gpu& gpu : gpus)
        if (gpu.pci)
            if (const auto told = group_translates(files, pci_directory(*gpu.pci) + "/iommu_group"))
                return told;
    const auto command_line = files.line("/proc/cmdline");
    for (const char* off :
         {"iommu=off", "intel_iommu=off", "amd_iommu=off", "iommu=pt", "iommu.passthrough=1"})
        if (command_line && has_word(*command_line, off)) return false;
    const std::vector<std::string> groups = files.list("/sys/kernel/iommu_groups");
    if (!groups.empty()) return group_translates(files, "/sys/kernel/iommu_groups/" + groups[0]);
    const bool told = files.exists("/sys/kernel/iommu_groups") || files.exists("/sys/class/iommu");
    if (told && files.list("/sys/class/iommu").empty()) return false;
    return std::nullopt;
}

std::optional<bool> acs_redirect(const Files& files, const std::vector<Gpu>& gpus) {
    bool all_read = false;
    std::vector<PciAddress> bridges;
    for (const Gpu& gpu : gpus)
        if (const auto device = gpu.pci ? read_pci_device(files, *gpu.pci) : std::nullopt)
            bridges.insert(bridges.end(), device->bridges.begin(), device->bridges.end());
    std::sort(bridges.begin(), bridges.end());
    bridges.erase(std::unique(bridges.begin(), bridges.end()), bridges.end());
    all_read = !bridges.empty();
    for (const PciAddress& bridge : bridges) {
        const auto told = bridge_redirects(files, bridge);
        if (told && *told) return true;
        all_read = all_read && told;
    }
    if (!all_read) return std::nullopt;
    return false;
}

std::vector<std::vector<AcsRedirect>> gpu_acs_redirect(const Files& files,
                                                       const std::vector<Gpu>& gpus) {
    std::vector<std::optional<PciDevice>> devices;
    for (const Gpu& gpu : gpus)
        devices.push_back(gpu.pci ? read_pci_device(files, *gpu.pci) : std::nullopt);
    std::vector<std::vector<AcsRedirect>> matrix(
        gpus.size(), std::vector<AcsRedirect>(gpus.size(), AcsRedirect::unknown));
    Ports ports(files);
    bool told = false;
    for (std::size_t a = 0; a < gpus.size(); ++a) {
        matrix[a][a] = AcsRedirect::off;
        for (std::size_t b = 0; b < a; ++b) {
            if (!devices[a] || !devices[b]) continue;
            matrix[a][b] = matrix[b][a] = ports.between(*devices[a], *devices[b]);
            told = told || matrix[a][b] != AcsRedirect::unknown;
        }
    }
    if (!told) matrix.clear();
    return matrix;
}

void detect_platform(const Files& files, Machine& machine) {
    machine.hostname = files.line("/proc/sys/kernel/hostname").value_or("");
    machine.software.kernel = files.line("/proc/sys/kernel/osrelease").value_or("");
    machine.vendor = files.line("/sys/class/dmi/id/sys_vendor").value_or("");
    machine.product = files.line("/sys/class/dmi/id/product_name").value_or("");
    if (machine.product.empty())  // Arm without DMI; the text ends in a NUL
        if (const auto model = files.read("/sys/firmware/devicetree/base/model", 256))
            machine.product = printable(trim(model->substr(0, model->find('\0'))));
    machine.container = in_container(files);
    machine.virtual_machine = in_virtual_machine(files, machine);
    machine.software.iommu_translating = iommu_translating(files, machine.gpus);
    machine.software.acs_redirect = acs_redirect(files, machine.gpus);
    machine.gpu_acs_redirect = gpu_acs_redirect(files, machine.gpus);
}

}  // namespace toporun::detect
