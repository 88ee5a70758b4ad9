#include <fmt/format.h>

#include <map>
#include <optional>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// GPUDirect RDMA: adapters that read and write GPU memory by themselves.
namespace toporun::env::doctor {
namespace {

using detect::AcsRedirect;
using detect::Gpu;
using detect::Machine;
using detect::PathType;

constexpr std::string_view kFamily = "gdr";
constexpr const char* kStaged = "data between nodes is staged through host memory";

bool port_in_use(const Patient& patient) {
    const std::vector<int> ports = verbs_ports(patient.machine());
    return std::any_of(ports.begin(), ports.end(), [&](int port) {
        return rdma_usable(patient.machine().nics[static_cast<std::size_t>(port)]);
    });
}

/// GPUs that could, in a job that could use it.
bool applies(const Patient& patient) {
    if (!maybe_several_nodes(patient)) return false;
    const auto able = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.vendor == "nvidia" && !gpu.name.empty() && !is_geforce(gpu);
    });
    return !able.empty() && port_in_use(patient);
}

/// As applies(), and captures that tell paths but no names. A GPU whose memory is a NUMA node of
/// the host (Grace) may reach adapters by its C2C link, which such captures do not show.
bool paths_apply(const Patient& patient) {
    if (!maybe_several_nodes(patient)) return false;
    const auto able = visible_gpus(patient, [](const Gpu& gpu) {
        return gpu.vendor == "nvidia" && !is_geforce(gpu) && !gpu.memory_numa_node;
    });
    return !able.empty() && port_in_use(patient);
}

/// The second way: DMA-BUF asks for open kernel modules (driver 515 and later), Linux 5.12 and
/// NCCL 2.13.4. Nothing when one of them is not known and none forbids it.
std::optional<bool> dmabuf_possible(const Patient& patient) {
    const auto& software = patient.software();
    const auto kernel = kernel_since(patient.machine(), 5, 12);
    if (software.driver_open == false || kernel == false || nccl_before(patient, 21304))
        return false;
    if (user_number(patient, "NCCL_DMABUF_ENABLE") == 0) return false;
    if (!software.driver_open || !kernel || !patient.inputs.nccl) return std::nullopt;
    return true;
}

std::string why_no_dmabuf(const Patient& patient) {
    if (patient.software().driver_open == false)
        return "no DMA-BUF: the closed kernel modules have none";
    if (kernel_since(patient.machine(), 5, 12) == false)
        return fmt::format("no DMA-BUF: Linux {} is older than 5.12", patient.software().kernel);
    if (nccl_before(patient, 21304)) return "no DMA-BUF: it came with NCCL 2.13.4";
    return "no DMA-BUF: switched off by NCCL_DMABUF_ENABLE";
}

bool has_module(const Patient& patient, std::string_view name) {
    const auto& modules = patient.software().modules;
    return modules && std::find(modules->begin(), modules->end(), name) != modules->end();
}

bool any_peermem(const Patient& patient) {
    return has_module(patient, "nvidia_peermem") || has_module(patient, "nv_peer_mem");
}

void no_peermem(const Patient& patient, Verdict& verdict) {
    if (!applies(patient)) return;
    if (!patient.software().modules) return verdict.unknown("the loaded kernel modules");
    if (any_peermem(patient)) return;
    const auto dmabuf = dmabuf_possible(patient);
    if (!dmabuf) return verdict.unknown("whether DMA-BUF is possible");
    if (*dmabuf) return;
    verdict.slow(
        {.what = "GPUDirect RDMA is off: nvidia_peermem is not loaded",
         .evidence = fmt::format("no nvidia_peermem in /proc/modules; {}", why_no_dmabuf(patient)),
         .effect = kStaged,
         .fix = "modprobe nvidia_peermem",
         .remark = "or install the open kernel modules and NCCL 2.13.4 or later"});
}

