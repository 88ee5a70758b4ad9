#include "env/p2p.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <numeric>

#include "base/text.hpp"

#include "env/match_known_bad.hpp"
#include "env/nccl_defaults.hpp"
#include "env/network_inside.hpp"
#include "env/p2p_measured.hpp"
#include "env/p2p_user.hpp"
#include "env/profile_word.hpp"

namespace toporun::env {
namespace {

using detect::PathType;

template <class Function>
void each_pair(const std::vector<int>& gpus, Function&& visit) {
    for (std::size_t i = 0; i < gpus.size(); ++i)
        for (std::size_t j = i + 1; j < gpus.size(); ++j)
            visit(std::min(gpus[i], gpus[j]), std::max(gpus[i], gpus[j]));
}

/// What the links of the job's GPUs allow.
struct JobLinks {
    int pairs = 0;
    int direct = 0;             ///< NVLink of their own
    int through_gpu = 0;        ///< NVB
    int untold = 0;             ///< whether NVLink joins them is not known
    std::vector<GpuPair> pcie;  ///< not NVLink, and P2P by default
    /// Not NVLink, and P2P by the default of some version or CPU that this may be: with one of them
    /// unknown, more than `pcie`.
    std::vector<GpuPair> pcie_at_most;
    int refused = 0;    ///< by the driver, assumed answers included
    int stopped = 0;    ///< NVLink joins them, the driver refuses P2P: NCCL ends with an error
    int assumed = 0;    ///< of those, the assumed ones
    std::string stock;  ///< why they are assumed
    std::map<PathType, int> paths;

