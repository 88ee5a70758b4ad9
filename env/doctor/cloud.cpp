#include <fmt/format.h>

#include <array>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"

/// What the machines of cloud providers need beside NCCL itself.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::NcclPlugin;
using detect::Nic;

constexpr std::string_view kFamily = "cloud";

bool has_plugin(const Machine& machine, const std::vector<std::string_view>& makers,
                const std::vector<std::string_view>& names) {
    const auto& software = machine.software;
    return std::any_of(software.nccl_plugin_files.begin(), software.nccl_plugin_files.end(),
                       [&](const NcclPlugin& plugin) {
                           return contains_any(plugin.maker, makers) ||
                                  contains_any(plugin.file, names) ||
                                  contains_any(plugin.name, names);
                       }) ||
           std::any_of(software.nccl_plugins.begin(), software.nccl_plugins.end(),
                       [&](const std::string& name) { return contains_any(name, names); });
}

/// A library of an unknown maker under NCCL's own name may well be the vendor's.
bool has_unknown_net_plugin(const Machine& machine) {
    const auto& software = machine.software;
    if (software.nccl_plugin_files.empty())
        return std::any_of(
            software.nccl_plugins.begin(), software.nccl_plugins.end(),
            [](const std::string& name) { return name.find("nccl-net") != std::string::npos; });
    return std::any_of(software.nccl_plugin_files.begin(), software.nccl_plugin_files.end(),
                       [](const NcclPlugin& plugin) {
                           return plugin.maker.empty() &&
                                  plugin.name.find("nccl-net") != std::string::npos;
                       });
}

/// Plugins were looked for where the library itself was.
bool plugins_known(const Patient& patient) {
    return patient.software().nccl_library || !patient.software().nccl_plugins.empty();
}

void efa_plugin(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!has_efa(machine) || !maybe_several_nodes(patient) || !has_nvidia_gpu(patient)) return;
    if (!plugins_known(patient)) return verdict.unknown("NCCL's plugins");
    if (has_plugin(machine, {"aws-ofi"}, {"nccl-ofi", "nccl-net-ofi", "aws-ofi"}) ||
        has_unknown_net_plugin(machine))
        return;
    verdict.slow({.what = "EFA adapters are here, but NCCL has no plugin for them",
                  .evidence = "no libnccl-net.so of aws-ofi-nccl on the library path",
                  .effect = "NCCL takes TCP: 10 times slower and more",
                  .fix = "install aws-ofi-nccl (the EFA installer brings it under "
                         "/opt/amazon/ofi-nccl) and put its lib directory on LD_LIBRARY_PATH"});
}

struct EfaType {
    std::string_view product;  ///< begins so
    bool optional = false;     ///< the type is also started without EFA
};
/// Instance types with EFA adapters for their NVIDIA GPUs (awsome-distributed-training,
/// instance-profiles.conf; AWS, accelerated computing instances).
constexpr EfaType kEfaTypes[] = {
    {"p4d.24xlarge"},        {"p4de.24xlarge"},     {"p5.48xlarge"}, {"p5e.48xlarge"},
    {"p5en.48xlarge"},       {"p6-b200"},           {"p6-b300"},     {"p6e-gb200"},
    {"p3dn.24xlarge", true}, {"g5.48xlarge", true},
};

void efa_absent(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    const auto* type =
        std::find_if(std::begin(kEfaTypes), std::end(kEfaTypes),
                     [&](const EfaType& one) { return machine.product.starts_with(one.product); });
    if (type == std::end(kEfaTypes) || has_efa(machine) || !has_nvidia_gpu(patient)) return;
    if (type->optional ? !several_nodes(patient) : !maybe_several_nodes(patient)) return;
    if (machine.nics.empty()) return verdict.unknown("the network adapters");
    verdict.slow(
        {.what = fmt::format("{} without an EFA adapter in sight", machine.product),
         .evidence = "no EFA device in /sys/class/infiniband",
         .effect = "the plugin falls to its tcp provider: 10 times slower and more",
         .fix = machine.container ? "docker run --device=/dev/infiniband --network=host ..."
                                  : "start the instance with EFA interfaces, and install "
                                    "the EFA driver",
         .remark = machine.container ? "in Kubernetes request vpc.amazonaws.com/efa" : ""});
}

