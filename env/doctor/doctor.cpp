#include "env/doctor/doctor.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "base/text.hpp"
#include "env/doctor/check.hpp"

namespace toporun::env {
namespace {

using doctor::Check;
using doctor::Patient;
using doctor::Verdict;

std::vector<Check> collect_checks() {
    std::vector<Check> all;
    for (const auto& family :
         {doctor::interface_checks(), doctor::rdma_checks(), doctor::roce_checks(),
          doctor::gdr_checks(), doctor::p2p_checks(), doctor::nvlink_checks(),
          doctor::fabric_checks(), doctor::pcie_checks(), doctor::gpu_checks(),
          doctor::visibility_checks(), doctor::numa_checks(), doctor::limit_checks(),
          doctor::container_checks(), doctor::topology_checks(), doctor::software_checks(),
          doctor::cloud_checks(), doctor::amd_checks(), doctor::setting_checks(),
          doctor::decision_checks()})
        all.insert(all.end(), family.begin(), family.end());
    return all;
}

const std::vector<Check>& all_checks() {
    static const std::vector<Check> all = collect_checks();
    return all;
}

bool told(const std::vector<Finding>& findings, std::string_view id) {
    return std::any_of(findings.begin(), findings.end(),
                       [&](const Finding& finding) { return finding.id == id; });
}

bool same_words(const Finding& a, const Finding& b) {
    return a.id == b.id && a.what == b.what && a.where == b.where;
}

void take(const Finding& finding, std::vector<Finding>& findings) {
    if (std::none_of(findings.begin(), findings.end(),
                     [&](const Finding& known) { return same_words(known, finding); }))
        findings.push_back(finding);
}

/// What a whole family looks at, where a capture does not tell it; "" where it does.
std::string_view unknown_subject(std::string_view family, const detect::Machine& machine) {
    for (const std::string_view gpus : {"p2p", "nvlink", "fabric", "pcie", "gpu", "amd"})
        if (family == gpus && !machine.gpus_known) return "the GPUs";
    for (const std::string_view nics : {"interface", "rdma", "roce", "gdr", "cloud"})
        if (family == nics && !machine.nics_known) return "the network adapters";
    return "";
}

/// The facts by how many checks want them, then by name.
std::vector<std::string> most_wanted(const std::map<std::string, int>& facts) {
    std::vector<std::pair<std::string, int>> counted(facts.begin(), facts.end());
    std::stable_sort(counted.begin(), counted.end(),
                     [](const auto& a, const auto& b) { return a.second > b.second; });
    std::vector<std::string> names;
    for (const auto& [name, count] : counted) names.push_back(name);
    return names;
}

}  // namespace

std::span<const CheckInfo> check_list() {
    static const std::vector<CheckInfo> infos = [] {
        std::vector<CheckInfo> list;
        for (const Check& check : all_checks()) list.push_back(check.info);
        return list;
    }();
    return infos;
}

Diagnosis diagnose(const Job& job, const detect::Machine& machine, const UserEnvironment& user,
                   const Plan& plan, const profiles::KnownBad& known_bad) {
    Job settled = job;
    settled.ranks_per_node = plan.ranks_per_node;
    const Options options;
    const profiles::ProfilerVersions no_rules;
    Inputs inputs{settled, machine, user, options, no_rules, nullptr, {}, false, {}, {}};
    inputs.nccl = detect::nccl_version_code(machine.software.nccl_version);
    inputs.rccl = is_rccl(machine);
    find_visible_gpus(inputs);
    const Patient patient{inputs, plan, known_bad};

    Diagnosis diagnosis;
    for (const Finding& finding : plan.findings) take(finding, diagnosis.findings);
    std::map<std::string, int> unknown;
    for (const Check& check : all_checks()) {
        ++diagnosis.checks;
        if (check.examine == nullptr || told(plan.findings, check.info.id)) continue;
        Verdict verdict(check.info.id);
        check.examine(patient, verdict);
        for (const Finding& finding : verdict.findings()) take(finding, diagnosis.findings);
        if (!verdict.findings().empty()) continue;
        std::string fact(unknown_subject(check.info.family, machine));
        if (fact.empty()) fact = verdict.unknown_fact();
        if (fact.empty()) continue;
        ++diagnosis.not_made;
        ++unknown[fact];
    }
    diagnosis.unknown = most_wanted(unknown);
    std::stable_sort(diagnosis.findings.begin(), diagnosis.findings.end(),
                     [](const Finding& a, const Finding& b) { return a.severity < b.severity; });
    return diagnosis;
}

std::vector<Finding> broken_findings(const Diagnosis& diagnosis) {
    std::vector<Finding> broken;
    for (const Finding& finding : diagnosis.findings)
        if (finding.severity == Severity::broken) broken.push_back(finding);
    return broken;
}

std::string summary_line(const Diagnosis& diagnosis) {
    int counts[3] = {0, 0, 0};
    for (const Finding& finding : diagnosis.findings)
        ++counts[static_cast<std::size_t>(finding.severity)];
    std::vector<std::string> parts;
    for (const Severity severity : {Severity::broken, Severity::slow, Severity::note})
        if (const int count = counts[static_cast<std::size_t>(severity)]; count > 0)
            parts.push_back(fmt::format("{} {}{}", count, severity_text(severity),
                                        severity == Severity::note && count > 1 ? "s" : ""));
    std::string line = parts.empty() ? "nothing found" : join(parts, ", ");
    line += fmt::format(": {} checks", diagnosis.checks);
    if (diagnosis.not_made == 0) return line;
    return line + fmt::format(", {} of them could not be made (not known: {})", diagnosis.not_made,
                              join(diagnosis.unknown, ", "));
}

}  // namespace toporun::env
