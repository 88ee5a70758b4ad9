#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "detect/gpu/nvml_links.hpp"
#include "detect/gpu/nvml_report.hpp"

namespace toporun::detect {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::kSuccess;

/// GPUs register with an NVLink fabric from Hopper on; earlier ones have nothing to tell.
constexpr int kFabricFromCapability = 90;

template <std::size_t N>
void copy_text(std::array<char, N>& to, const char* from) {
    to.fill('\0');
    if (from != nullptr) std::memcpy(to.data(), from, strnlen(from, N - 1));
}

template <class Function>
bool bind(void* library, const char* symbol, Function& function) {
    function = reinterpret_cast<Function>(dlsym(library, symbol));
    return function != nullptr;
}

/// The first required symbol that is missing, null when there is none.
const char* bind_all(void* library, Functions& f) {
#define TOPORUN_REQUIRED(symbol) \
    if (!bind(library, #symbol, f.symbol)) return #symbol
    TOPORUN_REQUIRED(nvmlInit_v2);
    TOPORUN_REQUIRED(nvmlErrorString);
    TOPORUN_REQUIRED(nvmlDeviceGetCount_v2);
    TOPORUN_REQUIRED(nvmlDeviceGetHandleByIndex_v2);
    TOPORUN_REQUIRED(nvmlDeviceGetPciInfo_v3);
#undef TOPORUN_REQUIRED
#define TOPORUN_OPTIONAL(symbol) bind(library, #symbol, f.symbol)
    TOPORUN_OPTIONAL(nvmlSystemGetDriverVersion);
    TOPORUN_OPTIONAL(nvmlDeviceGetName);
    TOPORUN_OPTIONAL(nvmlDeviceGetUUID);
    TOPORUN_OPTIONAL(nvmlDeviceGetMemoryInfo);
    TOPORUN_OPTIONAL(nvmlDeviceGetMigMode);
    TOPORUN_OPTIONAL(nvmlDeviceGetCudaComputeCapability);
    TOPORUN_OPTIONAL(nvmlDeviceGetArchitecture);
    TOPORUN_OPTIONAL(nvmlDeviceGetGpuMaxPcieLinkGeneration);
    TOPORUN_OPTIONAL(nvmlDeviceGetMaxPcieLinkGeneration);
    TOPORUN_OPTIONAL(nvmlDeviceGetMaxPcieLinkWidth);
    TOPORUN_OPTIONAL(nvmlDeviceGetCurrPcieLinkGeneration);
    TOPORUN_OPTIONAL(nvmlDeviceGetCurrPcieLinkWidth);
    TOPORUN_OPTIONAL(nvmlDeviceGetPersistenceMode);
    TOPORUN_OPTIONAL(nvmlDeviceGetEccMode);
    TOPORUN_OPTIONAL(nvmlDeviceGetComputeMode);
    TOPORUN_OPTIONAL(nvmlDeviceGetTotalEccErrors);
    TOPORUN_OPTIONAL(nvmlDeviceGetRemappedRows);
    TOPORUN_OPTIONAL(nvmlDeviceGetCurrentClocksEventReasons);
    TOPORUN_OPTIONAL(nvmlDeviceGetCurrentClocksThrottleReasons);
    TOPORUN_OPTIONAL(nvmlDeviceGetFieldValues);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkState);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkVersion);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkRemotePciInfo_v2);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkRemoteDeviceType);
    TOPORUN_OPTIONAL(nvmlDeviceGetGpuFabricInfoV);
    TOPORUN_OPTIONAL(nvmlDeviceGetGpuFabricInfo);
    TOPORUN_OPTIONAL(nvmlDeviceGetP2PStatus);
    TOPORUN_OPTIONAL(nvmlDeviceGetTopologyCommonAncestor);
#undef TOPORUN_OPTIONAL
    return nullptr;
}

void fail(NvmlReport& report, NvmlOutcome outcome, int code, const char* text) {
    report.outcome = outcome;
    report.code = code;
    copy_text(report.text, text);
}

/// The value of a function with one unsigned result.
std::int32_t number(nvml::Result (*function)(Device, unsigned*), Device device) {
    unsigned value = 0;
    if (function == nullptr || function(device, &value) != kSuccess || value > 1u << 20)
        return kUnknownNumber;
    return static_cast<std::int32_t>(value);
}

/// A fact that is off or on, of a function that tells the present and the pending one.
std::int32_t mode(nvml::Result (*function)(Device, unsigned*, unsigned*), Device device) {
    unsigned now = 0;
    unsigned pending = 0;
    if (function == nullptr || function(device, &now, &pending) != kSuccess || now > 1)
        return kUnknownNumber;
    return static_cast<std::int32_t>(now);
}

