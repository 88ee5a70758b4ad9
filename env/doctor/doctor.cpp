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

/// What a whole family looks at. Of a capture that does not tell it no check can be made.
enum class Subject { none, gpus, network };

struct SubjectCheck {
    Check check;
    Subject subject = Subject::none;
};

std::vector<SubjectCheck> collect_checks() {
    const std::pair<std::span<const Check>, Subject> families[] = {
        {doctor::interface_checks(), Subject::network},
        {doctor::rdma_checks(), Subject::network},
        {doctor::roce_checks(), Subject::network},
        {doctor::gdr_checks(), Subject::network},
        {doctor::p2p_checks(), Subject::gpus},
        {doctor::nvlink_checks(), Subject::gpus},
        {doctor::fabric_checks(), Subject::gpus},
        {doctor::pcie_checks(), Subject::gpus},
        {doctor::gpu_checks(), Subject::gpus},
        {doctor::visibility_checks(), Subject::gpus},
        {doctor::numa_checks(), Subject::gpus},
        {doctor::limit_checks(), Subject::gpus},
        {doctor::container_checks(), Subject::gpus},
        {doctor::topology_checks(), Subject::gpus},
        {doctor::software_checks(), Subject::gpus},
        {doctor::cloud_checks(), Subject::network},
        {doctor::platform_checks(), Subject::none},
        {doctor::amd_checks(), Subject::gpus},
        {doctor::setting_checks(), Subject::none},
        {doctor::network_decision_checks(), Subject::network},
        {doctor::gpu_decision_checks(), Subject::gpus},
        {doctor::other_decision_checks(), Subject::none},
    };
    std::vector<SubjectCheck> all;
    for (const auto& [checks, subject] : families)
        for (const Check& check : checks) all.push_back({check, subject});
    return all;
}

const std::vector<SubjectCheck>& all_checks() {
    static const std::vector<SubjectCheck> all = collect_checks();
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

/// The subject, where a capture does not tell it; "" where it does.
std::string_view untold(Subject subject, const detect::Machine& machine) {
    if (subject == Subject::gpus && !machine.gpus_known) return "the GPUs";
    if (subject == Subject::network && !machine.nics_known) return "the network adapters";
    return "";
}

std::vector<std::string> each_once(const std::vector<std::string>& lines) {
    std::vector<std::string> once;
    for (const std::string& line : lines)
        if (std::find(once.begin(), once.end(), line) == once.end()) once.push_back(line);
    return once;
}

/// The facts by how much they are wanted, then by name.
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
        for (const SubjectCheck& one : all_checks()) list.push_back(one.check.info);
        return list;
    }();
    return infos;
}

Diagnosis diagnose(const Job& job, const detect::Machine& machine, const UserEnvironment& user,
                   const Plan& plan, const profiles::Knowledge& knowledge, Severity least) {
    Job settled = job;
    settled.ranks_per_node = plan.ranks_per_node;
    const Options options;
    Inputs inputs{settled, machine, user, options, knowledge, nullptr, {}, false, {}, {}};
    inputs.nccl = detect::nccl_version_code(machine.software.nccl_version);
    inputs.rccl = is_rccl(machine);
    find_visible_gpus(inputs);
    find_profiles(inputs);
    const Patient patient{inputs, plan};

    Diagnosis diagnosis;
    for (const Finding& finding : plan.findings) take(finding, diagnosis.findings);
    std::map<std::string, int> unknown;
    for (const auto& [check, subject] : all_checks()) {
        if (check.info.worst > least) continue;
        ++diagnosis.checks;
        if (told(plan.findings, check.info.id)) continue;
        Verdict verdict(check.info.id);
        if (check.examine != nullptr) check.examine(patient, verdict);
        for (const Finding& finding : verdict.findings()) take(finding, diagnosis.findings);
        if (!verdict.findings().empty()) continue;
        std::string fact(untold(subject, machine));
        if (fact.empty()) fact = verdict.unknown_fact();
        if (fact.empty()) continue;
        ++diagnosis.not_made;
        unknown[fact] += verdict.weight();
    }
    for (const Subject subject : {Subject::gpus, Subject::network})
        if (const auto name = untold(subject, machine); !name.empty())
            diagnosis.untold.emplace_back(name);
    diagnosis.notes = each_once(machine.notes);
    diagnosis.profiles = plan.profiles;
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
    if (!diagnosis.untold.empty())
        line += fmt::format(", {}nothing is told of {}", parts.empty() ? "but " : "",
                            join(diagnosis.untold, " and "));
    line += fmt::format(": {} checks", diagnosis.checks);
    if (diagnosis.not_made == 0) return line;
    std::vector<std::string> facts;
    for (const std::string& fact : diagnosis.unknown)
        if (std::find(diagnosis.untold.begin(), diagnosis.untold.end(), fact) ==
            diagnosis.untold.end())
            facts.push_back(fact);
    line += fmt::format(", {} of them could not be made", diagnosis.not_made);
    if (facts.empty()) return line;
    return line + fmt::format(" ({}not known: {})", diagnosis.untold.empty() ? "" : "also ",
                              join(facts, ", "));
}

}  // namespace toporun::env
