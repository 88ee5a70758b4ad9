#include "detect/software/acs.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "detect/gpu/pci.hpp"

namespace toporun::detect {
namespace {

constexpr std::uint64_t kExtendedBegin = 0x100;  // of 256 bytes, the space of plain PCI
constexpr std::uint64_t kConfigBytes = 4096;
constexpr unsigned kAcsCapability = 0x000d;      // PCI Express base specification, 7.7.8
constexpr unsigned kRedirect = 0x0004 | 0x0008;  // P2P request and completion redirect
constexpr std::size_t kHeaderBytes = 8;          // of a capability, up to ACS's control word
constexpr int kMostCapabilities = 64;

unsigned word_at(const std::string& bytes, std::size_t offset) {
    return static_cast<unsigned char>(bytes[offset]) |
           static_cast<unsigned>(static_cast<unsigned char>(bytes[offset + 1])) << 8;
}

/// Reads the capabilities one by one: each word read is an access to the device, and the whole
/// space of 4 KiB takes a millisecond.
std::optional<bool> bridge_redirects(const Files& files, const PciAddress& bridge) {
    const std::string path = pci_directory(bridge) + "/config";
    // 64 bytes without the right to read more; a plain PCI bridge has 256 and no ACS.
    const auto last = files.read_at(path, kExtendedBegin - 4, 4);
    if (!last || last->size() < 4) return std::nullopt;
    std::uint64_t offset = kExtendedBegin;
    for (int hops = 0; hops < kMostCapabilities; ++hops) {
        if (offset < kExtendedBegin || offset + kHeaderBytes > kConfigBytes) return false;
        const auto header = files.read_at(path, offset, kHeaderBytes);
        if (!header || header->size() < kHeaderBytes) return false;
        const unsigned capability = word_at(*header, 0);
        if (capability == kAcsCapability) return (word_at(*header, 6) & kRedirect) != 0;
        if (capability == 0xffff) return std::nullopt;  // the device is gone
        if (capability == 0) return false;
        offset = word_at(*header, 2) >> 4 & 0xffcu;
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

bool share_switch(const PciDevice& a, const PciDevice& b) {
    return std::find_first_of(a.switches.begin(), a.switches.end(), b.switches.begin(),
                              b.switches.end()) != a.switches.end();
}

/// Reads each bridge once.
class Bridges {
  public:
    explicit Bridges(const Files& files) : files_(files) {}

    std::optional<bool> redirects(const PciAddress& bridge) {
        const auto known = known_.find(bridge);
        if (known != known_.end()) return known->second;
        return known_.emplace(bridge, bridge_redirects(files_, bridge)).first->second;
    }

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
    const Files& files_;
    std::map<PciAddress, std::optional<bool>> known_;
};

using Devices = std::vector<std::optional<PciDevice>>;
using Matrix = std::vector<std::vector<AcsRedirect>>;

bool is_told(const Matrix& matrix) {
    return std::any_of(matrix.begin(), matrix.end(), [](const auto& row) {
        return std::any_of(row.begin(), row.end(),
                           [](AcsRedirect cell) { return cell != AcsRedirect::unknown; });
    });
}

std::optional<bool> above_gpus(Bridges& bridges, const Devices& gpus) {
    bool any = false, all_read = true;
    for (const auto& gpu : gpus) {
        if (!gpu) continue;
        for (const PciAddress& bridge : gpu->bridges) {
            const auto told = bridges.redirects(bridge);
            if (told && *told) return true;
            any = true;
            all_read = all_read && told;
        }
    }
    if (!any || !all_read) return std::nullopt;
    return false;
}

Matrix between_gpus(Bridges& bridges, const Devices& gpus) {
    Matrix matrix(gpus.size(), std::vector<AcsRedirect>(gpus.size(), AcsRedirect::unknown));
    for (std::size_t a = 0; a < gpus.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
            if (gpus[a] && gpus[b])
                matrix[a][b] = matrix[b][a] = bridges.between(*gpus[a], *gpus[b]);
    if (!is_told(matrix)) return {};
    for (std::size_t a = 0; a < gpus.size(); ++a) matrix[a][a] = AcsRedirect::off;
    return matrix;
}

Matrix towards_nics(Bridges& bridges, const Devices& gpus, const Devices& nics) {
    Matrix matrix;
    for (const auto& gpu : gpus) {
        matrix.emplace_back(nics.size(), AcsRedirect::unknown);
        for (std::size_t i = 0; gpu && i < nics.size(); ++i)
            if (nics[i] && share_switch(*gpu, *nics[i]))
                matrix.back()[i] = bridges.between(*gpu, *nics[i]);
    }
    if (!is_told(matrix)) return {};
    return matrix;
}

}  // namespace

void detect_acs(const Files& files, Machine& machine) {
    if (machine.gpus.empty()) return;
    Devices gpus, nics;
    for (const Gpu& gpu : machine.gpus)
        gpus.push_back(gpu.pci ? read_pci_device(files, *gpu.pci) : std::nullopt);
    for (const Nic& nic : machine.nics)
        nics.push_back(nic.pci && nic.rdma_device ? read_pci_device(files, *nic.pci)
                                                  : std::nullopt);
    Bridges bridges(files);
    machine.software.acs_redirect = above_gpus(bridges, gpus);
    machine.gpu_acs_redirect = between_gpus(bridges, gpus);
    machine.gpu_nic_acs_redirect = towards_nics(bridges, gpus, nics);
}

}  // namespace toporun::detect
