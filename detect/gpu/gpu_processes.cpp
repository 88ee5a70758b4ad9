#include "detect/gpu/gpu_processes.hpp"

#include <dlfcn.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstring>

#include "base/helper_process.hpp"
#include "detect/gpu/nvml_abi.hpp"

namespace toporun::detect {
namespace {

constexpr unsigned kMostGpuProcesses = 1024;  // of one GPU
constexpr unsigned kMostGpus = 64;

/// nvmlProcessInfo_t of the calls _v2 and _v3; the call without a version fills the first two.
struct NvmlProcess {
    unsigned pid;
    unsigned long long used_memory;
    unsigned gpu_instance;
    unsigned compute_instance;
};
static_assert(sizeof(NvmlProcess) == 24);
using RunningProcesses = nvml::Result (*)(nvml::Device, unsigned* count, NvmlProcess*);

/// One line of the helper's answer.
struct GpuUse {
    pid_t pid;
    int gpu;
};

/// Process ids of NVML are those of the first PID namespace (PROC_PID_INIT_INO, include/linux/
/// proc_ns.h).
bool in_first_pid_namespace() {
    std::array<char, 64> name{};
    const ssize_t length = ::readlink("/proc/self/ns/pid", name.data(), name.size() - 1);
    return length > 0 && std::strcmp(name.data(), "pid:[4026531836]") == 0;
}

template <class Function>
Function library_symbol(void* library, const char* name) {
    return reinterpret_cast<Function>(::dlsym(library, name));
}

/// In the helper: sends a GpuUse for each process of each GPU, then one with pid 0. Without the
/// last the answer is incomplete.
void ask_processes(const std::string& name, const HelperOutput& send) {
    void* library = ::dlopen(name.c_str(), RTLD_NOW | RTLD_LOCAL);
    if (library == nullptr) return;
    const auto init = library_symbol<nvml::Result (*)()>(library, "nvmlInit_v2");
    const auto count_gpus =
        library_symbol<nvml::Result (*)(unsigned*)>(library, "nvmlDeviceGetCount_v2");
    const auto handle = library_symbol<nvml::Result (*)(unsigned, nvml::Device*)>(
        library, "nvmlDeviceGetHandleByIndex_v2");
    auto running =
        library_symbol<RunningProcesses>(library, "nvmlDeviceGetComputeRunningProcesses_v3");
    if (running == nullptr)
        running =
            library_symbol<RunningProcesses>(library, "nvmlDeviceGetComputeRunningProcesses_v2");
    unsigned gpus = 0;
    if (init == nullptr || count_gpus == nullptr || handle == nullptr || running == nullptr ||
        init() != nvml::kSuccess || count_gpus(&gpus) != nvml::kSuccess)
        return;
    static std::array<NvmlProcess, kMostGpuProcesses> processes;
    for (unsigned gpu = 0; gpu < std::min(gpus, kMostGpus); ++gpu) {
        nvml::Device device = nullptr;
        unsigned count = kMostGpuProcesses;
        if (handle(gpu, &device) != nvml::kSuccess ||
            running(device, &count, processes.data()) != nvml::kSuccess)
            return;
        for (unsigned i = 0; i < std::min(count, kMostGpuProcesses); ++i) {
            const GpuUse use{static_cast<pid_t>(processes[i].pid), static_cast<int>(gpu)};
            send({reinterpret_cast<const char*>(&use), sizeof use});
        }
    }
    const GpuUse end{0, 0};
    send({reinterpret_cast<const char*>(&end), sizeof end});
}

}  // namespace

std::optional<std::map<pid_t, std::vector<int>>> gpu_processes(const std::string& nvml_library,
                                                               std::chrono::milliseconds limit) {
    if (!in_first_pid_namespace()) return std::nullopt;
    const HelperResult answer =
        run_helper([&](const HelperOutput& send) { ask_processes(nvml_library, send); }, limit,
                   sizeof(GpuUse) * kMostGpuProcesses * kMostGpus);
    std::map<pid_t, std::vector<int>> users;
    for (std::size_t at = 0; at + sizeof(GpuUse) <= answer.bytes.size(); at += sizeof(GpuUse)) {
        GpuUse use{};
        std::memcpy(&use, answer.bytes.data() + at, sizeof use);
        if (use.pid == 0) return users;
        std::vector<int>& gpus = users[use.pid];
        if (std::find(gpus.begin(), gpus.end(), use.gpu) == gpus.end()) gpus.push_back(use.gpu);
    }
    return std::nullopt;
}

}  // namespace toporun::detect
