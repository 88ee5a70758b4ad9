#include <algorithm>
#include <cstring>

#include "detect/gpu/nvml_report.hpp"

namespace toporun::detect {
namespace {

constexpr std::int32_t kMostSpeed = 1 << 30;  ///< MB/s

template <std::size_t N>
void terminate(std::array<char, N>& text) {
    text.back() = '\0';
    std::replace_if(
        text.begin(), text.end() - 1, [](char c) { return c != '\0' && (c < 0x20 || c > 0x7e); },
        '?');
}

void within(std::int32_t& value, std::int32_t most) {
    if (value < 0 || value > most) value = kUnknownNumber;
}

void check_links(NvmlGpu& gpu) {
    within(gpu.link_count, nvml::kMostLinks);
    for (std::int32_t& active : gpu.link_active) within(active, 1);
    for (std::int32_t& version : gpu.link_version) within(version, 255);
    for (std::int32_t& kind : gpu.link_kind) within(kind, 255);
    for (std::int32_t& speed : gpu.link_mbytes_per_s) within(speed, kMostSpeed);
    for (auto& peer : gpu.link_peer) terminate(peer);
    within(gpu.c2c_links, 1024);
    within(gpu.c2c_mbytes_per_s, kMostSpeed);
}

void check(NvmlGpu& gpu) {
    terminate(gpu.pci);
    terminate(gpu.name);
    terminate(gpu.uuid);
    terminate(gpu.failure);
    terminate(gpu.fabric_error);
    if (gpu.memory_bytes > UINT64_MAX / 2) gpu.memory_bytes = 0;
    if (gpu.memory_used_bytes > gpu.memory_bytes) gpu.memory_used_bytes = kUnknownSize;
    for (std::int32_t* flag :
         {&gpu.mig, &gpu.persistence, &gpu.ecc, &gpu.row_remap_failed, &gpu.row_remap_pending})
        within(*flag, 1);
    within(gpu.compute_mode, nvml::kMostComputeMode);
    if (gpu.uncorrected_errors > UINT64_MAX / 2) gpu.uncorrected_errors = kUnknownSize;
    within(gpu.compute_capability, 9999);
    within(gpu.architecture, 255);
    within(gpu.pcie_generation, 9);
    within(gpu.pcie_generation_now, 9);
    within(gpu.pcie_width, 32);
    within(gpu.pcie_width_now, 32);
    within(gpu.clock_reasons, 0xffff);
    within(gpu.fabric_state, nvml::kFabricCompleted);
    within(gpu.fabric_status, 999);  // NVML_ERROR_UNKNOWN is the largest
    check_links(gpu);
}

}  // namespace

std::unique_ptr<NvmlReport> decode_nvml_report(std::string_view bytes) {
    auto decoded = std::make_unique<NvmlReport>();
    NvmlReport& report = *decoded;
    if (bytes.size() != sizeof report) return nullptr;
    std::memcpy(&report, bytes.data(), sizeof report);
    if (report.magic != kNvmlReportMagic || report.outcome > NvmlOutcome::count_failed ||
        report.gpu_count > kMostNvmlGpus)
        return nullptr;
    terminate(report.text);
    terminate(report.driver);
    for (NvmlGpu& gpu : report.gpus) check(gpu);
    return decoded;
}

}  // namespace toporun::detect
