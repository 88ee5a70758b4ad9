#include "detect/software/iommu.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "base/text.hpp"
#include "detect/pci/pci.hpp"

namespace toporun::detect {
namespace {

/// Words of the kernel's command line (Linux Documentation/admin-guide/kernel-parameters.txt).
constexpr std::array<std::pair<std::string_view, const char*>, 5> kWords = {
    {{"iommu=off", "off"},
     {"intel_iommu=off", "off"},
     {"amd_iommu=off", "off"},
     {"iommu=pt", "pass-through"},
     {"iommu.passthrough=1", "pass-through"}}};

/// "DMA", "DMA-FQ" translate, "identity" does not.
std::string mode_of_group(const Files& files, const std::string& group) {
    const auto type = files.line(group + "/type");
    if (!type) return {};
    if (*type == "identity") return "pass-through";
    return type->starts_with("DMA") ? "translating" : "";
}

}  // namespace

std::string iommu_mode_of_command_line(std::string_view line) {
    // Of several words the first of the table counts: what is off cannot pass anything through.
    const std::vector<std::string> words = split(line, ' ');
    for (const auto& [word, mode] : kWords)
        if (std::find(words.begin(), words.end(), word) != words.end()) return mode;
    return {};
}

std::string iommu_mode(const Files& files, const std::vector<Gpu>& gpus) {
    for (const Gpu& gpu : gpus)
        if (gpu.pci)
            if (std::string mode = mode_of_group(files, pci_directory(*gpu.pci) + "/iommu_group");
                !mode.empty())
                return mode;
    const std::vector<std::string> units = files.list("/sys/class/iommu");
    const std::vector<std::string> groups = files.list("/sys/kernel/iommu_groups");
    const bool told = files.exists("/sys/kernel/iommu_groups") || files.exists("/sys/class/iommu");
    // A wish on the command line moves nothing where there is no IOMMU, as in most guests.
    if (told && units.empty() && groups.empty()) return "off";
    if (std::string mode = iommu_mode_of_command_line(files.line("/proc/cmdline").value_or(""));
        !mode.empty())
        return mode;
    if (groups.empty()) return {};
    return mode_of_group(files, "/sys/kernel/iommu_groups/" + groups[0]);
}

}  // namespace toporun::detect
