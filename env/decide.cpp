#include <fmt/format.h>

#include <algorithm>
#include <iterator>
#include <set>
#include <string>

#include "base/text.hpp"
#include "env/fabric.hpp"
#include "env/filled_in.hpp"
#include "env/gloo.hpp"
#include "env/gpu_advice.hpp"
#include "env/gpu_choice.hpp"
#include "env/host_order.hpp"
#include "env/inputs.hpp"
#include "env/interface.hpp"
#include "env/launcher_binding.hpp"
#include "env/log.hpp"
#include "env/match_profile.hpp"
#include "env/measure.hpp"
#include "env/p2p.hpp"
#include "env/placement.hpp"
#include "env/profile_word.hpp"
#include "env/rank_count.hpp"
#include "env/user_values.hpp"
#include "env/workers.hpp"

namespace toporun::env {
namespace {

template <class T>
void append(std::vector<T>& to, std::vector<T> more) {
    std::move(more.begin(), more.end(), std::back_inserter(to));
}

/// NCCL's variables that somebody has set and no decision is about: they hold, and the plan says
/// so.
std::vector<Setting> users_settings(const Inputs& inputs, const std::vector<Setting>& decided) {
    const auto is_name = [](const std::string& name) {
        return name.starts_with("NCCL_") && std::all_of(name.begin(), name.end(), [](char c) {
                   return (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_';
               });
    };
    std::set<std::string> names;
    for (const auto& [name, value] : inputs.user.variables)
        if (is_name(name)) names.insert(name);
    for (const detect::ConfValue& line : inputs.user.conf)
        if (is_name(line.name)) names.insert(line.name);
    for (const Setting& setting : decided) names.erase(setting.name);
    std::vector<Setting> settings;
    for (const std::string& name : names)
        settings.push_back(settle(inputs, left_alone(name, "", "", "as NCCL decides by itself")));
    return settings;
}

/// Names of --leave that no decision knows: most likely a slip, and the variable is then set all
/// the same.
std::vector<Finding> leave_findings(const Inputs& inputs, const std::vector<Setting>& settings) {
    std::vector<std::string> names = {kP2pDisable, kRankCountVariable, kRankCountShortName};
    for (const Setting& setting : settings) names.push_back(setting.name);
    for (const std::string_view group : {kRendezvousGroup, kRanksGroup}) names.emplace_back(group);
    for (const std::string_view name : kRendezvousVariables) names.emplace_back(name);
    for (const std::string_view name : kRankVariables) names.emplace_back(name);
    for (const profiles::Profile& profile : inputs.knowledge.profiles)
        for (const profiles::Value& value : profile.values) names.push_back(value.name);
    std::vector<Finding> findings;
    for (const std::string& name : inputs.options.leave) {
        if (std::find(names.begin(), names.end(), name) != names.end()) continue;
        const auto close = closest_word(name, names);
        findings.push_back({"leave-unknown-name", Severity::note,
                            fmt::format("--leave {} has no effect: toporun never sets it", name),
                            "", "", close ? fmt::format("did you mean {}?", *close) : "", ""});
    }
    return findings;
}

/// Profiles that the user named for this machine and that do not fit it.
std::vector<Finding> profile_findings(const Inputs& inputs) {
    std::vector<Finding> findings;
    for (const profiles::Profile& profile : inputs.knowledge.profiles) {
        if (profile.layer != profiles::Layer::command_line) continue;
        std::vector<std::string> faults;
        for (const Feature& feature : match_features(inputs.machine, profile.match))
            if (feature.fit != Fit::fits)
                faults.push_back(
                    fmt::format("{}: wants {}, {}", feature.name, printable(feature.wanted),
                                feature.found.empty() ? "not known here"
                                                      : "found " + printable(feature.found)));
        if (faults.empty()) continue;
        findings.push_back(
            {"profile-no-match", Severity::note,
             fmt::format("the profile '{}' does not describe this machine", profile.name),
             join(faults, "; "), "nothing of it is used", "toporun profiles match", profile.file,
             "it shows what differs: correct its [match], or leave --profile out"});
    }
    return findings;
}

}  // namespace

Plan decide(const Job& given, const detect::Machine& machine, const profiles::Knowledge& knowledge,
            const UserEnvironment& user, const Options& options) {
    Job job = given;
    if (!job.ranks_per_node) job.ranks_per_node = resolve_ranks_word(job.ranks_word, machine, user);
    Inputs inputs{job, machine, user, options, knowledge, nullptr, {}, false, {}, {}};
    find_profiles(inputs);
    inputs.nccl = detect::nccl_version_code(machine.software.nccl_version);
    inputs.rccl = is_rccl(machine);
    find_visible_gpus(inputs);

    Plan plan;
    RankCount count = fill_in_rank_count(inputs);
    if (count.filled_in) job.ranks_per_node = count.filled_in;
    append(plan.settings, std::move(count.settings));
    append(plan.findings, std::move(count.findings));
    plan.ranks_per_node = job.ranks_per_node;
    for (const profiles::Profile* profile : inputs.matched)
        plan.profiles.push_back({profile->name, profile->title, profile->file,
                                 match_text(match_features(machine, profile->match))});
    if (inputs.profile != nullptr) plan.profile = inputs.profile->name;
    append(plan.findings, profile_findings(inputs));

    GpuDecision gpus = decide_gpus(inputs);
    inputs.visible = std::move(gpus.visible);
    inputs.visible_note = std::move(gpus.visible_note);
    append(plan.settings, std::move(gpus.settings));
    append(plan.findings, gpu_advice(inputs));

    if (options.host_places && job.hosts.size() > 1) {
        HostOrder order = order_hosts(job.hosts, *options.host_places);
        append(plan.findings,
               host_order_findings(job, order, *options.host_places, options.host_places_file));
        plan.host_order = std::move(order.hosts);
    }

    P2pDecision p2p = decide_p2p(inputs);
    append(plan.settings, std::move(p2p.settings));
    append(plan.findings, std::move(p2p.findings));
    plan.pairs = std::move(p2p.pairs);

    InterfaceDecision interface = decide_interface(inputs);
    std::optional<Setting> gloo = decide_gloo(inputs, interface.setting);
    plan.settings.push_back(std::move(interface.setting));
    if (gloo) plan.settings.push_back(std::move(*gloo));
    plan.interfaces = std::move(interface.interfaces);
    append(plan.findings, std::move(interface.findings));

    Decision fabric = decide_fabric(inputs);
    append(plan.settings, std::move(fabric.settings));
    append(plan.findings, std::move(fabric.findings));

    PlacementDecision placement = decide_placement(inputs);
    WorkersDecision workers = decide_workers(inputs, placement);
    plan.ranks = std::move(placement.ranks);
    plan.binds = placement.binds;
    plan.bind = placement.bind;
    plan.bind_reason = std::move(placement.reason);
    Decision launcher = decide_launcher_binding(inputs, plan.binds);
    append(plan.settings, std::move(launcher.settings));
    append(plan.findings, std::move(launcher.findings));
    append(plan.findings, std::move(placement.findings));
    append(plan.findings, rank_count_findings(inputs));
    plan.workers = workers.workers;
    append(plan.settings, std::move(workers.settings));
    append(plan.findings, std::move(workers.findings));

    LogDecision log = decide_log(inputs);
    append(plan.settings, std::move(log.settings));
    plan.takes_log = log.takes_log;
    plan.log_reason = std::move(log.reason);
    plan.followed_log = std::move(log.followed);

    MeasureDecision measure = decide_measure(inputs);
    plan.settings.push_back(std::move(measure.setting));
    plan.measures = measure.measures;
    plan.measure_reason = std::move(measure.reason);
    plan.measure_on_demand = measure.on_demand;

    const bool over_network = job_span(inputs).several ||
                              std::any_of(plan.pairs.begin(), plan.pairs.end(),
                                          [](const Pair& pair) { return pair.transport == "NET"; });
    append(plan.settings, other_profile_settings(inputs, plan.settings, over_network));
    append(plan.settings, users_settings(inputs, plan.settings));
    append(plan.findings, user_value_findings(inputs));
    append(plan.findings, leave_findings(inputs, plan.settings));
    return plan;
}

}  // namespace toporun::env
