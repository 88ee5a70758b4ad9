#include "detect/machine_text.hpp"

#include <optional>
#include <string>
#include <vector>

#include "base/text.hpp"

namespace toporun::detect {
namespace {

void make_printable(std::string& text) {
    text = printable(text);
}
void make_printable(std::optional<std::string>& text) {
    if (text) make_printable(*text);
}
void make_printable(std::vector<std::string>& texts) {
    for (std::string& text : texts) make_printable(text);
}
void make_printable(std::optional<std::vector<std::string>>& texts) {
    if (texts) make_printable(*texts);
}

/// NVML's names have at most 95 bytes, those of hosts, interfaces and boards no more than this.
constexpr std::size_t kLongestName = 253;

/// At the beginning of a character.
void cut_name(std::string& name) {
    if (name.size() <= kLongestName) return;
    std::size_t end = kLongestName - 3;
    while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xc0) == 0x80) --end;
    name.resize(end);
    name += "...";
}

template <class... Texts>
void make_all_printable(Texts&... texts) {
    (make_printable(texts), ...);
}

}  // namespace

void make_printable(Machine& machine) {
    make_all_printable(machine.hostname, machine.vendor, machine.product, machine.asset_tag,
                       machine.board, machine.instance_type, machine.notes, machine.cpu.vendor,
                       machine.cpu.model, machine.cpu.architecture);
    for (std::string* name :
         {&machine.hostname, &machine.vendor, &machine.product, &machine.board, &machine.cpu.model})
        cut_name(*name);
    for (Gpu& gpu : machine.gpus) {
        make_all_printable(gpu.name, gpu.vendor, gpu.pci_id, gpu.uuid, gpu.architecture,
                           gpu.throttle_reasons, gpu.fabric_state, gpu.fabric_status);
        cut_name(gpu.name);  // what is printed is cut, so that a saved machine reads back equal
        for (GpuLink& link : gpu.links) make_printable(link.peer_kind);
    }
    for (Nic& nic : machine.nics) {
        make_all_printable(nic.name, nic.state, nic.addresses, nic.rdma_device, nic.master,
                           nic.parent, nic.driver, nic.guid, nic.port_state, nic.pci_id);
        for (Gid& gid : nic.gids) make_all_printable(gid.address, gid.type, gid.interface);
        for (PortCounter& counter : nic.errors) make_printable(counter.name);
    }
    for (Route& route : machine.routes)
        make_all_printable(route.destination, route.interface, route.source);
    Software& software = machine.software;
    make_all_printable(software.driver, software.nccl_version, software.nccl_library,
                       software.kernel, software.nccl_plugins, software.iommu_mode,
                       software.modules, software.peer_memory_clients, software.container_kind,
                       software.hypervisor, software.scheduler, software.conf_files,
                       software.topology_files, software.vendor_files);
    for (NcclPlugin& plugin : software.nccl_plugin_files)
        make_all_printable(plugin.name, plugin.file, plugin.maker);
}

}  // namespace toporun::detect
