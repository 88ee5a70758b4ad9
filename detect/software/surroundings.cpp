#include "detect/software/surroundings.hpp"

#include <algorithm>
#include <array>
#include <cstring>
#include <string_view>
#include <utility>

#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "base/text.hpp"
#include "detect/mounts.hpp"

namespace toporun::detect {
namespace {

using Evidence = std::pair<std::string_view, std::string_view>;

/// Files and variables that an engine leaves in its containers, inner ones first: Kubernetes runs
/// its containers by an engine of its own, and Apptainer may run inside.
constexpr std::array<Evidence, 5> kContainerFiles = {
    {{"/.singularity.d", "apptainer"},
     {"/var/run/secrets/kubernetes.io", "kubernetes"},
     {"/run/.containerenv", "podman"},
     {"/.dockerenv", "docker"},
     {"/ch/environment", "charliecloud"}}};
constexpr std::array<Evidence, 4> kContainerVariables = {
    {{"APPTAINER_CONTAINER", "apptainer"},
     {"SINGULARITY_CONTAINER", "apptainer"},
     {"CH_RUNNING", "charliecloud"},
     {"KUBERNETES_SERVICE_HOST", "kubernetes"}}};
/// Words in control group paths, and in the mounts below.
constexpr std::array<Evidence, 8> kContainerWords = {{{"kubepods", "kubernetes"},
                                                      {"kubelet/pods", "kubernetes"},
                                                      {"libpod", "podman"},
                                                      {"docker", "docker"},
                                                      {"containerd", "containerd"},
                                                      {"lxc", "lxc"},
                                                      {"garden", "garden"},
                                                      {"enroot", "enroot"}}};

constexpr std::array<Evidence, 10> kSchedulerVariables = {
    {{"SLURM_JOB_ID", "slurm"},
     {"SLURM_JOBID", "slurm"},
     {"PBS_JOBID", "pbs"},
     {"LSB_JOBID", "lsf"},
     {"FLUX_JOB_ID", "flux"},
     {"COBALT_JOBID", "cobalt"},
     {"SGE_TASK_ID", "sge"},
     {"OAR_JOB_ID", "oar"},
     {"_CONDOR_SCRATCH_DIR", "htcondor"},
     {"KUBERNETES_SERVICE_HOST", "kubernetes"}}};
/// Words in the control group's path of a job's process.
constexpr std::array<Evidence, 9> kSchedulerWords = {{{"/slurm", "slurm"},
                                                      {"slurmstepd", "slurm"},
                                                      {"/pbs_jobs", "pbs"},
                                                      {"/pbspro", "pbs"},
                                                      {"/lsf/", "lsf"},
                                                      {"/htcondor", "htcondor"},
                                                      {"/condor_", "htcondor"},
                                                      {"/oar", "oar"},
                                                      {"kubepods", "kubernetes"}}};

/// DMI vendors and products of guests.
constexpr std::array<Evidence, 13> kGuestVendors = {{{"QEMU", "kvm"},
                                                     {"Amazon EC2", "kvm"},
                                                     {"Google", "kvm"},
                                                     {"Alibaba Cloud", "kvm"},
                                                     {"OpenStack", "kvm"},
                                                     {"DigitalOcean", "kvm"},
                                                     {"Microsoft", "microsoft"},
                                                     {"VMware", "vmware"},
                                                     {"innotek", "virtualbox"},
                                                     {"Parallels", "parallels"},
                                                     {"Nutanix", "kvm"},
                                                     {"oVirt", "kvm"},
                                                     {"Xen", "xen"}}};
constexpr std::array<std::string_view, 4> kVirtualProducts = {
    "Virtual Machine", "Google Compute Engine", "KVM", "VMware"};
constexpr std::array<std::string_view, 3> kVirtualVendors = {"QEMU", "OpenStack", "Xen"};
/// Clouds whose guests and bare machines share a vendor: the product of the latter says so
/// ("m7g.metal"). Arm processors have no flag that tells a guest.
constexpr std::string_view kMixedVendor = "Amazon EC2", kBareProduct = "metal";

/// What a hypervisor signs CPUID leaf 0x40000000 with (Linux arch/x86/kernel/cpu/hypervisor.c and
/// its drivers).
constexpr std::array<Evidence, 7> kSignatures = {{{"KVMKVMKVM", "kvm"},
                                                  {"Linux KVM Hv", "kvm"},
                                                  {"TCGTCGTCGTCG", "qemu"},
                                                  {"Microsoft Hv", "microsoft"},
                                                  {"VMwareVMware", "vmware"},
                                                  {"XenVMMXenVMM", "xen"},
                                                  {"bhyve bhyve ", "bhyve"}}};

/// The word of the first row whose key `matches`.
template <class Rows, class Matches>
std::string first_word(const Rows& rows, const Matches& matches) {
    for (const auto& [key, word] : rows)
        if (matches(key)) return std::string(word);
    return {};
}

bool is_within(const std::string& text, std::string_view part) {
    return text.find(part) != std::string::npos;
}

/// The engine's own word (systemd's container interface): "lxc", "systemd-nspawn", "docker".
std::string told_by_engine(const Files& files) {
    const std::string word = files.line("/run/systemd/container").value_or("");
    return word.size() <= 32 ? word : std::string();
}

/// With a cgroup namespace only mounts name the engine: the layers of the root file system, and the
/// files that it mounts over the image's.
std::string named_by_mounts(const Files& files) {
    const std::vector<Mount> mounts = read_mounts(files);
    return first_word(kContainerWords, [&](std::string_view word) {
        return std::any_of(mounts.begin(), mounts.end(), [&](const Mount& mount) {
            if (mount.point == "/")
                return is_within(mount.root, word) ||
                       (mount.type == "overlay" && is_within(mount.super_options, word));
            const bool handed_in = mount.point == "/etc/hosts" || mount.point == "/etc/hostname" ||
                                   mount.point == "/etc/resolv.conf";
            return handed_in && is_within(mount.root, word);
        });
    });
}

std::string container_kind(const Files& files, const std::string& membership,
                           const std::vector<std::string>& variables) {
    const auto has_variable = [&](std::string_view name) {
        return std::find(variables.begin(), variables.end(), name) != variables.end();
    };
    const auto is_there = [&](std::string_view file) { return files.exists(std::string(file)); };
    const auto is_named = [&](std::string_view word) { return is_within(membership, word); };
    std::string kind = first_word(kContainerVariables, has_variable);
    if (!kind.empty()) return kind;
    const std::string named = first_word(kContainerWords, is_named);
    if (named == "kubernetes") return named;
    kind = first_word(kContainerFiles, is_there);
    if (kind.empty()) kind = named;
    if (kind.empty()) kind = told_by_engine(files);
    return kind.empty() ? named_by_mounts(files) : kind;
}

std::string scheduler(const std::string& membership, const std::vector<std::string>& variables) {
    std::string word = first_word(kSchedulerVariables, [&](std::string_view name) {
        return std::find(variables.begin(), variables.end(), name) != variables.end();
    });
    if (!word.empty() && word != "kubernetes") return word;
    const std::string in_path = first_word(
        kSchedulerWords, [&](std::string_view part) { return is_within(membership, part); });
    return in_path.empty() ? word : in_path;
}

bool is_virtual_machine(const Files& files, const Machine& machine) {
    if (files.exists("/sys/hypervisor/type")) return true;
    const std::string cpuinfo = files.read("/proc/cpuinfo", 4096).value_or("");
    const std::string flags = " " + value_of(cpuinfo, "flags").value_or("") + " ";
    if (is_within(flags, " hypervisor ")) return true;
    const auto any = [](const std::string& text, const auto& words) {
        return std::any_of(words.begin(), words.end(),
                           [&](std::string_view word) { return is_within(text, word); });
    };
    if (is_within(machine.vendor, kMixedVendor) && !machine.product.empty())
        return !is_within(machine.product, kBareProduct);
    return any(machine.product, kVirtualProducts) || any(machine.vendor, kVirtualVendors);
}

/// The hypervisor's signature, by the processor itself; "" on other architectures.
std::string cpuid_signature() {
#if defined(__x86_64__)
    unsigned leaf = 0, words[3] = {};
    __cpuid(0x40000000u, leaf, words[0], words[1], words[2]);
    char text[sizeof words + 1] = "";
    std::memcpy(text, words, sizeof words);
    return text;
#else
    return {};
#endif
}

std::string hypervisor(const Files& files, const Machine& machine) {
    if (const auto type = files.line("/sys/hypervisor/type")) return *type;
    if (files.real()) {
        const std::string signature = cpuid_signature();
        const std::string word = first_word(
            kSignatures, [&](std::string_view key) { return signature.starts_with(key); });
        if (!word.empty()) return word;
    }
    return first_word(kGuestVendors, [&](std::string_view vendor) {
        return is_within(machine.vendor, vendor) || is_within(machine.product, vendor);
    });
}

}  // namespace

bool tells_surroundings(std::string_view variable) {
    const auto is_it = [&](std::string_view name) { return name == variable; };
    return !first_word(kContainerVariables, is_it).empty() ||
           !first_word(kSchedulerVariables, is_it).empty();
}

void detect_surroundings(const Files& files, const std::vector<std::string>& variables,
                         Machine& machine) {
    const std::string membership = files.read("/proc/self/cgroup", 65536).value_or("");
    machine.software.container_kind = container_kind(files, membership, variables);
    machine.container =
        !machine.software.container_kind.empty() || files.exists("/run/systemd/container");
    machine.virtual_machine = is_virtual_machine(files, machine);
    if (machine.virtual_machine) machine.software.hypervisor = hypervisor(files, machine);
    machine.software.scheduler = scheduler(membership, variables);
}

}  // namespace toporun::detect
