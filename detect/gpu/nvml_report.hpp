#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>

#include "detect/gpu/nvml_abi.hpp"

/// What the NVML helper tells its parent: one flat block of bytes over a pipe. The parent takes
/// nothing of it for granted (decode_nvml_report).
namespace toporun::detect {

inline constexpr std::uint32_t kMostGpus = 64;
inline constexpr std::int32_t kUnknownNumber = -1;

enum class NvmlOutcome : std::uint32_t { ok, no_library, no_symbol, init_failed, count_failed };

struct NvmlGpu {
    std::array<char, 32> pci;
    std::array<char, 96> name;
    std::array<char, 96> uuid;
    std::uint64_t memory_bytes;       ///< 0 unknown
    std::int32_t mig;                 ///< 0, 1, kUnknownNumber
    std::int32_t compute_capability;  ///< major * 10 + minor
    std::int32_t pcie_generation;
    std::int32_t pcie_width;
    std::int32_t link_count;  ///< NVLinks that answered, active or not
    std::array<std::int32_t, nvml::kMostLinks> link_active;        ///< 0, 1, kUnknownNumber
    std::array<std::array<char, 32>, nvml::kMostLinks> link_peer;  ///< PCI id, "" hidden
};

struct NvmlPair {
    std::int32_t read;  ///< nvmlGpuP2PStatus_t, kUnknownNumber
    std::int32_t write;
    std::int32_t ancestor;  ///< nvmlGpuTopologyLevel_t: 0, 10, ... 50
};

struct NvmlReport {
    std::uint32_t magic;
    NvmlOutcome outcome;
    std::int32_t code;  ///< nvmlReturn_t of a failure
    std::uint32_t gpu_count;
    std::array<char, 256> text;  ///< of a failure: dlerror, the symbol, NVML's words
    std::array<char, 80> driver;
    std::array<NvmlGpu, kMostGpus> gpus;
    std::array<std::array<NvmlPair, kMostGpus>, kMostGpus> pairs;
};
inline constexpr std::uint32_t kNvmlReportMagic = 0x54524e31;  // "TRN1"

/// Loads `library` and asks it everything. Blocks as long as the driver does: for a helper process.
std::unique_ptr<NvmlReport> ask_nvml(const std::string& library);

/// The report in `bytes`, strings terminated and safe to print, numbers within their ranges;
/// nothing when it is no report.
std::unique_ptr<NvmlReport> decode_nvml_report(std::string_view bytes);

}  // namespace toporun::detect