void unregistered(const Patient& patient, Verdict& verdict) {
    if (!applies(patient) || !any_peermem(patient)) return;
    const auto& clients = patient.software().peer_memory_clients;
    if (!clients) return verdict.unknown("the peer-memory clients");
    const auto dmabuf = dmabuf_possible(patient);
    if (!clients->empty() || dmabuf == true) return;
    verdict.find(dmabuf ? Severity::slow : Severity::note,
                 {.what = "nvidia_peermem is loaded but not registered with the RDMA core",
                  .evidence = "no entry in /sys/kernel/mm/memory_peers" +
                              (dmabuf ? "; " + why_no_dmabuf(patient) : std::string()),
                  .effect = fmt::format("GPUDirect RDMA is refused: {}", kStaged),
                  .fix = "modprobe nvidia_peermem",
                  .remark = "after the NVIDIA driver was built anew, with MLNX_OFED in place; or "
                            "use DMA-BUF (open kernel modules, Linux 5.12)"});
}

/// Which files NCCL looks for (src/misc/gdrwrap and net_ib.cc): 2.22 dropped
/// memory_peers/nvidia-peermem and did not yet know /sys/module/nvidia_peermem.
void unseen(const Patient& patient, Verdict& verdict) {
    if (!applies(patient) || !nccl_since(patient, 22200) || !nccl_before(patient, 22300)) return;
    const auto& clients = patient.software().peer_memory_clients;
    if (!clients) return verdict.unknown("the peer-memory clients");
    const bool peermem =
        std::find(clients->begin(), clients->end(), "nvidia-peermem") != clients->end();
    const bool known = std::any_of(clients->begin(), clients->end(), [](const std::string& name) {
        return name == "nv_mem" || name == "nv_mem_nc";
    });
    if (!peermem || known || dmabuf_possible(patient) != false) return;
    verdict.slow({.what = "NCCL 2.22 does not see nvidia_peermem",
                  .evidence = fmt::format("only nvidia-peermem in /sys/kernel/mm/memory_peers; {}",
                                          why_no_dmabuf(patient)),
                  .effect = kStaged,
                  .fix = "use NCCL 2.23 or later, which looks at /sys/module/nvidia_peermem"});
}

/// The best path of a GPU to a usable port, by itself or through GPUs that it has NVLink to (PXN).
PathType nearest_port(const Patient& patient, int gpu) {
    PathType best = PathType::DIS;
    for (const int port : verbs_ports(patient.machine())) {
        if (!rdma_usable(patient.machine().nics[static_cast<std::size_t>(port)])) continue;
        best = std::min(best, nic_path(patient.machine(), gpu, port).value_or(PathType::DIS));
    }
    return best;
}

/// Whether every pair's NVLinks are told: data may go out by a neighbour's adapter (PXN).
bool links_told(const Machine& machine) {
    return std::none_of(machine.gpu_links.begin(), machine.gpu_links.end(), [](const auto& row) {
        return std::any_of(row.begin(), row.end(), [](int links) { return links < 0; });
    });
}

bool has_neighbour_with_port(const Patient& patient, int gpu) {
    const auto& paths = patient.machine().gpu_paths;
    if (paths.size() != patient.machine().gpus.size()) return false;
    for (const int other : patient.inputs.visible)
        if (other != gpu &&
            paths[static_cast<std::size_t>(gpu)][static_cast<std::size_t>(other)] ==
                PathType::NVL &&
            nearest_port(patient, other) <= PathType::PXB)
            return true;
    return false;
}