    std::string text() const {
        std::vector<std::string> parts;
        for (const auto& [path, count] : paths)
            parts.push_back(fmt::format(
                "{} {}", count, path == PathType::DIS ? "unknown" : detect::path_name(path)));
        std::string text =
            fmt::format("{} GPU pair{}: {}", pairs, pairs == 1 ? "" : "s", join(parts, ", "));
        if (untold > 0)
            text += fmt::format("; whether NVLink joins {} is not known",
                                untold == pairs ? "them" : fmt::format("{} of them", untold));
        if (assumed > 0)
            text += fmt::format(
                "; the driver's answer is not known for {}: assumed to refuse P2P, as stock "
                "drivers "
                "do on {}",
                assumed == pairs ? "them" : fmt::format("{} of them", assumed), stock);
        return text;
    }
};

std::string stock_text(const Inputs& inputs, int a, int b) {
    const profiles::StockRefusal* refusal = stock_refusal(inputs, a);
    if (refusal == nullptr) refusal = stock_refusal(inputs, b);
    return fmt::format("{} ({})", refusal->what, refusal->source);
}

JobLinks links_in_job(const Inputs& inputs, const PairMatrix& matrix,
                      const TransportSwitches& defaults, PathType highest) {
    JobLinks links;
    TransportSwitches most = defaults;
    most.level = highest;
    each_pair(gpus_in_job(inputs), [&](int a, int b) {
        ++links.pairs;
        ++links.paths[matrix.path(a, b)];
        const bool assumed = assumed_refused(inputs, matrix, a, b);
        links.assumed += assumed;
        links.untold += !matrix.links_told(a, b);
        links.refused += assumed || matrix.peer_access(a, b) == detect::PeerAccess::refused;
        links.stopped += pair_transport(inputs, matrix, a, b, defaults) == "NONE";
        if (assumed && links.stock.empty()) links.stock = stock_text(inputs, a, b);
        if (matrix.direct_nvlink(a, b))
            ++links.direct;
        else if (matrix.path(a, b) == PathType::NVB &&
                 matrix.peer_access(a, b) != detect::PeerAccess::refused && !matrix.mig(a, b))
            ++links.through_gpu;
        else if (pair_transport(inputs, matrix, a, b, most) == "P2P") {
            links.pcie_at_most.emplace_back(a, b);
            if (pair_transport(inputs, matrix, a, b, defaults) == "P2P")
                links.pcie.emplace_back(a, b);
        }
    });
    return links;
}

std::string level_default_text(const Inputs& inputs, const LevelDefault& level,
                               const std::vector<Pair>& pairs) {
    std::map<std::string, int> transports;
    for (const Pair& pair : pairs) ++transports[pair.transport_default];
    std::vector<std::string> parts;
    for (const auto& [transport, count] : transports)
        parts.push_back(fmt::format("{} {}", count, transport));
    const std::string here =
        parts.empty() ? "" : fmt::format("; pairs here: {}", join(parts, ", "));
    return fmt::format("{}: P2P up to {} ({}){}", library_text(inputs),
                       detect::path_name(level.level), level.why, here);
}

bool keeps_nvlink(const Inputs& inputs, const PairMatrix& matrix, PathType level) {
    bool keeps = true;
    each_pair(gpus_in_job(inputs), [&](int a, int b) {
        const PathType path = matrix.path(a, b);
        if (is_nvlink(path) && path > level) keeps = false;
    });
    return keeps;
}

/// The level that the links alone give, as a word; nothing when NCCL should decide.
std::optional<std::string> level_of_links(const Inputs& inputs, const JobLinks& links) {
    if (inputs.rccl || links.pairs == 0) return std::nullopt;
    if (inputs.nccl && *inputs.nccl < 20600) return std::nullopt;  // no names yet
    if (links.direct == links.pairs) return "NVL";
    const bool knows_nvb = !inputs.nccl || *inputs.nccl >= 20800;
    if (links.through_gpu > 0 && links.direct + links.through_gpu == links.pairs && knows_nvb)
        return "NVB";
    return std::nullopt;
}

std::string level_reason(const Inputs& inputs, const std::string& level) {
    std::string reason =
        level == "NVL"
            ? "every pair has direct NVLink: NVL names exactly these paths, none can slip to PCIe"
            : "every pair has NVLink, some through a third GPU: NVB names these paths and no PCIe";
    if (!inputs.nccl) reason += "; holds in every version that knows level names";
    return reason;
}

/// The highest level that takes P2P from every pair of `bad`, NVLink kept, also where it is not
/// known to be there; nothing when no pair is left that could use P2P.
std::optional<PathType> level_without(const std::vector<GpuPair>& bad, const PairMatrix& matrix,
                                      const JobLinks& links) {
    PathType nearest = PathType::DIS;
    for (const auto& [a, b] : bad) nearest = std::min(nearest, matrix.path(a, b));
    std::optional<PathType> level;
    if (links.direct > 0) level = PathType::NVL;
    if (links.through_gpu > 0 || links.untold > 0) level = PathType::NVB;
    for (const auto& [a, b] : links.pcie) {
        const PathType path = matrix.path(a, b);
        const bool named = path == PathType::PIX || path == PathType::PXB || path == PathType::PHB;
        if (named && path < nearest) level = std::max(level.value_or(path), path);
    }
    return level;
}

/// The choice against a fault: P2P stays on wherever a level can keep it.
Setting against_fault(const Inputs& inputs, const P2pFault& fault, const PairMatrix& matrix,
                      const JobLinks& links, const std::string& nccl_default) {
    const std::string evidence = fmt::format("{}; {}", fault.evidence, links.text());
    const std::string reason = fmt::format("{}: P2P over PCIe may hang or lose data", fault.what);
    auto level = level_without(fault.pairs, matrix, links);
    if (!level) return detected(kP2pDisable, "1", reason, evidence, nccl_default);
    if (level == PathType::NVB && inputs.nccl && *inputs.nccl < 20800 && links.through_gpu == 0)
        level = PathType::NVL;
    if (inputs.nccl && *inputs.nccl < (level == PathType::NVB ? 20800 : 20600))
        return left_alone(kP2pLevel, reason + ", but this version has no name for the level",
                          evidence, nccl_default);
    const std::string kept = links.direct + links.through_gpu > 0 ? "; NVLink stays on"
                             : links.untold > 0 ? "; NVLink, if there is any, stays on"
                                                : "; the other pairs keep it";
    return detected(kP2pLevel, std::string(detect::path_name(*level)), reason + kept, evidence,
                    nccl_default);
}

/// The faults as one, to choose against all of them.
P2pFault gravest_of(const std::vector<P2pFault>& faults) {
    P2pFault all;
    for (const P2pFault& fault : faults) {
        if (fault.pairs.empty()) continue;
        if (all.pairs.empty()) all = fault;
        all.pairs.insert(all.pairs.end(), fault.pairs.begin(), fault.pairs.end());
    }
    return all;
}

std::string left_reason(const Inputs& inputs, const JobLinks& links) {
    if (links.pairs == 0)
        return !inputs.visible.empty()     ? "one GPU, no pair to decide for"
               : inputs.machine.gpus_known ? "no GPU"
                                           : "the GPUs are not known";
    if (inputs.rccl) return "AMD GPUs: RCCL chooses by its own rules";
    if (inputs.nccl && *inputs.nccl < 20600)
        return "this version reads a level name as the number 0, which switches P2P off";
    if (links.stopped > 0)
        return "the driver refuses P2P between GPUs that NVLink joins: NCCL 2.12 and later end "
               "with an error, and no level changes that";
    if (links.refused == links.pairs)
        return fmt::format("the driver {}refuses P2P for every pair, and no level changes that",
                           links.assumed > 0 ? "most likely " : "");
    return fmt::format(
        "{}, and no fault is proved for a pair: whether another level is faster here is a question "
        "for a measurement",
        links.untold > 0 ? "whether NVLink joins the GPUs is not known"
                         : "not every pair has NVLink");
}

struct LevelChoice {
    Setting setting;
    std::vector<Finding> findings;
    bool faulty = false;  ///< P2P that may hang or lose data is the reason for the setting
};

/// What choose_level() looks at.
struct Question {
    const Inputs& inputs;
    const PairMatrix& matrix;
    const JobLinks& links;
    const TransportSwitches& defaults;
    const std::string& nccl_default;
    MeasuredMachine measured;
};

/// The faults, without the pairs on which a measurement found the data intact all the same.
std::vector<P2pFault> faults_of(const Question& question) {
    if (question.inputs.rccl) return {};
    std::vector<P2pFault> faults =
        p2p_faults(question.inputs, question.matrix, question.links.pcie_at_most);
    for (P2pFault& fault : faults) {
        const auto intact = [&](const GpuPair& pair) {
            const auto* seen = question.measured.pair(pair.first, pair.second);
            return seen != nullptr && seen->p2p_gbytes_per_s && seen->intact;
        };
        const std::size_t before = fault.pairs.size();
        std::erase_if(fault.pairs, intact);
        if (fault.pairs.size() == before) continue;
        fault.evidence += fmt::format("; yet data was intact on {} of these pairs, measured {}",
                                      before - fault.pairs.size(), question.measured.profile->date);
    }
    const auto broken = measured_broken(question.measured, question.links.pcie_at_most);
    if (!broken.empty())
        faults.insert(faults.begin(), measured_fault(broken, *question.measured.profile));
    return faults;
}

Finding fault_finding(const P2pFault& fault) {
    return {fault.id,
            Severity::slow,
            fault.what,
            fault.evidence,
            "P2P over PCIe may hang, lose data or run at half speed",
            fault.fix,
            "",
            fault.remark};
}

/// Faults on pairs that only the user's value gives P2P.
std::vector<Finding> faults_of_user(const Inputs& inputs, const PairMatrix& matrix,
                                    const JobLinks& links, const TransportSwitches& planned) {
    std::vector<GpuPair> pairs;
    each_pair(gpus_in_job(inputs), [&](int a, int b) {
        if (!is_nvlink(matrix.path(a, b)) &&
            pair_transport(inputs, matrix, a, b, planned) == "P2P" &&
            std::find(links.pcie_at_most.begin(), links.pcie_at_most.end(), GpuPair(a, b)) ==
                links.pcie_at_most.end())
            pairs.emplace_back(a, b);
    });
    std::vector<Finding> findings;
    if (inputs.rccl || pairs.empty()) return findings;
    for (P2pFault& fault : p2p_faults(inputs, matrix, pairs)) {
        Finding finding = fault_finding(fault);
        finding.remark = finding.remark.empty() ? finding.fix : finding.fix + "; " + finding.remark;
        finding.fix =
            fmt::format("unset {}", user_has(inputs, kP2pLevel) ? kP2pLevel : kP2pDisable);
        findings.push_back(std::move(finding));
    }
    return findings;
}

/// By the measurement of this machine, if it holds a better level than NCCL's default.
std::optional<Setting> by_measurement(const Question& question, const std::vector<GpuPair>& bad) {
    const auto level =
        measured_level(question.inputs, question.matrix, question.defaults, question.measured, bad);
    if (!level) return std::nullopt;
    const std::string reason = fmt::format(
        "measured on this machine ('{}'): faster than NCCL's own choice for some pairs, slower for "
        "none",
        question.measured.profile->name);
    const std::string evidence = fmt::format("{}; {}", level->evidence, question.links.text());
    Setting setting = level->level == PathType::LOC
                          ? detected(kP2pDisable, "1", reason, evidence, question.nccl_default)
                          : detected(kP2pLevel, std::string(detect::path_name(level->level)),
                                     reason, evidence, question.nccl_default);
    setting.origin = Origin::measured;
    return setting;
}

/// Nothing on this machine decides.
Setting left_to_nccl(const Question& question) {
    const Inputs& inputs = question.inputs;
    const JobLinks& links = question.links;
    Setting setting = left_alone(kP2pLevel, left_reason(inputs, links),
                                 links.pairs ? links.text() : "", question.nccl_default);
    if (question.measured.profile != nullptr && links.pairs > 0 && !inputs.rccl)
        setting.reason = fmt::format(
            "no level is better than NCCL's own for some pairs and worse for none, measured {} "
            "('{}')",
            question.measured.profile->date, question.measured.profile->name);
    else if (!question.measured.misfit.empty())
        setting.reason += "; " + question.measured.misfit;
    return setting;
}

/// The level with a profile's word on it. P2P is one decision: what a profile says of the level is
/// said of P2P switched off, too.
Setting level_with_profile(const Question& question, Setting wanted,
                           std::vector<Finding>& findings) {
    const Inputs& inputs = question.inputs;
    const JobLinks& links = question.links;
    const profiles::Value* profile = profile_value(inputs, kP2pLevel);
    if (profile == nullptr || links.pairs == 0) return wanted;
    if (wanted.name == kP2pDisable) {
        if (profile_of(inputs, *profile).layer == profiles::Layer::built_in) return wanted;
        wanted = left_alone(kP2pLevel, wanted.reason, wanted.evidence, wanted.nccl_default);
    }
    return with_profile(
        inputs, std::move(wanted), findings, [&](const std::string& value) -> std::string {
            const auto level = level_of_value(value, inputs.nccl);
            if (!level) return fmt::format("it is no level of {}", library_text(inputs));
            if (!keeps_nvlink(inputs, question.matrix, *level))
                return "it would take NVLink from GPU pairs of the job";
            if (is_nvlink(*level) && links.direct + links.through_gpu + links.untold == 0)
                return "no GPU pair of the job has NVLink: P2P would be off";
            return "";
        });
}

LevelChoice choose_level(const Question& question) {
    const Inputs& inputs = question.inputs;
    const JobLinks& links = question.links;
    LevelChoice choice;
    choice.findings = measured_findings(inputs, question.matrix, question.measured);
    if (const auto level = level_of_links(inputs, links)) {
        choice.setting =
            level_with_profile(question,
                               detected(kP2pLevel, *level, level_reason(inputs, *level),
                                        links.text(), question.nccl_default),
                               choice.findings);
        return choice;
    }
    const std::vector<P2pFault> faults = faults_of(question);
    for (const P2pFault& fault : faults) choice.findings.push_back(fault_finding(fault));
    const P2pFault fault = gravest_of(faults);
    choice.faulty = !fault.pairs.empty();
    if (auto setting = by_measurement(question, fault.pairs))
        choice.setting = std::move(*setting);
    else if (!fault.pairs.empty())
        choice.setting =
            against_fault(inputs, fault, question.matrix, links, question.nccl_default);
    else
        choice.setting = left_to_nccl(question);
    if (fault.id == "p2p-measured-broken" && choice.setting.value)
        choice.setting.origin = Origin::measured;
    choice.setting = level_with_profile(question, std::move(choice.setting), choice.findings);
    return choice;
}

TransportSwitches switches_of_plan(const Inputs& inputs, const std::vector<Setting>& settings,
                                   TransportSwitches switches) {
    switches = with_users_switches(inputs, std::move(switches));
    for (const Setting& setting : settings)
        if (setting.name == kP2pLevel && setting.value)
            if (const auto level = level_of_value(*setting.value, inputs.nccl))
                switches.level = *level;
    for (const Setting& setting : settings)
        if (setting.name == kP2pDisable && setting.value && nccl_integer(*setting.value) == 1)
            switches.level = PathType::LOC;
    return switches;
}

/// `srun toporun program` with one GPU bound to each task: the communicator has more GPUs of this
/// host than this task sees.
bool one_gpu_a_task(const Inputs& inputs) {
    return inputs.visible.size() == 1 && inputs.job.launcher == "plain" &&
           inputs.job.ranks_per_node.value_or(1) > 1 && inputs.machine.gpus.size() > 1;
}

}  // namespace

P2pDecision decide_p2p(const Inputs& given) {
    P2pDecision decision;
    const bool one_each = one_gpu_a_task(given);
    Job job = given.job;
    std::vector<int> gpus = gpus_in_job(given), visible = given.visible;
    if (one_each) {  // any of the host's GPUs may be in the job
        visible.resize(given.machine.gpus.size());
        std::iota(visible.begin(), visible.end(), 0);
        gpus = visible;
        if (const auto ranks = static_cast<std::size_t>(*job.ranks_per_node); ranks < gpus.size())
            gpus.resize(ranks);
        job.ranks_per_node.reset();
    }
    const Inputs inputs{job,           given.machine, given.user, given.options, given.knowledge,
                        given.profile, given.nccl,    given.rccl, visible,       given.visible_note,
                        given.matched};
    const PairMatrix matrix(inputs.machine);
    const LevelDefault level = default_p2p_level(inputs, static_cast<int>(gpus.size()));
    TransportSwitches defaults;
    defaults.level = level.level;
    defaults.network = network_pairs(inputs, matrix, gpus);
    // Of one GPU a task nobody knows which, unless the tasks have them all.
    if (matrix.known() && (!one_each || gpus.size() == inputs.visible.size()))
        each_pair(gpus, [&](int a, int b) {
            if (matrix.path(a, b) == PathType::DIS) return;  // a cut capture does not tell
            const std::string transport = pair_transport(inputs, matrix, a, b, defaults);
            decision.pairs.push_back({a, b, matrix.path(a, b), transport, transport});
        });
    const std::string nccl_default = level_default_text(inputs, level, decision.pairs);

    LevelChoice choice;
    JobLinks links;
    if (inputs.visible.size() > 1 && !matrix.known()) {
        choice.setting =
            left_alone(kP2pLevel, "the paths between the GPUs are not known", "", nccl_default);
    } else {
        links = links_in_job(inputs, matrix, defaults, level.at_most);
        choice =
            choose_level({inputs, matrix, links, defaults, nccl_default, measured_machine(inputs)});
    }

    if (one_each)
        choice.setting.evidence +=
            "; one GPU is visible to each task, the other tasks have others of this host";

    // One decision: a user's value of either variable settles both.
    Setting wanted = choice.setting;
    if (user_has(inputs, kP2pLevel) || user_has(inputs, kP2pDisable)) {
        const std::string own =
            wanted.value ? fmt::format("toporun's choice: {}={} ({})", wanted.name, *wanted.value,
                                       wanted.evidence)
                         : fmt::format("toporun would leave it to NCCL ({})", wanted.reason);
        decision.settings.push_back(settle(
            inputs, left_alone(kP2pLevel, "NCCL_P2P_DISABLE is set already", own, nccl_default)));
        if (user_has(inputs, kP2pDisable))
            decision.settings.push_back(settle(
                inputs, left_alone(kP2pDisable, "", own, "NCCL_P2P_LEVEL or its default decides")));
    } else {
        if (wanted.name == kP2pDisable)
            decision.settings.push_back(left_alone(kP2pLevel,
                                                   "NCCL_P2P_DISABLE=1 decides: " + wanted.reason,
                                                   wanted.evidence, nccl_default));
        decision.settings.push_back(settle(inputs, wanted));
    }
    const TransportSwitches planned = switches_of_plan(inputs, decision.settings, defaults);
    for (Pair& pair : decision.pairs)
        pair.transport = pair_transport(inputs, matrix, pair.a, pair.b, planned);
    decision.findings = std::move(choice.findings);
    if (user_has(inputs, kP2pLevel) || user_has(inputs, kP2pDisable))
        for (Finding& finding : faults_of_user(inputs, matrix, links, planned)) {
            decision.findings.push_back(std::move(finding));
            choice.faulty = true;
        }
    for (Finding& finding : p2p_user_findings(inputs, matrix, wanted, defaults, choice.faulty))
        decision.findings.push_back(std::move(finding));
    return decision;
}

}  // namespace toporun::env
