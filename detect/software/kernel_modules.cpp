#include "detect/software/kernel_modules.hpp"

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

/// GPU drivers, GPUDirect, RDMA and the fast networks of clouds.
constexpr std::array<const char*, 33> kModules = {"amdgpu",
                                                  "bnxt_re",
                                                  "efa",
                                                  "ena",
                                                  "gdrdrv",
                                                  "gve",
                                                  "hfi1",
                                                  "ib_core",
                                                  "ib_ipoib",
                                                  "ib_peer_mem",
                                                  "ib_umad",
                                                  "ib_uverbs",
                                                  "irdma",
                                                  "knem",
                                                  "mana",
                                                  "mana_ib",
                                                  "mlx4_ib",
                                                  "mlx5_core",
                                                  "mlx5_ib",
                                                  "nouveau",
                                                  "nv_peer_mem",
                                                  "nvidia",
                                                  "nvidia_fs",
                                                  "nvidia_modeset",
                                                  "nvidia_p2p_dmabuf",
                                                  "nvidia_peermem",
                                                  "nvidia_uvm",
                                                  "nvidia_vgpu_vfio",
                                                  "qedr",
                                                  "rdma_rxe",
                                                  "rdma_ucm",
                                                  "siw",
                                                  "xpmem"};

constexpr const char* kImexDirectory = "/dev/nvidia-caps-imex-channels";
constexpr const char* kVerbsDirectory = "/dev/infiniband";

bool has_line_of(std::string_view modules, std::string_view name) {
    for (std::size_t at = modules.find(name); at != std::string_view::npos;
         at = modules.find(name, at + 1)) {
        const std::size_t end = at + name.size();
        if ((at == 0 || modules[at - 1] == '\n') && end < modules.size() && modules[end] == ' ')
            return true;
    }
    return false;
}

int count_with_prefix(const std::vector<std::string>& names, std::string_view prefix) {
    return static_cast<int>(std::count_if(names.begin(), names.end(), [&](const std::string& name) {
        return name.starts_with(prefix);
    }));
}

/// Clients of the RDMA core's own interface for peer memory, which NVIDIA's RDMA packages add
/// (nvidia_peermem of the driver registers there as well). /sys/kernel/mm without it has none.
std::optional<std::vector<std::string>> peer_memory_clients(const Files& files) {
    if (!files.exists("/sys/kernel/mm")) return std::nullopt;
    std::vector<std::string> clients;
    for (const std::string& name : files.list("/sys/kernel/mm/memory_peers"))
        if (files.exists("/sys/kernel/mm/memory_peers/" + name + "/version"))
            clients.push_back(printable(name));
    return clients;
}

/// The driver makes one directory for them; a container without them has the driver and no
/// directory.
std::optional<int> imex_channels(const Files& files) {
    if (files.exists(kImexDirectory))
        return count_with_prefix(files.list(kImexDirectory), "channel");
    if (files.exists("/dev/nvidiactl")) return 0;
    return std::nullopt;
}

std::optional<int> verbs_devices(const Files& files) {
    if (!files.exists("/dev")) return std::nullopt;
    return count_with_prefix(files.list(kVerbsDirectory), "uverbs");
}

}  // namespace

std::vector<std::string> modules_in(std::string_view text) {
    std::vector<std::string> found;
    for (const char* name : kModules)
        if (has_line_of(text, name)) found.emplace_back(name);
    return found;
}

std::optional<std::vector<std::string>> loaded_modules(const Files& files) {
    const auto text = files.read("/proc/modules");
    const bool has_directory = files.exists("/sys/module");
    if (!text && !has_directory) return std::nullopt;
    std::vector<std::string> loaded;
    for (const std::string name : kModules)
        if ((text && has_line_of(*text, name)) ||
            (has_directory && files.exists("/sys/module/" + name)))
            loaded.push_back(name);
    return loaded;
}

std::optional<bool> is_open_driver(const Files& files) {
    if (const auto version = files.line("/proc/driver/nvidia/version"))
        return version->find("Open Kernel Module") != std::string::npos;
    // The taint letter P stands for a licence that is not open (Linux tainted-kernels.rst).
    const auto taint = files.read("/sys/module/nvidia/taint", 64);
    if (!taint) return std::nullopt;
    return taint->find('P') == std::string::npos;
}

void detect_kernel_modules(const Files& files, Software& software) {
    software.modules = loaded_modules(files);
    software.driver_open = is_open_driver(files);
    software.peer_memory_clients = peer_memory_clients(files);
    software.imex_channels = imex_channels(files);
    software.verbs_devices = verbs_devices(files);
}

}  // namespace toporun::detect