/// Default level PXB; a C2C way counts since 2.27.3. A guest without switches has a finding of its
/// own.
void far_adapter(const Patient& patient, Verdict& verdict) {
    if (!paths_apply(patient)) return;
    std::vector<int> far;
    std::map<PathType, std::vector<int>> by_path;
    PathType farthest = PathType::PXB;
    bool known = false, near = false;
    for (const int gpu : patient.inputs.visible) {
        const PathType path = nearest_port(patient, gpu);
        if (path == PathType::DIS) continue;
        known = true;
        if (path != PathType::PHB && path != PathType::SYS) {
            near = true;
            continue;
        }
        if (has_neighbour_with_port(patient, gpu)) continue;
        far.push_back(gpu);
        by_path[path].push_back(gpu);
        farthest = std::max(farthest, path);
    }
    if (!known) return verdict.unknown("the paths between GPUs and adapters");
    if (far.empty() || (!near && farthest == PathType::PHB)) return;
    if (near && !links_told(patient.machine())) return verdict.unknown("the NVLink states");
    std::vector<std::string> nearest;
    for (const auto& [path, gpus] : by_path)
        nearest.push_back(by_path.size() == 1 ? std::string(detect::path_name(path))
                                              : fmt::format("{} ({})", detect::path_name(path),
                                                            gpus_text(patient.machine(), gpus)));
    verdict.note(
        {.what = fmt::format("{} {} no adapter below a common PCIe switch",
                             gpus_text(patient.machine(), far), far.size() == 1 ? "has" : "have"),
         .evidence = fmt::format("nearest path {} (nvidia-smi topo -m)", join(nearest, ", ")),
         .effect = fmt::format("beyond PXB NCCL does not use GPUDirect RDMA: {}", kStaged),
         .fix = "put ranks on the GPUs beside the adapters where fewer do; "
                "NCCL_NET_GDR_LEVEL=SYS forces it, compare both by a measurement"});
}

void acs_towards_adapter(const Patient& patient, Verdict& verdict) {
    if (!applies(patient)) return;
    const Machine& machine = patient.machine();
    std::vector<std::string> pairs;
    for (const int gpu : patient.inputs.visible)
        for (const int port : verbs_ports(machine)) {
            const auto row = static_cast<std::size_t>(gpu), column = static_cast<std::size_t>(port);
            if (row >= machine.gpu_nic_acs_redirect.size() ||
                column >= machine.gpu_nic_acs_redirect[row].size() ||
                machine.gpu_nic_acs_redirect[row][column] != AcsRedirect::on ||
                nic_path(machine, gpu, port).value_or(PathType::SYS) > PathType::PXB)
                continue;
            pairs.push_back(fmt::format("GPU {} - {}", machine.gpus[row].index,
                                        port_name(machine.nics[column])));
        }
    if (pairs.empty()) {
        if (machine.gpu_nic_acs_redirect.empty()) verdict.unknown("ACS of the PCIe switches");
        return;
    }
    const std::size_t more = pairs.size() - 1;
    const std::string first = pairs.front();
    const bool guest = machine.virtual_machine;
    verdict.find(
        guest ? Severity::note : Severity::slow,
        {.what = "PCIe access control (ACS) sends GPUDirect RDMA up to the CPU",
         .evidence = fmt::format("ACS request redirect is on between {}{}", first,
                                 more == 0 ? "" : fmt::format(" and {} more pairs", more)),
         .effect = "adapter and GPU below one switch get half the bandwidth or less (NVIDIA/nccl "
                   "issue 489)",
         .fix = guest ? "ask the provider: in a guest ACS stays on and the adapter needs ATS"
                      : "setpci -s BRIDGE ECAP_ACS+0x6.w=0000",
         .remark = guest ? "" : "for each downstream port of the switch, as root; or in the BIOS"});
}

constexpr Check kChecks[] = {
    {{"gdr-no-peermem", kFamily, Severity::slow,
      "the two ways to GPUDirect RDMA, nvidia_peermem and DMA-BUF (open kernel modules, Linux "
      "5.12, NCCL 2.13.4): one of them is needed"},
     no_peermem},
    {{"gdr-peermem-unregistered", kFamily, Severity::slow,
      "whether nvidia_peermem registered itself as a client of the RDMA core: built before "
      "MLNX_OFED it loads and does nothing"},
     unregistered},
    {{"gdr-peermem-unseen", kFamily, Severity::slow,
      "whether NCCL 2.22, which looks for other files than before and after, sees the module"},
     unseen},
    {{"gdr-far-adapter", kFamily, Severity::note,
      "the path from each GPU to its nearest adapter: beyond PXB there is no GPUDirect RDMA by "
      "default"},
     far_adapter},
    {{"gdr-acs-redirect", kFamily, Severity::slow,
      "PCIe access control between GPUs and adapters below one switch"},
     acs_towards_adapter},
};

}  // namespace

std::span<const Check> gdr_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
