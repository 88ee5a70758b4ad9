#include "detect/gpu/nvml_facts.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <iterator>

#include "base/text.hpp"
#include "detect/gpu/architecture.hpp"

namespace toporun::detect {
namespace {

// PCI classes by which NCCL tells NVLink partners apart (src/graph/topo.cc).
constexpr unsigned kSwitchClass = 0x068000;
constexpr unsigned kCpuClass = 0x068001;
constexpr unsigned kDisplayClass = 0x03;

std::optional<int> known(std::int32_t value) {
    if (value == kUnknownNumber) return std::nullopt;
    return value;
}

std::optional<bool> known_flag(std::int32_t value) {
    if (value == kUnknownNumber) return std::nullopt;
    return value == 1;
}

/// A number that NVML knows replaces the one of sysfs; 0 is none.
void replace(std::optional<int>& value, std::int32_t told) {
    if (told > 0) value = told;
}

void take_fabric(const NvmlGpu& told, Gpu& gpu) {
    constexpr const char* kStates[] = {"not supported", "not started", "in progress", "completed"};
    if (told.fabric_state == kUnknownNumber) return;
    gpu.fabric_state = kStates[told.fabric_state];
    if (told.fabric_status == nvml::kSuccess)
        gpu.fabric_status = "success";
    else if (told.fabric_status != kUnknownNumber)
        gpu.fabric_status =
            fmt::format("{} ({})", printable(told.fabric_error.data()), told.fabric_status);
}

std::string partner(const NvmlReport& report, const std::optional<PciAddress>& peer,
                    std::int32_t kind, const PciClassOf& class_of) {
    constexpr const char* kKinds[] = {"gpu", "cpu", "switch"};  // nvmlIntNvLinkDeviceType_t
    if (kind >= 0 && kind < 3) return kKinds[kind];
    if (!peer) return "";
    for (std::uint32_t i = 0; i < report.gpu_count; ++i)
        if (PciAddress::parse(report.gpus[i].pci.data()) == peer) return "gpu";
    const auto found = class_of(*peer);
    if (found == kSwitchClass) return "switch";
    if (found == kCpuClass) return "cpu";
    return found && *found >> 16 == kDisplayClass ? "gpu" : "";
}

constexpr const char* kComputeModes[] = {"default", "exclusive-process", "prohibited",
                                         "exclusive-process"};  // nvmlComputeMode_t

}  // namespace

void take_nvml_facts(const NvmlGpu& told, Gpu& gpu) {
    if (told.name[0] != '\0') gpu.name = told.name.data();
    if (told.uuid[0] != '\0') gpu.uuid = told.uuid.data();
    if (told.memory_bytes != 0) gpu.memory_bytes = told.memory_bytes;
    if (told.memory_used_bytes != kUnknownSize) gpu.memory_used_bytes = told.memory_used_bytes;
    gpu.mig = known_flag(told.mig);
    gpu.compute_capability = known(told.compute_capability);
    gpu.architecture = nvml_architecture(told.architecture);
    if (gpu.architecture.empty()) gpu.architecture = nvidia_architecture(told.compute_capability);
    replace(gpu.pcie_generation, told.pcie_generation);
    replace(gpu.pcie_width, told.pcie_width);
    replace(gpu.pcie_generation_now, told.pcie_generation_now);
    replace(gpu.pcie_width_now, told.pcie_width_now);
    gpu.persistence = known_flag(told.persistence);
    gpu.ecc = known_flag(told.ecc);
    if (told.pci[0] == '\0' && told.failure_code != nvml::kNoPermission) gpu.responding = false;
    if (told.compute_mode != kUnknownNumber)  // 1, exclusive to a thread, is of the past
        gpu.compute_mode = kComputeModes[told.compute_mode];
    if (told.uncorrected_errors != kUnknownSize) gpu.uncorrected_errors = told.uncorrected_errors;
    gpu.row_remap_failed = known_flag(told.row_remap_failed);
    gpu.row_remap_pending = known_flag(told.row_remap_pending);
    if (told.clock_reasons != kUnknownNumber)
        gpu.throttle_reasons = clock_reason_names(told.clock_reasons);
    take_fabric(told, gpu);
    if (told.c2c_links > 0 && told.c2c_mbytes_per_s > 0)
        gpu.c2c_gbytes_per_s = told.c2c_mbytes_per_s / 1000.0;
}

std::vector<GpuLink> nvml_links(const NvmlReport& report, std::size_t position,
                                const PciClassOf& class_of) {
    const NvmlGpu& told = report.gpus[position];
    std::vector<GpuLink> links;
    for (std::size_t number = 0; number < nvml::kMostLinks; ++number) {
        if (told.link_active[number] == kUnknownNumber) continue;
        GpuLink link;
        link.link = static_cast<int>(number);
        link.active = told.link_active[number] == 1;
        link.version = nvlink_version(told.link_version[number], told.compute_capability);
        link.peer = PciAddress::parse(told.link_peer[number].data());
        if (*link.active)
            link.peer_kind = partner(report, link.peer, told.link_kind[number], class_of);
        if (told.link_mbytes_per_s[number] > 0)
            link.speed_gbytes_per_s = told.link_mbytes_per_s[number] / 1000.0;
        links.push_back(std::move(link));
    }
    return links;
}

std::vector<std::string> clock_reason_names(std::int32_t reasons) {
    struct Row {
        std::int32_t bit;
        const char* name;
    };
    constexpr Row kRows[] = {{0x08, "hw-slowdown"},
                             {0x40, "hw-thermal"},
                             {0x20, "sw-thermal"},
                             {0x80, "power-brake"},
                             {0x04, "power-cap"}};
    std::vector<std::string> names;
    for (const Row& row : kRows)
        if ((reasons & row.bit) != 0) names.emplace_back(row.name);
    return names;
}

std::vector<std::string> fabric_faults(std::uint32_t health) {
    /// A part of the mask; each has the values 0 not supported, 1 and 2.
    struct Row {
        unsigned shift;
        std::uint32_t bad;
        const char* text;
    };
    constexpr Row kRows[] = {{0, 1, "bandwidth degraded"},
                             {2, 1, "route recovery in progress"},
                             {4, 1, "a route is unhealthy"},
                             {6, 1, "recovery from an access timeout in progress"},
                             {12, 2, "no partition is assigned"}};
    constexpr const char* kConfigurations[] = {
        "",  // not supported
        "",  // correct
        "the system's GUID",
        "the chassis serial number",
        "no partition",
        "too few NVLinks",
        "the GPU's firmware",
        "the GPU's location",
        "the GPU's state",
    };
    constexpr unsigned kConfigurationShift = 8;
    std::vector<std::string> faults;
    for (const Row& row : kRows)
        if ((health >> row.shift & 0x3) == row.bad) faults.emplace_back(row.text);
    const std::uint32_t configuration = health >> kConfigurationShift & 0xf;
    if (configuration >= 2)
        faults.push_back(
            fmt::format("wrong configuration: {}", configuration < std::size(kConfigurations)
                                                       ? kConfigurations[configuration]
                                                       : std::to_string(configuration)));
    return faults;
}

std::optional<int> nvlink_version(std::int32_t told, std::int32_t capability) {
    constexpr int kGenerations[] = {0, 1, 2, 2, 3, 3, 4, 5, 6};
    if (told == nvlink_generation(capability)) return told;
    if (told < 1 || told >= static_cast<std::int32_t>(std::size(kGenerations))) return std::nullopt;
    return kGenerations[told];
}

}  // namespace toporun::detect
