#include <fmt/format.h>

#include <algorithm>

#include "env/doctor/facts.hpp"
#include "env/match_profile.hpp"

/// What the machine lacks of what its kind has, by the matching profile's [expect].
namespace toporun::env::doctor {
namespace {

constexpr std::string_view kFamily = "platform";

/// The strongest matching profile that says what its machines have.
const profiles::Profile* expecting(const Patient& patient) {
    for (const profiles::Profile* profile : patient.inputs.matched)
        if (profile->expect.gpu_count || !profile->expect.nics.empty()) return profile;
    return nullptr;
}

/// Containers and batch systems give a job a part of the machine on purpose.
bool may_be_a_part(const detect::Machine& machine) {
    return machine.container || !machine.software.scheduler.empty();
}

void missing_gpus(const Patient& patient, Verdict& verdict) {
    const detect::Machine& machine = patient.machine();
    const profiles::Profile* profile = expecting(patient);
    if (profile == nullptr || !profile->expect.gpu_count || may_be_a_part(machine)) return;
    if (!machine.gpus_known) return;
    const int here = static_cast<int>(machine.gpus.size()), all = *profile->expect.gpu_count;
    if (here >= all) return;
    verdict.slow(
        {.what = fmt::format("{} of the {} GPUs of this kind of machine are here", here, all),
         .evidence = fmt::format("profile {}: {}", profile->name, profile->title),
         .effect = "the rings of NCCL close over fewer links, and a rank for each of the "
                   "GPUs that should be here fails",
         .fix = "look for a GPU that fell off the bus (dmesg: Xid 79) or was taken out of "
                "service; restart or replace the machine"});
}

void missing_adapters(const Patient& patient, Verdict& verdict) {
    const detect::Machine& machine = patient.machine();
    const profiles::Profile* profile = expecting(patient);
    if (profile == nullptr || may_be_a_part(machine)) return;
    for (const profiles::NicSet& set : profile->expect.nics) {
        const int all = set.count.value_or(set.count_min.value_or(0));
        const int here = count_nics(machine, set);
        // That none is there at all is said by efa-absent and iface-none in other words.
        if (here == 0 || here >= all) continue;
        verdict.find(maybe_several_nodes(patient) ? Severity::slow : Severity::note,
                     {.what = fmt::format("{} of the {} network adapters of this kind of machine "
                                          "are here",
                                          here, all),
                      .evidence = fmt::format("profile {}: {}; wanted: {}", profile->name,
                                              profile->title, nic_set_text(set)),
                      .effect = "some GPUs share an adapter or take a far one: less bandwidth "
                                "between nodes, for all ranks of the job",
                      .fix = "look for a device that did not start (dmesg), or start the instance "
                             "with all its network interfaces"});
    }
}

struct VendorScript {
    std::string_view directory;  ///< of the plugin's package
    std::string_view command;    ///< for the shell
    std::string_view variable;   ///< that the script sets; `*` at the end: all that start so
};
/// cluster-toolkit, examples/machine-learning; google/nccl-plugin-gpudirect-tcpxo, tcpxo_scripts.
constexpr VendorScript kVendorScripts[] = {
    {"/usr/local/gib", "source /usr/local/gib/scripts/set_nccl_env.sh", "NCCL_NET"},
    {"/var/lib/tcpxo",
     "NCCL_LIB_DIR=/var/lib/tcpxo/lib64 source /var/lib/tcpxo/lib64/nccl-env-profile.sh",
     "NCCL_FASTRAK_*"},
};

bool is_named(std::string_view name, std::string_view wanted) {
    return wanted.ends_with('*') ? name.starts_with(wanted.substr(0, wanted.size() - 1))
                                 : name == wanted;
}

bool any_variable(const Patient& patient, std::string_view wanted) {
    const UserEnvironment& user = patient.inputs.user;
    return std::any_of(user.variables.begin(), user.variables.end(),
                       [&](const auto& one) { return is_named(one.first, wanted); }) ||
           std::any_of(user.conf.begin(), user.conf.end(),
                       [&](const detect::ConfValue& line) { return is_named(line.name, wanted); });
}

void script_unused(const Patient& patient, Verdict& verdict) {
    if (!several_nodes(patient) || !has_nvidia_gpu(patient)) return;
    const auto& files = patient.software().vendor_files;
    for (const VendorScript& vendor : kVendorScripts) {
        if (std::find(files.begin(), files.end(), vendor.directory) == files.end()) continue;
        if (any_variable(patient, vendor.variable)) continue;
        verdict.slow(
            {.what = "the vendor's NCCL plugin is installed, but its settings are not made",
             .evidence = fmt::format("{} is here, no variable {} is set", vendor.directory,
                                     vendor.variable),
             .effect = "NCCL runs without the values that the plugin and the fabric need",
             .fix = std::string(vendor.command),
             .remark = "before the command"});
    }
}

constexpr Check kChecks[] = {
    {{"platform-gpus", kFamily, Severity::slow,
      "the number of GPUs against that of this kind of machine, where a profile knows it"},
     missing_gpus},
    {{"platform-nics", kFamily, Severity::slow,
      "the number of network adapters against that of this kind of machine, where a profile knows "
      "it"},
     missing_adapters},
    {{"vendor-script-unused", kFamily, Severity::slow,
      "whether the settings script of an installed plugin (gIB, TCPXO) was sourced, in jobs of "
      "several "
      "nodes"},
     script_unused},
};

}  // namespace

std::span<const Check> platform_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
