#include "detect/detect.hpp"

#include <algorithm>
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

}  // namespace toporun::detect
