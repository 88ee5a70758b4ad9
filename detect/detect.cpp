#include "detect/detect.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <utility>

#include "detect/files.hpp"
#include "detect/gpu/gpus.hpp"
#include "detect/gpu/paths.hpp"
#include "detect/network/network.hpp"
#include "detect/processor/cpu.hpp"
#include "detect/processor/limits.hpp"
#include "detect/software/nccl_library.hpp"
#include "detect/software/platform.hpp"

namespace toporun::detect {
namespace {

/// Sorted, each once.
std::vector<std::string> plugin_names(const std::vector<NcclPlugin>& plugins) {
    std::vector<std::string> names;
    for (const NcclPlugin& plugin : plugins) names.push_back(plugin.name);
    std::sort(names.begin(), names.end());
    names.erase(std::unique(names.begin(), names.end()), names.end());
    return names;
}

}  // namespace

Machine detect_machine(const Sources& sources) {
    PciTree pci{Files(sources.root)};
    const Files& files = pci.files();
    Machine machine;
    detect_gpus(sources, pci, machine);
    detect_network(sources, pci, machine);
    machine.cpu = detect_cpu(sources.root, files, machine.notes);
    machine.limits = detect_limits(files);
    detect_platform(sources, pci, machine);
    NcclLibrary nccl = find_nccl(sources, files);
    machine.software.nccl_version = std::move(nccl.version);
    machine.software.nccl_library = std::move(nccl.file);
    machine.software.nccl_plugins = plugin_names(nccl.plugins);
    machine.software.nccl_plugin_files = std::move(nccl.plugins);
    if (!nccl.note.empty()) machine.notes.push_back(std::move(nccl.note));
    if (nccl.plugins_partial)
        machine.notes.emplace_back("NCCL's plugins are known in part: the search took too long");
    complete_paths(pci, machine);
    return machine;
}

void detect_own_part(const Sources& sources, Machine& machine) {
    const Files files(sources.root);
    CpuSet all;
    for (const Core& core : machine.cpu.cores) all = all | core.pus;
    machine.cpu.allowed = allowed_cpus(files, all);
    machine.limits = detect_limits(files);
}

std::string sight_of_process() {
    std::string text;
    std::array<char, 256> target{};
    for (const char* name : {"cgroup", "ipc", "mnt", "net", "pid", "user"}) {
        const ssize_t length = ::readlink((std::string("/proc/self/ns/") + name).c_str(),
                                          target.data(), target.size());
        text.append(target.data(), static_cast<std::size_t>(std::max<ssize_t>(length, 0)));
        text += '\n';
    }
    // access(2) asks the device controller of the cgroup too and wakes no device.
    const Files files("");
    const auto add = [&](const std::string& directory, std::string_view start) {
        for (const std::string& name : files.list(directory)) {
            if (!name.starts_with(start)) continue;
            const bool open = ::access((directory + "/" + name).c_str(), R_OK | W_OK) == 0;
            text += name + (open ? "+\n" : "-\n");
        }
    };
    add("/dev", "nvidia");
    add("/dev", "kfd");
    add("/dev", "dxg");
    for (const char* directory : {"/dev/nvidia-caps", "/dev/dri", "/dev/infiniband"})
        add(directory, "");
    return text;
}

}  // namespace toporun::detect