/// Data centre modules since Hopper have adapters on Google Cloud that only Google's plugins use.
/// G4, with RTX PRO 6000, has none.
void google_plugin(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (!machine.product.starts_with("Google Compute Engine") || !several_nodes(patient)) return;
    const auto gpus = visible_gpus(patient, [](const Gpu& gpu) {
        const int capability = compute_capability(gpu).value_or(0);
        return capability >= 90 && capability < 120;  // Hopper and Blackwell with HBM
    });
    if (gpus.size() < 4) return;
    if (!plugins_known(patient)) return verdict.unknown("NCCL's plugins");
    if (has_plugin(machine, {"gib", "tcpx", "tcpxo", "fastrak"},
                   {"gib", "tcpx", "fastrak", "shim"}) ||
        has_unknown_net_plugin(machine))
        return;
    verdict.slow(
        {.what = "a Google A3 or A4 machine without Google's NCCL plugin",
         .evidence = "no gIB, GPUDirect-TCPXO or TCPX library on the library path",
         .effect = "the GPUs' adapters stay unused or carry plain TCP",
         .fix = "source /usr/local/gib/scripts/set_nccl_env.sh",
         .remark =
             "after its installation, on A3 Ultra and A4; on A3 Mega "
             "NCCL_LIB_DIR=/var/lib/tcpxo/lib64 source /var/lib/tcpxo/lib64/nccl-env-profile.sh"});
}

/// Gb/s of all adapters that carry data between nodes.
double network_gbits(const Patient& patient) {
    double rdma = 0, sockets = 0;
    for (const Nic& nic : patient.machine().nics) {
        if (!nic.speed_gbits) continue;
        const bool efa = nic.kind == detect::NicKind::efa && nic.state != "down";
        if (efa || rdma_usable(nic))
            rdma += *nic.speed_gbits;
        else if (nic.state != "down" &&
                 std::find(patient.plan.interfaces.begin(), patient.plan.interfaces.end(),
                           nic.name) != patient.plan.interfaces.end())
            sockets += *nic.speed_gbits;
    }
    return rdma > 0 ? rdma : sockets;
}

/// 12.5 Gb/s a GPU is 1.6 GB/s where NVLink has 150 and more.
constexpr double kLittleGbitsPerGpu = 12.5;

void network_thin(const Patient& patient, Verdict& verdict) {
    if (!several_nodes(patient)) return;
    int linked = 0;
    for (const Pair& pair : patient.plan.pairs) linked += pair.path == detect::PathType::NVL;
    const int gpus = static_cast<int>(patient.inputs.visible.size());
    if (gpus < 4 || linked == 0) return;
    const double network = network_gbits(patient);
    if (network <= 0) return verdict.unknown("the speed of the network");
    if (network / gpus >= kLittleGbitsPerGpu) return;
    verdict.slow(
        {.what = fmt::format("{:g} Gb/s between nodes for {} GPUs with NVLink", network, gpus),
         .evidence = fmt::format("{:.1f} GB/s for each GPU", network / 8 / gpus),
         .effect = "data-parallel training is bound by the network; two nodes may be "
                   "slower than one (pytorch/pytorch issue 36298)",
         .fix = "fewer and larger exchanges: gradient accumulation, 16-bit gradients, "
                "sharding within the node only (HSDP)"});
}

constexpr Check kChecks[] = {
    {{"efa-plugin-missing", kFamily, Severity::slow,
      "EFA adapters need the plugin aws-ofi-nccl: without it NCCL takes TCP"},
     efa_plugin},
    {{"efa-absent", kFamily, Severity::slow,
      "AWS instance types with EFA where no EFA adapter is seen, as in containers"},
     efa_absent},
    {{"google-plugin-missing", kFamily, Severity::slow,
      "A3 and A4 machines of Google Cloud need gIB, TCPXO or TCPX"},
     google_plugin},
    {{"network-thin", kFamily, Severity::slow,
      "the bandwidth between nodes for each GPU, where NVLink joins them inside"},
     network_thin},
};

}  // namespace

std::span<const Check> cloud_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
