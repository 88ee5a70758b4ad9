#include "detect/software/platform.hpp"

#include "base/text.hpp"
#include "detect/software/acs.hpp"
#include "detect/software/config_files.hpp"
#include "detect/software/fabric_manager.hpp"
#include "detect/software/iommu.hpp"
#include "detect/software/kernel_modules.hpp"
#include "detect/software/surroundings.hpp"
#include "detect/software/vendor_files.hpp"

namespace toporun::detect {
namespace {

void detect_names(const Files& files, Machine& machine) {
    machine.hostname = files.line("/proc/sys/kernel/hostname").value_or("");
    machine.software.kernel = files.line("/proc/sys/kernel/osrelease").value_or("");
    machine.vendor = files.line("/sys/class/dmi/id/sys_vendor").value_or("");
    machine.product = files.line("/sys/class/dmi/id/product_name").value_or("");
    if (machine.product.empty())  // Arm without DMI; the text ends in a NUL
        if (const auto model = files.read("/sys/firmware/devicetree/base/model", 256))
            machine.product = printable(trim(model->substr(0, model->find('\0'))));
    machine.asset_tag = files.line("/sys/class/dmi/id/chassis_asset_tag").value_or("");
    const std::string maker = files.line("/sys/class/dmi/id/board_vendor").value_or("");
    machine.board =
        std::string(trim(maker + " " + files.line("/sys/class/dmi/id/board_name").value_or("")));
    machine.instance_type = cloud_instance_type(files);
}

/// 1 = pages follow their tasks, 2 = between kinds of memory only, 3 = both (Linux
/// Documentation/admin-guide/sysctl/kernel.rst): each makes the kernel unmap pages to see who
/// touches them.
std::optional<bool> numa_balancing(const Files& files) {
    const auto mode = files.integer("/proc/sys/kernel/numa_balancing");
    if (!mode) return std::nullopt;
    return *mode != 0;
}

/// Only where there are NVSwitches: nothing else needs one.
std::optional<bool> fabric_manager(const Sources& sources, const Files& files,
                                   const Machine& machine) {
    if (!machine.nvswitch && !files.exists("/dev/nvidia-nvswitchctl")) return std::nullopt;
    return runs_fabric_manager(files, machine.container, sources.deep);
}

}  // namespace

void detect_platform(const Sources& sources, PciTree& pci, Machine& machine) {
    const Files& files = pci.files();
    detect_names(files, machine);
    detect_surroundings(files, sources.variables, machine);
    Software& software = machine.software;
    software.iommu_mode = iommu_mode(files, machine.gpus);
    if (!software.iommu_mode.empty())
        software.iommu_translating = software.iommu_mode == "translating";
    detect_acs(pci, machine);
    detect_kernel_modules(files, software);
    software.numa_balancing = numa_balancing(files);
    software.fabric_manager = fabric_manager(sources, files, machine);
    software.conf_files = conf_files(sources, files);
    software.topology_files = topology_files(sources, files);
    software.vendor_files = vendor_files(files);
}

}  // namespace toporun::detect