void ask_identity(const Functions& f, Device device, NvmlGpu& gpu) {
    nvml::PciInfo pci{};
    if (f.nvmlDeviceGetPciInfo_v3(device, &pci) == kSuccess) {
        pci.bus_id[sizeof pci.bus_id - 1] = '\0';
        copy_text(gpu.pci, pci.bus_id);
    }
    if (f.nvmlDeviceGetName != nullptr) f.nvmlDeviceGetName(device, gpu.name.data(), 96);
    if (f.nvmlDeviceGetUUID != nullptr) f.nvmlDeviceGetUUID(device, gpu.uuid.data(), 96);
    int major = 0;
    int minor = 0;
    if (f.nvmlDeviceGetCudaComputeCapability != nullptr &&
        f.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == kSuccess && major >= 0 &&
        major < 1000 && minor >= 0 && minor < 10)
        gpu.compute_capability = major * 10 + minor;
    gpu.architecture = number(f.nvmlDeviceGetArchitecture, device);
}

void ask_memory(const Functions& f, Device device, NvmlGpu& gpu) {
    nvml::Memory memory{};
    if (f.nvmlDeviceGetMemoryInfo == nullptr ||
        f.nvmlDeviceGetMemoryInfo(device, &memory) != kSuccess)
        return;
    gpu.memory_bytes = memory.total;
    gpu.memory_used_bytes = memory.used;
}

void ask_pcie(const Functions& f, Device device, NvmlGpu& gpu) {
    // What GPU and slot can do together; the other call gives what the GPU alone can do.
    gpu.pcie_generation = number(f.nvmlDeviceGetMaxPcieLinkGeneration, device);
    if (gpu.pcie_generation == kUnknownNumber)
        gpu.pcie_generation = number(f.nvmlDeviceGetGpuMaxPcieLinkGeneration, device);
    gpu.pcie_width = number(f.nvmlDeviceGetMaxPcieLinkWidth, device);
    gpu.pcie_generation_now = number(f.nvmlDeviceGetCurrPcieLinkGeneration, device);
    gpu.pcie_width_now = number(f.nvmlDeviceGetCurrPcieLinkWidth, device);
}

/// Version 3 of the structure, then version 2, then the call of the first drivers that had it.
void ask_fabric(const Functions& f, Device device, NvmlGpu& gpu) {
    nvml::Result status = 0;
    if (f.nvmlDeviceGetGpuFabricInfoV != nullptr)
        for (const unsigned version : {nvml::kFabricVersion3, nvml::kFabricVersion2}) {
            nvml::FabricInfoV info{};
            info.version = version;
            if (f.nvmlDeviceGetGpuFabricInfoV(device, &info) != kSuccess) continue;
            gpu.fabric_state = info.state;
            gpu.fabric_health = info.health_mask;
            status = info.status;
            break;
        }
    nvml::FabricInfo info{};
    if (gpu.fabric_state == kUnknownNumber && f.nvmlDeviceGetGpuFabricInfo != nullptr &&
        f.nvmlDeviceGetGpuFabricInfo(device, &info) == kSuccess) {
        gpu.fabric_state = info.state;
        status = info.status;
    }
    if (gpu.fabric_state != nvml::kFabricCompleted) return;
    gpu.fabric_status = status;
    if (status != kSuccess) copy_text(gpu.fabric_error, f.nvmlErrorString(status));
}

std::int32_t clock_reasons(const Functions& f, Device device) {
    unsigned long long reasons = 0;  // the same bits under a new name since driver 535
    for (const auto function :
         {f.nvmlDeviceGetCurrentClocksEventReasons, f.nvmlDeviceGetCurrentClocksThrottleReasons})
        if (function != nullptr && function(device, &reasons) == kSuccess)
            return static_cast<std::int32_t>(reasons & 0xffff);
    return kUnknownNumber;
}

