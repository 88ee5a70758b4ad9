#include "detect/software/iommu.hpp"
#include "env/doctor/facts.hpp"
#include "env/matrix.hpp"

/// What decide() finds while it chooses settings: listed here so that doctor knows every kind of
/// fault that it may print. Those with a function here say which fact decide() missed.
namespace toporun::env::doctor {
namespace {

constexpr std::string_view kFamily = "decision";

/// GPU pairs that NCCL by itself joins by P2P over PCIe: those that ACS and the IOMMU may harm.
std::vector<Pair> pcie_pairs(const Patient& patient) {
    std::vector<Pair> pairs;
    if (patient.inputs.rccl) return pairs;  // amd-iommu-translating looks after these
    for (const Pair& pair : patient.plan.pairs)
        if (pair.transport_default == "P2P" && pair.path != detect::PathType::NVL &&
            pair.path != detect::PathType::NVB)
            pairs.push_back(pair);
    return pairs;
}

/// Below switches alone: beyond them ACS changes nothing without a translating IOMMU, after which
/// another check looks.
void acs_unknown(const Patient& patient, Verdict& verdict) {
    if (patient.software().acs_redirect) return;
    const PairMatrix matrix(patient.machine());
    for (const Pair& pair : pcie_pairs(patient))
        if ((pair.path == detect::PathType::PIX || pair.path == detect::PathType::PXB) &&
            matrix.acs_redirect(pair.a, pair.b) == detect::AcsRedirect::unknown)
            return verdict.unknown("PCIe access control (ACS): run toporun doctor as root",
                                   Verdict::kMayHang);
}

/// AMD's hosts translate by default where the firmware has the IOMMU on: a command line without a
/// word on it leaves open whether it does (NVIDIA/nccl issue 1999, vllm-project/vllm issue 33041).
void iommu_unknown(const Patient& patient, Verdict& verdict) {
    if (patient.software().iommu_translating || pcie_pairs(patient).empty()) return;
    const detect::Machine& machine = patient.machine();
    if (machine.software.iommu_mode == detect::kIommuDefault &&
        machine.cpu.vendor == "AuthenticAMD" && !machine.virtual_machine)
        verdict.note({.what = "whether the IOMMU translates is left to the kernel, and on AMD's "
                              "hosts it mostly does",
                      .evidence = "no iommu=pt in /proc/cmdline; the mode itself is not told",
                      .effect = "if it translates, P2P between the GPUs may hang or lose data",
                      .fix = "dmesg | grep -i 'default domain'",
                      .remark = "where it says Translated boot with iommu=pt; until then "
                                "NCCL_P2P_DISABLE=1 if the job hangs"});
    verdict.unknown("the IOMMU's mode", Verdict::kMayHang);
}

constexpr Check kNetworkChecks[] = {
    {{"iface-none", kFamily, Severity::broken,
      "the interfaces with an address, lo included: NCCL's bootstrap needs one even on one node"},
     nullptr},
    {{"iface-no-match", kFamily, Severity::broken,
      "NCCL_SOCKET_IFNAME against the interfaces of this host: when nothing matches NCCL stops"},
     nullptr},
    {{"iface-loopback", kFamily, Severity::broken,
      "whether NCCL_SOCKET_IFNAME lets lo in although the job has several nodes: they are then "
      "told to connect to 127.0.0.1"},
     nullptr},
    {{"iface-unreachable", kFamily, Severity::slow,
      "whether NCCL_SOCKET_IFNAME selects bridges, tunnels or interfaces that are down or "
      "link-local: other nodes do not reach them"},
     nullptr},
    {{"iface-prefix", kFamily, Severity::slow,
      "whether a name in NCCL_SOCKET_IFNAME is also the prefix of other interfaces (VLANs of a "
      "bond): NCCL then uses all of them"},
     nullptr},
    {{"ib-hca-extra", kFamily, Severity::slow,
      "whether NCCL_IB_HCA of the user also takes storage or management ports, or one port twice"},
     nullptr},
    {{"ib-hca-missing", kFamily, Severity::slow,
      "whether NCCL_IB_HCA of the user leaves out the port nearest to a GPU, or all that are for "
      "the GPUs' data"},
     nullptr},
    {{"iface-differs", kFamily, Severity::note,
      "NCCL_SOCKET_IFNAME against the interface that toporun would have chosen"},
     nullptr},
};

constexpr Check kGpuChecks[] = {
    {{"p2p-known-bad", kFamily, Severity::slow,
      "GPUs that would use P2P over PCIe against the rows of known-bad.toml that decide: their "
      "driver claims P2P that does not work"},
     nullptr},
    {{"p2p-measured-broken", kFamily, Severity::broken,
      "what a measured profile of this machine says of the data that went over P2P"},
     nullptr},
    {{"measured-stale", kFamily, Severity::note,
      "driver, kernel and IOMMU mode of a measured profile against those of this machine"},
     nullptr},
    {{"acs-redirect", kFamily, Severity::slow,
      "PCIe access control between GPUs that would use P2P: redirected traffic runs through the "
      "CPU, and under an IOMMU it may hang or be lost"},
     acs_unknown},
    {{"iommu-translating", kFamily, Severity::slow,
      "whether the IOMMU translates the traffic of GPUs that would use P2P over PCIe: it may hang "
      "or be lost"},
     iommu_unknown},
    {{"nvlink-p2p-refused", kFamily, Severity::broken,
      "the driver's P2P status of GPUs that NVLink connects: NCCL 2.12 and later stop when it is "
      "refused"},
     nullptr},
    {{"p2p-takes-nvlink", kFamily, Severity::slow,
      "whether NCCL_P2P_LEVEL or NCCL_P2P_DISABLE of the user takes NVLink from a GPU pair"},
     nullptr},
    {{"gpu-cpus-not-allowed", kFamily, Severity::slow,
      "whether each rank may use a CPU near its GPU"},
     nullptr},
    {{"mig-several-instances", kFamily, Severity::broken,
      "several MIG instances in CUDA_VISIBLE_DEVICES: a process can use one"},
     nullptr},
    {{"one-gpu-per-task", kFamily, Severity::slow,
      "whether the scheduler shows each rank other GPUs: device LOCAL_RANK does not exist then, "
      "and "
      "CUDA IPC between ranks may fail"},
     nullptr},
    {{"gpu-outside-fabric", kFamily, Severity::slow,
      "whether one GPU of the job has no NVLink while all others have"},
     nullptr},
    {{"gpu-halves-faster", kFamily, Severity::note,
      "whether a job on all GPUs has a slow link in its ring that two jobs of half the size would "
      "not have"},
     nullptr},
    {{"ranks-exceed-gpus", kFamily, Severity::broken,
      "ranks of this host against the visible GPUs: NCCL refuses two ranks on one GPU"},
     nullptr},
};

constexpr Check kOtherChecks[] = {
    {{"iface-blank", kFamily, Severity::slow,
      "blanks in NCCL_SOCKET_IFNAME, which become part of the name"},
     nullptr},
    {{"iface-empty", kFamily, Severity::note, "NCCL_SOCKET_IFNAME set to nothing: it is ignored"},
     nullptr},
    {{"iface-one-letter", kFamily, Severity::note,
      "NCCL_SOCKET_IFNAME of one character: NCCL ignores it"},
     nullptr},
    {{"p2p-level-not-a-level", kFamily, Severity::slow,
      "NCCL_P2P_LEVEL against the words of this NCCL version: any other is ignored silently"},
     nullptr},
    {{"p2p-level-too-new", kFamily, Severity::slow,
      "a word in NCCL_P2P_LEVEL for NCCL before 2.6, which reads it as 0: no P2P"},
     nullptr},
    {{"p2p-level-empty", kFamily, Severity::slow, "NCCL_P2P_LEVEL set to nothing"}, nullptr},
    {{"p2p-level-digit", kFamily, Severity::note,
      "a number in NCCL_P2P_LEVEL: an old scale, not the distances of NCCL's log"},
     nullptr},
    {{"p2p-level-differs", kFamily, Severity::note,
      "the user's NCCL_P2P_LEVEL or NCCL_P2P_DISABLE against what toporun would have chosen"},
     nullptr},
    {{"p2p-disable-no-number", kFamily, Severity::note,
      "a text in NCCL_P2P_DISABLE: NCCL takes 1 only"},
     nullptr},
    {{"omp-more-than-share", kFamily, Severity::slow,
      "OMP_NUM_THREADS against the cores of a rank"},
     nullptr},
    {{"loader-workers-exceed-cores", kFamily, Severity::slow,
      "loader workers of the command line against the cores of a rank"},
     nullptr},
    {{"loader-workers-few", kFamily, Severity::note,
      "whether each rank has cores for more loader workers than the command line asks for"},
     nullptr},
    {{"nproc-filled-in", kFamily, Severity::note,
      "a torchrun without --nproc-per-node: one rank for each visible GPU"},
     nullptr},
    {{"openmpi-default-binding", kFamily, Severity::slow,
      "Open MPI's own binding of ranks to a core or a NUMA node, where toporun cannot switch it "
      "off"},
     nullptr},
    {{"omp-affinity", kFamily, Severity::slow,
      "OMP_PROC_BIND and its like: the loader workers inherit the one core of the main thread"},
     nullptr},
    {{"nccl-empty-value", kFamily, Severity::broken,
      "NCCL variables set to nothing, which is not unset; NCCL_COMM_ID then stops NCCL"},
     nullptr},
    {{"conf-line", kFamily, Severity::slow,
      "lines of NCCL's conf files with blanks, quotes or carriage returns, which become part of "
      "the value"},
     nullptr},
    {{"env-plugin", kFamily, Severity::note,
      "NCCL_ENV_PLUGIN, a library that answers for every NCCL variable"},
     nullptr},
    {{"host-order", kFamily, Severity::note,
      "the order of hosts against the switches between them (topology.conf, --host-order): "
      "neighbours on different switches share the links above"},
     nullptr},
    {{"profile-no-match", kFamily, Severity::note,
      "profiles named by --profile that do not describe this machine: nothing of them is used"},
     nullptr},
    {{"leave-unknown-name", kFamily, Severity::note,
      "names given to --leave that toporun never sets"},
     nullptr},
};

}  // namespace

std::span<const Check> network_decision_checks() {
    return kNetworkChecks;
}
std::span<const Check> gpu_decision_checks() {
    return kGpuChecks;
}
std::span<const Check> other_decision_checks() {
    return kOtherChecks;
}

}  // namespace toporun::env::doctor
