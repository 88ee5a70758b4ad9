#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "detect/gpu/nvml_abi.hpp"

/// What the NVML helper tells its parent: one flat block of bytes over a pipe. The parent takes
/// nothing of it for granted (decode_nvml_report).
namespace toporun::detect {

inline constexpr std::uint32_t kMostNvmlGpus = 64;
inline constexpr std::int32_t kUnknownNumber = -1;
inline constexpr std::uint64_t kUnknownSize = UINT64_MAX;

enum class NvmlOutcome : std::uint32_t { ok, no_library, no_symbol, init_failed, count_failed };

/// One number for each NVLink.
using LinkNumbers = std::array<std::int32_t, nvml::kMostLinks>;
inline constexpr LinkNumbers kUnknownLinks = [] {
    LinkNumbers numbers{};
    for (std::int32_t& number : numbers) number = kUnknownNumber;
    return numbers;
}();

/// Numbers are kUnknownNumber where the driver does not tell. Those marked "deep" are only asked
/// for when the request is deep.
struct NvmlGpu {
    std::array<char, 32> pci{};
    std::array<char, 96> name{};
    std::array<char, 96> uuid{};
    std::array<char, 96> failure{};  ///< why the driver gives no handle: NVML's words
    std::int32_t failure_code = 0;   ///< nvmlReturn_t of that
    std::uint64_t memory_bytes = 0;  ///< 0 unknown
    std::uint64_t memory_used_bytes = kUnknownSize;
    std::int32_t mig = kUnknownNumber;                 ///< 0, 1
    std::int32_t compute_capability = kUnknownNumber;  ///< major * 10 + minor
    std::int32_t architecture = kUnknownNumber;        ///< nvmlDeviceArchitecture_t
    std::int32_t pcie_generation = kUnknownNumber;
    std::int32_t pcie_width = kUnknownNumber;
    std::int32_t pcie_generation_now = kUnknownNumber;
    std::int32_t pcie_width_now = kUnknownNumber;
    std::int32_t persistence = kUnknownNumber;        ///< 0, 1; deep
    std::int32_t ecc = kUnknownNumber;                ///< 0, 1; deep
    std::uint64_t uncorrected_errors = kUnknownSize;  ///< deep
    std::int32_t compute_mode = kUnknownNumber;       ///< nvmlComputeMode_t; deep
    std::int32_t row_remap_failed = kUnknownNumber;   ///< 0, 1; deep
    std::int32_t row_remap_pending = kUnknownNumber;  ///< 0, 1; deep
    std::int32_t clock_reasons = kUnknownNumber;      ///< nvmlClocksEventReason* bits; deep
    std::int32_t fabric_state = kUnknownNumber;       ///< NVML_GPU_FABRIC_STATE_*
    std::int32_t fabric_status = kUnknownNumber;      ///< nvmlReturn_t, of a completed state only
    std::array<char, 96> fabric_error{};              ///< NVML's words for a status that is not 0
    std::uint32_t fabric_health = 0;                  ///< NVML_GPU_FABRIC_HEALTH_MASK_*
    std::int32_t c2c_links = kUnknownNumber;          ///< active NVLink-C2C links
    std::int32_t c2c_mbytes_per_s = kUnknownNumber;   ///< of all active links together
    std::int32_t link_count = 0;                      ///< NVLinks that answered, active or not
    LinkNumbers link_active = kUnknownLinks;          ///< 0, 1
    LinkNumbers link_version = kUnknownLinks;         ///< nvmlNvlinkVersion_t; deep
    LinkNumbers link_kind = kUnknownLinks;            ///< nvmlIntNvLinkDeviceType_t
    LinkNumbers link_mbytes_per_s = kUnknownLinks;    ///< one direction; deep
    std::array<std::array<char, 32>, nvml::kMostLinks> link_peer{};  ///< PCI id, "" hidden
};

struct NvmlPair {
    std::int32_t read = kUnknownNumber;  ///< nvmlGpuP2PStatus_t
    std::int32_t write = kUnknownNumber;
    std::int32_t ancestor = kUnknownNumber;  ///< nvmlGpuTopologyLevel_t: 0, 10, ... 50
};

struct NvmlReport {
    std::uint32_t magic = 0;
    NvmlOutcome outcome = NvmlOutcome::ok;
    std::int32_t code = 0;  ///< nvmlReturn_t of a failure
    std::uint32_t gpu_count = 0;
    std::array<char, 256> text{};  ///< of a failure: dlerror, the symbol, NVML's words
    std::array<char, 80> driver{};
    std::array<NvmlGpu, kMostNvmlGpus> gpus{};
    std::array<std::array<NvmlPair, kMostNvmlGpus>, kMostNvmlGpus> pairs{};
};
inline constexpr std::uint32_t kNvmlReportMagic = 0x54524e32;  // "TRN2"

struct NvmlRequest {
    std::string library;  ///< a file, or a name for the loader
    /// Ask also for what no launch needs: persistence, ECC, row remapping, clocks, and version,
    /// speed and partner of every NVLink. Some of it takes the driver a millisecond per GPU.
    bool deep = false;
};

/// Loads the library, asks it everything and tells the report. A deep request tells it twice, for
/// the first time before the deep questions: should the driver hang in one of them, the rest is
/// known. Blocks as long as the driver does: for a helper process.
void ask_nvml(const NvmlRequest& request, const std::function<void(const NvmlReport&)>& tell);

/// The report in `bytes`, strings terminated and safe to print, numbers within their ranges;
/// nothing when it is no report.
std::unique_ptr<NvmlReport> decode_nvml_report(std::string_view bytes);

}  // namespace toporun::detect
