#include "detect/topology/link_bandwidth.hpp"

#include <algorithm>
#include <array>

namespace toporun::detect {
namespace {

/// From `since` on NCCL gives a link of GPUs with at least this capability this bandwidth.
struct NvLinkRow {
    int since;
    int capability;
    bool exactly;  ///< this capability only
    double gbytes_per_s;
};

/// NCCL src/graph/topo.h, v2.8.4 to v2.30.7. The first row that fits counts.
constexpr std::array kNvLinks{
    NvLinkRow{2'27'05, 100, false, 40.1}, NvLinkRow{2'25'00, 100, false, 40.0},
    NvLinkRow{2'20'00, 90, false, 20.6},  NvLinkRow{2'18'00, 90, false, 20.0},
    NvLinkRow{0, 86, true, 12.0},         NvLinkRow{2'18'00, 70, false, 20.0},
    NvLinkRow{2'10'00, 70, false, 22.0},  NvLinkRow{0, 70, false, 21.0},
    NvLinkRow{0, 60, false, 18.0},
};

constexpr int kSkylake = 0x55;  ///< x86 models of family 6 (src/graph/topo.cc, ncclTopoAddCpu)
constexpr int kSapphireRapids = 0x8f;
constexpr int kEmeraldRapids = 0xcf;
constexpr double kAnyWidth = 5000;  ///< NCCL's LOC_BW: no limit

double intel_gbytes_per_s(const TreeCpu& cpu, int version) {
    if (cpu.family != 6 || cpu.model < kSkylake) return 6;
    if (version >= 2'26'00 && cpu.model >= kEmeraldRapids) return 40;
    if (version >= 2'26'00 && cpu.model >= kSapphireRapids) return 22;
    return version >= 2'18'00 ? 10 : 9;
}

}  // namespace

double pcie_gbytes_per_s(std::optional<int> generation, std::optional<int> width) {
    // Units of 100 Mb/s a lane: 15 for generation 1 up to 480 (src/graph/topo.cc, kvDictPciGen).
    constexpr int kLane[] = {15, 30, 60, 120, 240, 480};
    const int known = generation.value_or(3);
    const int lane = known >= 1 && known <= 6 ? kLane[known - 1] : kLane[2];
    const int lanes = width && *width >= 1 && *width <= 32 ? *width : 16;
    return lanes * lane / 80.0;
}

double nvlink_gbytes_per_s(std::optional<int> compute_capability, std::optional<int> nccl_version) {
    const int version = nccl_version.value_or(kNewestNccl);
    int capability = compute_capability.value_or(80);
    if (capability < 60) capability = 80;
    const auto fits = [&](const NvLinkRow& row) {
        const bool capable =
            row.exactly ? capability == row.capability : capability >= row.capability;
        return version >= row.since && capable;
    };
    return std::find_if(kNvLinks.begin(), kNvLinks.end(), fits)->gbytes_per_s;
}

double xgmi_gbytes_per_s(std::string_view architecture) {
    if (architecture.starts_with("gfx90a")) return 36;
    if (architecture.starts_with("gfx94") || architecture.starts_with("gfx95")) return 48;
    return 24;
}

double cpu_link_gbytes_per_s(const TreeCpu& cpu, std::optional<int> nccl_version) {
    const int version = nccl_version.value_or(kNewestNccl);
    if (cpu.architecture.starts_with("ppc64")) return 32;
    if (cpu.architecture == "aarch64" || cpu.architecture == "arm64") return 6;
    if (cpu.architecture != "x86_64") return kAnyWidth;
    if (cpu.vendor == "GenuineIntel") return intel_gbytes_per_s(cpu, version);
    if (cpu.vendor == "AuthenticAMD") return version >= 2'19'00 ? 16 : kAnyWidth;
    if (cpu.vendor == "CentaurHauls" || cpu.vendor == "  Shanghai  ")
        return cpu.family == 7 && cpu.model == 0x5b ? 9 : 6;
    return kAnyWidth;
}

}  // namespace toporun::detect