void ask_health(const Functions& f, Device device, NvmlGpu& gpu) {
    gpu.persistence = number(f.nvmlDeviceGetPersistenceMode, device);
    gpu.ecc = mode(f.nvmlDeviceGetEccMode, device);
    gpu.compute_mode = number(f.nvmlDeviceGetComputeMode, device);
    unsigned long long errors = 0;
    if (f.nvmlDeviceGetTotalEccErrors != nullptr &&
        f.nvmlDeviceGetTotalEccErrors(device, nvml::kUncorrectedErrors, nvml::kVolatileCounter,
                                      &errors) == kSuccess)
        gpu.uncorrected_errors = errors;
    gpu.clock_reasons = clock_reasons(f, device);
    unsigned corrected = 0;
    unsigned uncorrected = 0;
    unsigned pending = 0;
    unsigned failed = 0;
    if (f.nvmlDeviceGetRemappedRows != nullptr &&
        f.nvmlDeviceGetRemappedRows(device, &corrected, &uncorrected, &pending, &failed) ==
            kSuccess) {
        gpu.row_remap_pending = pending != 0;
        gpu.row_remap_failed = failed != 0;
    }
}

void ask_gpu(const Functions& f, Device device, NvmlGpu& gpu) {
    ask_identity(f, device, gpu);
    ask_memory(f, device, gpu);
    gpu.mig = mode(f.nvmlDeviceGetMigMode, device);
    ask_pcie(f, device, gpu);
    ask_links(f, device, gpu);
    if (gpu.compute_capability >= kFabricFromCapability) ask_fabric(f, device, gpu);
}

NvmlPair ask_pair(const Functions& f, Device a, Device b) {
    NvmlPair pair;
    int value = 0;
    if (f.nvmlDeviceGetP2PStatus != nullptr) {
        if (f.nvmlDeviceGetP2PStatus(a, b, nvml::kP2pRead, &value) == kSuccess) pair.read = value;
        if (f.nvmlDeviceGetP2PStatus(a, b, nvml::kP2pWrite, &value) == kSuccess) pair.write = value;
    }
    if (f.nvmlDeviceGetTopologyCommonAncestor != nullptr &&
        f.nvmlDeviceGetTopologyCommonAncestor(a, b, &value) == kSuccess)
        pair.ancestor = value;
    return pair;
}

using Devices = std::array<Device, kMostNvmlGpus>;  ///< null where a GPU does not answer

void ask_gpus(const Functions& f, NvmlReport& report, Devices& devices) {
    unsigned count = 0;
    if (const int code = f.nvmlDeviceGetCount_v2(&count); code != kSuccess)
        return fail(report, NvmlOutcome::count_failed, code, f.nvmlErrorString(code));
    count = std::min(count, kMostNvmlGpus);
    for (unsigned index = 0; index < count; ++index) {
        const nvml::Result code = f.nvmlDeviceGetHandleByIndex_v2(index, &devices[index]);
        if (code == kSuccess) {
            ask_gpu(f, devices[index], report.gpus[index]);
        } else {
            devices[index] = nullptr;  // a GPU that has fallen off the bus keeps its index
            report.gpus[index].failure_code = code;
            copy_text(report.gpus[index].failure, f.nvmlErrorString(code));
        }
    }
    for (unsigned a = 0; a < count; ++a)
        for (unsigned b = 0; b < count; ++b)
            if (a != b && devices[a] != nullptr && devices[b] != nullptr)
                report.pairs[a][b] = ask_pair(f, devices[a], devices[b]);
    report.gpu_count = count;
}

/// The library's functions, NVML initialised; false when it cannot be used, which `report` tells.
bool open_library(const std::string& library, Functions& f, NvmlReport& report) {
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: drivers mind
    if (handle == nullptr) {
        fail(report, NvmlOutcome::no_library, 0, dlerror());
        return false;
    }
    if (const char* missing = bind_all(handle, f); missing != nullptr) {
        fail(report, NvmlOutcome::no_symbol, 0, missing);
        return false;
    }
    if (const int code = f.nvmlInit_v2(); code != kSuccess) {
        fail(report, NvmlOutcome::init_failed, code, f.nvmlErrorString(code));
        return false;
    }
    return true;
}

}  // namespace

void ask_nvml(const NvmlRequest& request, const std::function<void(const NvmlReport&)>& tell) {
    const auto report = std::make_unique<NvmlReport>();
    report->magic = kNvmlReportMagic;
    Functions f{};
    if (!open_library(request.library, f, *report)) return tell(*report);
    if (f.nvmlSystemGetDriverVersion != nullptr)
        f.nvmlSystemGetDriverVersion(report->driver.data(), 80);
    Devices devices{};
    ask_gpus(f, *report, devices);
    tell(*report);
    if (!request.deep) return;
    for (std::uint32_t index = 0; index < report->gpu_count; ++index)
        if (devices[index] != nullptr) {
            ask_health(f, devices[index], report->gpus[index]);
            ask_link_details(f, devices[index], report->gpus[index]);
        }
    tell(*report);
}

}  // namespace toporun::detect
