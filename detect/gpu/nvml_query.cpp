#include <dlfcn.h>

#include <algorithm>
#include <cstring>

#include "detect/gpu/nvml_report.hpp"

namespace toporun::detect {
namespace {

using nvml::Device;
using nvml::Functions;
using nvml::kSuccess;

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
    TOPORUN_OPTIONAL(nvmlDeviceGetGpuMaxPcieLinkGeneration);
    TOPORUN_OPTIONAL(nvmlDeviceGetMaxPcieLinkGeneration);
    TOPORUN_OPTIONAL(nvmlDeviceGetMaxPcieLinkWidth);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkState);
    TOPORUN_OPTIONAL(nvmlDeviceGetNvLinkRemotePciInfo_v2);
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

void ask_links(const Functions& f, Device device, NvmlGpu& gpu) {
    gpu.link_active.fill(kUnknownNumber);
    if (f.nvmlDeviceGetNvLinkState == nullptr) return;
    for (unsigned link = 0; link < nvml::kMostLinks; ++link) {
        int active = 0;  // an unsupported or missing link is no error of the query
        if (f.nvmlDeviceGetNvLinkState(device, link, &active) != kSuccess) continue;
        ++gpu.link_count;
        gpu.link_active[link] = active != 0;
        nvml::PciInfo peer{};
        if (active != 0 && f.nvmlDeviceGetNvLinkRemotePciInfo_v2 != nullptr &&
            f.nvmlDeviceGetNvLinkRemotePciInfo_v2(device, link, &peer) == kSuccess) {
            peer.bus_id[sizeof peer.bus_id - 1] = '\0';
            copy_text(gpu.link_peer[link], peer.bus_id);
        }
    }
}

void ask_gpu(const Functions& f, Device device, NvmlGpu& gpu) {
    nvml::PciInfo pci{};
    if (f.nvmlDeviceGetPciInfo_v3(device, &pci) == kSuccess) {
        pci.bus_id[sizeof pci.bus_id - 1] = '\0';
        copy_text(gpu.pci, pci.bus_id);
    }
    if (f.nvmlDeviceGetName != nullptr) f.nvmlDeviceGetName(device, gpu.name.data(), 96);
    if (f.nvmlDeviceGetUUID != nullptr) f.nvmlDeviceGetUUID(device, gpu.uuid.data(), 96);
    nvml::Memory memory{};
    if (f.nvmlDeviceGetMemoryInfo != nullptr &&
        f.nvmlDeviceGetMemoryInfo(device, &memory) == kSuccess)
        gpu.memory_bytes = memory.total;
    unsigned mig = 0;
    unsigned mig_pending = 0;
    const bool has_mig = f.nvmlDeviceGetMigMode != nullptr &&
                         f.nvmlDeviceGetMigMode(device, &mig, &mig_pending) == kSuccess;
    gpu.mig = has_mig ? mig != 0 : kUnknownNumber;
    int major = 0;
    int minor = 0;
    const bool has_capability =
        f.nvmlDeviceGetCudaComputeCapability != nullptr &&
        f.nvmlDeviceGetCudaComputeCapability(device, &major, &minor) == kSuccess;
    const bool sane = major >= 0 && major < 1000 && minor >= 0 && minor < 10;
    gpu.compute_capability = has_capability && sane ? major * 10 + minor : kUnknownNumber;
    // What the GPU can do; the older call gives what GPU and slot can do together.
    gpu.pcie_generation = number(f.nvmlDeviceGetMaxPcieLinkGeneration, device);
    if (gpu.pcie_generation == kUnknownNumber)
        gpu.pcie_generation = number(f.nvmlDeviceGetGpuMaxPcieLinkGeneration, device);
    gpu.pcie_width = number(f.nvmlDeviceGetMaxPcieLinkWidth, device);
    ask_links(f, device, gpu);
}

NvmlPair ask_pair(const Functions& f, Device a, Device b) {
    NvmlPair pair{kUnknownNumber, kUnknownNumber, kUnknownNumber};
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

void ask_gpus(const Functions& f, NvmlReport& report) {
    unsigned count = 0;
    if (const int code = f.nvmlDeviceGetCount_v2(&count); code != kSuccess)
        return fail(report, NvmlOutcome::count_failed, code, f.nvmlErrorString(code));
    count = std::min(count, kMostGpus);
    std::array<Device, kMostGpus> devices{};
    for (unsigned index = 0; index < count; ++index)
        if (f.nvmlDeviceGetHandleByIndex_v2(index, &devices[index]) == kSuccess)
            ask_gpu(f, devices[index], report.gpus[index]);
        else
            devices[index] = nullptr;  // a GPU that has fallen off the bus keeps its index
    for (unsigned a = 0; a < count; ++a)
        for (unsigned b = 0; b < count; ++b)
            report.pairs[a][b] = a != b && devices[a] != nullptr && devices[b] != nullptr
                                     ? ask_pair(f, devices[a], devices[b])
                                     : NvmlPair{kUnknownNumber, kUnknownNumber, kUnknownNumber};
    report.gpu_count = count;
}

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

void check(NvmlGpu& gpu) {
    terminate(gpu.pci);
    terminate(gpu.name);
    terminate(gpu.uuid);
    within(gpu.mig, 1);
    within(gpu.compute_capability, 9999);
    within(gpu.pcie_generation, 9);
    within(gpu.pcie_width, 32);
    within(gpu.link_count, nvml::kMostLinks);
    for (std::int32_t& active : gpu.link_active) within(active, 1);
    for (auto& peer : gpu.link_peer) terminate(peer);
}

}  // namespace

std::unique_ptr<NvmlReport> ask_nvml(const std::string& library) {
    auto answer = std::make_unique<NvmlReport>();
    NvmlReport& report = *answer;
    report.magic = kNvmlReportMagic;
    void* handle = dlopen(library.c_str(), RTLD_NOW | RTLD_LOCAL);  // never closed: drivers mind
    if (handle == nullptr) {
        fail(report, NvmlOutcome::no_library, 0, dlerror());
        return answer;
    }
    Functions f{};
    if (const char* missing = bind_all(handle, f); missing != nullptr) {
        fail(report, NvmlOutcome::no_symbol, 0, missing);
        return answer;
    }
    if (const int code = f.nvmlInit_v2(); code != kSuccess) {
        fail(report, NvmlOutcome::init_failed, code, f.nvmlErrorString(code));
        return answer;
    }
    if (f.nvmlSystemGetDriverVersion != nullptr)
        f.nvmlSystemGetDriverVersion(report.driver.data(), 80);
    ask_gpus(f, report);
    return answer;
}

std::unique_ptr<NvmlReport> decode_nvml_report(std::string_view bytes) {
    auto decoded = std::make_unique<NvmlReport>();
    NvmlReport& report = *decoded;
    if (bytes.size() != sizeof report) return nullptr;
    std::memcpy(&report, bytes.data(), sizeof report);
    if (report.magic != kNvmlReportMagic || report.outcome > NvmlOutcome::count_failed ||
        report.gpu_count > kMostGpus)
        return nullptr;
    terminate(report.text);
    terminate(report.driver);
    for (NvmlGpu& gpu : report.gpus) check(gpu);
    return decoded;
}

}  // namespace toporun::detect
