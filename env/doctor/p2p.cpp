#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <optional>

#include "base/text.hpp"
#include "env/doctor/facts.hpp"
#include "env/match_known_bad.hpp"
#include "env/matrix.hpp"

/// Peer access between GPUs beyond what decide() finds.
namespace toporun::env::doctor {
namespace {

using detect::Gpu;
using detect::Machine;
using detect::PathType;
using detect::PeerAccess;

constexpr std::string_view kFamily = "p2p";

Severity severity_of(const profiles::KnownBadRow& row) {
    if (row.symptom == "slow") return Severity::note;
    if (row.symptom == "corruption") return Severity::slow;
    return row.confidence == "high" ? Severity::slow : Severity::note;
}

std::string symptom_text(const std::string& symptom) {
    if (symptom == "corruption") return "wrong data without an error";
    if (symptom == "hang") return "the job may hang";
    if (symptom == "error") return "NCCL may stop with an error";
    return "slower than it could be";
}

/// decide() found a row that decides, and said so itself.
bool acted_upon(const Patient& patient) {
    const auto& findings = patient.plan.findings;
    return std::any_of(findings.begin(), findings.end(),
                       [](const Finding& finding) { return finding.id == "p2p-known-bad"; });
}

/// Corruption first, then hangs: the order of the table's symptoms.
void known_bad(const Patient& patient, Verdict& verdict) {
    const std::string driver = patient.software().driver.value_or("unknown");
    for (const profiles::KnownBadRow& row : patient.inputs.knowledge.known_bad.rows) {
        const auto gpus = match_known_bad(row, patient.inputs);
        if (!gpus || (row.decides && acted_upon(patient))) continue;
        const Gpu* first = gpus->empty() ? nullptr : &gpu_at(patient, gpus->front());
        verdict.find(
            severity_of(row),
            {.what = row.what,
             .evidence = fmt::format(
                 "{}driver {}, {}; row {} of known-bad.toml (confidence {}): {}",
                 first == nullptr ? "" : fmt::format("{} x {}, ", gpus->size(), first->name),
                 driver, library_text(patient.inputs), row.row, row.confidence, row.source),
             .effect = symptom_text(row.symptom) + " (reported, not seen here)",
             .fix = row.fix,
             .remark = row.remark,
             .where = gpus->empty() || row.gpus.empty() ? std::string()
                                                        : gpus_text(patient.machine(), *gpus)});
    }
}

/// Peer access below one switch is refused by a setting of the BIOS or of the host, unless the
/// model has none.
void refused_below_switch(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (machine.virtual_machine || machine.peer_access.empty()) return;
    const PairMatrix matrix(machine);
    const auto able = visible_gpus(patient, [](const Gpu& gpu) {
        return (gpu.name.empty() || has_peer_access(gpu)) && gpu.vendor != "amd" && gpu.mig != true;
    });
    std::vector<std::pair<int, int>> pairs;
    bool unnamed = false;
    for (std::size_t i = 0; i < able.size(); ++i)
        for (std::size_t j = i + 1; j < able.size(); ++j) {
            const int a = able[i], b = able[j];
            if (matrix.peer_access(a, b) != PeerAccess::refused) continue;
            if (!matrix.known()) return verdict.unknown("the paths between the GPUs");
            const PathType path = matrix.path(a, b);
            if (path != PathType::PIX && path != PathType::PXB) continue;
            if (gpu_at(patient, a).name.empty() || gpu_at(patient, b).name.empty())
                unnamed = true;
            else
                pairs.emplace_back(a, b);
        }
    if (pairs.empty()) {
        if (unnamed) verdict.unknown("the names of the GPUs");
        return;
    }
    const std::size_t count = pairs.size();
    verdict.slow(
        {.what = fmt::format("the driver refuses P2P between {} GPU pair{} below one "
                             "PCIe switch",
                             count, count == 1 ? "" : "s"),
         .evidence = fmt::format("pairs {} (nvidia-smi topo -p2p r)", pairs_text(machine, pairs)),
         .effect = "they go through shared memory, at about half the bandwidth",
         .fix = "nvidia-smi topo -p2p r",
         .remark = "it tells the reason (CNS: chipset, GNS: GPU, DR: disabled by the registry); "
                   "check confidential computing mode and the driver's module options"});
}

/// c020: P2P writes from one package to the other go over the CPUs' own links.
void across_packages(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (machine.cpu.vendor != "AuthenticAMD" || machine.cpu.packages.value_or(1) < 2 ||
        patient.inputs.rccl)
        return;
    int pairs = 0;
    for (const Pair& pair : patient.plan.pairs)
        if (pair.path == PathType::SYS && pair.transport == "P2P") ++pairs;
    if (pairs == 0) return;
    verdict.note({.what = fmt::format("{} GPU pair{} use P2P from one CPU package to the other",
                                      pairs, pairs == 1 ? "" : "s"),
                  .evidence = fmt::format("path SYS, {}, {} packages{}{}",
                                          library_text(patient.inputs), *machine.cpu.packages,
                                          machine.cpu.model.empty() ? "" : ", ", machine.cpu.model),
                  .effect = "on EPYC 7002 it was slower than shared memory (NVIDIA/nccl-tests "
                            "issue 74)",
                  .fix = "measure both: NCCL_P2P_LEVEL=PHB against the default"});
}

/// Without a translating IOMMU the bit of a root port is of no effect by the specification, yet
/// such a machine hung until it was cleared (NVIDIA/nccl issue 2079).
void root_ports(const Patient& patient, Verdict& verdict) {
    const Machine& machine = patient.machine();
    if (patient.inputs.rccl || machine.virtual_machine) return;
    if (machine.software.iommu_translating.value_or(true)) return;  // iommu-translating tells it
    std::map<int, std::string> ports;
    for (const Pair& pair : patient.plan.pairs) {
        const Gpu &a = gpu_at(patient, pair.a), &b = gpu_at(patient, pair.b);
        if (pair.transport != "P2P" || pair.path <= PathType::PXB) continue;
        if (!a.acs_root_port || !b.acs_root_port || a.acs_root_port == b.acs_root_port) continue;
        for (const int gpu : {pair.a, pair.b})
            ports.emplace(gpu, gpu_at(patient, gpu).acs_root_port->text());
    }
    if (ports.empty()) return;
    std::vector<int> gpus;
    std::vector<std::string> words;
    for (const auto& [gpu, port] : ports) {
        gpus.push_back(gpu);
        words.push_back(fmt::format("{} (GPU {})", port, gpu_at(patient, gpu).index));
    }
    verdict.note(
        {.what = fmt::format("ACS redirects at the root ports above {}, between which P2P passes",
                             gpus_text(machine, gpus)),
         .evidence =
             fmt::format("ReqRedir+ of {}; the IOMMU does not translate", join(words, ", ")),
         .effect = "of no effect by the specification, yet P2P hung on such a machine until it was "
                   "cleared (NVIDIA/nccl issue 2079)",
         .fix = "setpci -s PORT ECAP_ACS+6.w=0",
         .remark = "as root, until the next boot, for each of these ports, if the job hangs; or "
                   "NCCL_P2P_DISABLE=1"});
}

void shm_disabled(const Patient& patient, Verdict& verdict) {
    if (user_number(patient, "NCCL_SHM_DISABLE") != 1) return;
    if (patient.inputs.visible.size() < 2) return;
    verdict.slow({.what = "NCCL_SHM_DISABLE=1 takes shared memory from NCCL",
                  .evidence = set_text(patient, "NCCL_SHM_DISABLE"),
                  .effect = "GPU pairs without P2P go through the network stack, typically 5 to "
                            "20 times slower (estimated)",
                  .fix = "unset NCCL_SHM_DISABLE",
                  .remark = "and enlarge /dev/shm if that was the reason"});
}

void ignore_disabled(const Patient& patient, Verdict& verdict) {
    const long long value = user_number(patient, "NCCL_IGNORE_DISABLED_P2P").value_or(0);
    if (value < 1) return;
    verdict.find(value >= 2 ? Severity::slow : Severity::note,
                 {.what = fmt::format("NCCL_IGNORE_DISABLED_P2P={} hides what the driver says of "
                                      "P2P",
                                      value),
                  .evidence = set_text(patient, "NCCL_IGNORE_DISABLED_P2P"),
                  .effect = value >= 2 ? "NCCL uses P2P although the driver refuses it"
                                       : "a broken NVLink goes unnoticed: the pair uses shared "
                                         "memory",
                  .fix = "unset NCCL_IGNORE_DISABLED_P2P",
                  .remark = "and find out why the driver refuses it"});
}

constexpr Check kChecks[] = {
    {{"known-bad", kFamily, Severity::slow,
      "GPU, driver, NCCL and platform against the table of reported failures "
      "(profiles/known-bad.toml): a hint, never a verdict"},
     known_bad},
    {{"p2p-refused", kFamily, Severity::slow,
      "the driver's P2P status of GPUs below one PCIe switch, for models that have P2P: it should "
      "be OK"},
     refused_below_switch},
    {{"p2p-across-packages", kFamily, Severity::note,
      "GPU pairs that use P2P across two AMD packages: often slower than shared memory"},
     across_packages},
    {{"acs-root-ports", kFamily, Severity::note,
      "PCIe access control of the root ports between GPUs that use P2P through the root complex"},
     root_ports},
    {{"shm-disabled", kFamily, Severity::slow, "NCCL_SHM_DISABLE=1: for debugging only"},
     shm_disabled},
    {{"p2p-check-ignored", kFamily, Severity::slow,
      "NCCL_IGNORE_DISABLED_P2P, which hides broken NVLinks"},
     ignore_disabled},
};

}  // namespace

std::span<const Check> p2p_checks() {
    return kChecks;
}

}  // namespace toporun::env::doctor
