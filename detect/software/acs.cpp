#include "detect/software/acs.hpp"

#include <algorithm>
#include <map>
#include <string>

#include "detect/pci/pci.hpp"

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

using Ways = std::vector<std::optional<AcsWay>>;
using Matrix = std::vector<std::vector<AcsRedirect>>;

/// Whether the port changes the way of what turns there.
AcsRedirect effect_of(const AcsPort& port, std::optional<bool> iommu_translating) {
    if (port.root && iommu_translating == false) return AcsRedirect::off;
    if (!port.redirects) return AcsRedirect::unknown;
    if (!*port.redirects) return AcsRedirect::off;
    return port.root && !iommu_translating ? AcsRedirect::unknown : AcsRedirect::on;
}

/// The same where `way`, of which the last `common` ports are that of the other device too, turns.
AcsRedirect effect_at_turn(const AcsWay& way, std::size_t common,
                           std::optional<bool> iommu_translating) {
    if (common == way.size()) return AcsRedirect::off;  // the device stands at the turn itself
    const AcsPort& port = way[way.size() - common - 1];
    if (common == 0 && !port.root) return AcsRedirect::unknown;
    return effect_of(port, iommu_translating);
}

std::size_t common_ports(const AcsWay& a, const AcsWay& b) {
    std::size_t common = 0;
    while (common < a.size() && common < b.size() &&
           a[a.size() - common - 1].address == b[b.size() - common - 1].address)
        ++common;
    return common;
}

bool is_told(const Matrix& matrix) {
    return std::any_of(matrix.begin(), matrix.end(), [](const auto& row) {
        return std::any_of(row.begin(), row.end(),
                           [](AcsRedirect cell) { return cell != AcsRedirect::unknown; });
    });
}

bool share_switch(const PciDevice& a, const PciDevice& b) {
    return std::find_first_of(a.switches.begin(), a.switches.end(), b.switches.begin(),
                              b.switches.end()) != a.switches.end();
}

/// Reads each bridge once.
class Bridges {
  public:
    explicit Bridges(const Files& files) : files_(files) {}

    AcsWay way(const PciDevice& device) {
        AcsWay way;
        for (const PciAddress& bridge : device.bridges)
            way.push_back({bridge, way.size() + 1 == device.bridges.size(), redirects(bridge)});
        return way;
    }

  private:
    std::optional<bool> redirects(const PciAddress& bridge) {
        const auto known = known_.find(bridge);
        if (known != known_.end()) return known->second;
        return known_.emplace(bridge, bridge_redirects(files_, bridge)).first->second;
    }

    const Files& files_;
    std::map<PciAddress, std::optional<bool>> known_;
};

using Devices = std::vector<std::optional<PciDevice>>;

Matrix towards_nics(Bridges& bridges, const Devices& gpus, const Devices& nics,
                    std::optional<bool> iommu_translating) {
    Matrix matrix;
    for (const auto& gpu : gpus) {
        matrix.emplace_back(nics.size(), AcsRedirect::unknown);
        for (std::size_t i = 0; gpu && i < nics.size(); ++i)
            if (nics[i] && share_switch(*gpu, *nics[i]))
                matrix.back()[i] =
                    acs_between(bridges.way(*gpu), bridges.way(*nics[i]), iommu_translating);
    }
    if (!is_told(matrix)) return {};
    return matrix;
}

}  // namespace

AcsRedirect acs_between(const AcsWay& a, const AcsWay& b, std::optional<bool> iommu_translating) {
    const std::size_t common = common_ports(a, b);
    const AcsRedirect there = effect_at_turn(a, common, iommu_translating);
    const AcsRedirect back = effect_at_turn(b, common, iommu_translating);
    if (there == AcsRedirect::on || back == AcsRedirect::on) return AcsRedirect::on;
    return there == back ? there : AcsRedirect::unknown;
}

std::optional<PciAddress> redirecting_root(const std::optional<AcsWay>& way) {
    if (!way || way->empty() || !way->back().root || way->back().redirects != true)
        return std::nullopt;
    const auto unread = [](const AcsPort& port) { return !port.redirects.has_value(); };
    if (std::any_of(way->begin(), way->end(), unread)) return std::nullopt;
    return way->back().address;
}

std::vector<std::vector<AcsRedirect>> acs_matrix(const std::vector<std::optional<AcsWay>>& gpus,
                                                 std::optional<bool> iommu_translating) {
    Matrix matrix(gpus.size(), std::vector<AcsRedirect>(gpus.size(), AcsRedirect::unknown));
    for (std::size_t a = 0; a < gpus.size(); ++a)
        for (std::size_t b = 0; b < a; ++b)
            if (gpus[a] && gpus[b])
                matrix[a][b] = matrix[b][a] = acs_between(*gpus[a], *gpus[b], iommu_translating);
    if (!is_told(matrix)) return {};
    for (std::size_t a = 0; a < gpus.size(); ++a) matrix[a][a] = AcsRedirect::off;
    return matrix;
}

std::optional<bool> acs_above(const std::vector<std::optional<AcsWay>>& gpus,
                              std::optional<bool> iommu_translating) {
    bool any = false, all_known = true;
    for (const auto& gpu : gpus)
        for (const AcsPort& port : gpu.value_or(AcsWay{})) {
            const AcsRedirect effect = effect_of(port, iommu_translating);
            if (effect == AcsRedirect::on) return true;
            any = true;
            all_known = all_known && effect == AcsRedirect::off;
        }
    if (!any || !all_known) return std::nullopt;
    return false;
}

void detect_acs(PciTree& pci, Machine& machine) {
    if (machine.gpus.empty()) return;
    Bridges bridges(pci.files());
    Devices gpus, nics;
    Ways ways;
    for (Gpu& gpu : machine.gpus) {
        gpus.push_back(gpu.pci ? pci.device(*gpu.pci) : std::nullopt);
        ways.push_back(gpus.back() ? std::optional(bridges.way(*gpus.back())) : std::nullopt);
        gpu.acs_root_port = redirecting_root(ways.back());
    }
    for (const Nic& nic : machine.nics)
        nics.push_back(nic.pci && nic.rdma_device ? pci.device(*nic.pci) : std::nullopt);
    Software& software = machine.software;
    software.acs_redirect = acs_above(ways, software.iommu_translating);
    machine.gpu_acs_redirect = acs_matrix(ways, software.iommu_translating);
    machine.gpu_nic_acs_redirect = towards_nics(bridges, gpus, nics, software.iommu_translating);
}

}  // namespace toporun::detect
