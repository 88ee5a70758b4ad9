#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"
#include "env/plan.hpp"
#include "profiles/knowledge.hpp"

/// `toporun doctor`: a closed list of checks, each a pure function of what is known of the job, the
/// machine, the user's environment and the plan. A check says nothing where it does not apply and
/// nothing where its fact is not known. docs/doctor.md has one section an identifier.
namespace toporun::env {

/// One kind of fault. Those of family "decision" are found by decide() on its way.
struct CheckInfo {
    std::string_view id;           ///< stable: "shm-too-small"
    std::string_view family;       ///< "interface", "p2p", "nvlink", ...
    Severity worst;                ///< of what it may find
    std::string_view explanation;  ///< what is looked at and why it matters
};

/// Every kind of fault that doctor can name, by family.
std::span<const CheckInfo> check_list();

struct Diagnosis {
    /// Of the plan and of the checks, broken first, then slow, then note; each kind as told once.
    std::vector<Finding> findings;
    int checks = 0;    ///< made or not, all of check_list()
    int not_made = 0;  ///< because a fact is not known
    /// The facts in question, most wanted first: "NVLink states", "the IOMMU's mode".
    std::vector<std::string> unknown;
    /// What a capture says nothing of at all: "the GPUs", "the network adapters".
    std::vector<std::string> untold;
    std::vector<std::string> notes;     ///< Machine::notes, each once
    std::vector<UsedProfile> profiles;  ///< that describe the machine, strongest first
};

/// Examines `machine` for `job`. `plan` is decide()'s for the same inputs; its findings are taken
/// over. Checks that find nothing as grave as `least` are left out, and do not count. Never throws
/// for a machine.
Diagnosis diagnose(const Job& job, const detect::Machine& machine, const UserEnvironment& user,
                   const Plan& plan, const profiles::Knowledge& knowledge,
                   Severity least = Severity::note);

/// Of severity broken: what a run is warned of before it starts.
std::vector<Finding> broken_findings(const Diagnosis& diagnosis);

/// "nothing found: 61 checks", "nothing found: 61 checks, 9 of them could not be made (not known:
/// NVLink states, the IOMMU's mode)", "nothing found, but nothing is told of the GPUs: 61 checks,
/// ..."; for a diagnosis with findings "1 broken, 2 notes: ..." alike.
std::string summary_line(const Diagnosis& diagnosis);

}  // namespace toporun::env
