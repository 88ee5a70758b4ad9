#include "env/profile_word.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <string_view>

#include "base/text.hpp"
#include "env/carrier.hpp"
#include "env/match_profile.hpp"

namespace toporun::env {
namespace {

bool has_name(const std::vector<Setting>& settings, const std::string& name) {
    return std::any_of(settings.begin(), settings.end(),
                       [&](const Setting& setting) { return setting.name == name; });
}

/// Read by NCCL's network transports or their plugins alone.
bool concerns_network(std::string_view name) {
    constexpr std::array<std::string_view, 8> kPrefixes = {
        "NCCL_IB_",  "NCCL_NET", "NCCL_CROSS_NIC", "NCCL_SOCKET_", "NCCL_NSOCKS_",
        "NCCL_OOB_", "FI_",      "RDMAV_"};
    return std::any_of(kPrefixes.begin(), kPrefixes.end(),
                       [&](std::string_view prefix) { return name.starts_with(prefix); });
}

bool has_effect(const Inputs& inputs, const std::string& name, bool over_network) {
    if (!concerns_network(name)) return true;
    return over_network && (!name.starts_with("NCCL_IB_") || data_over_rdma(inputs));
}

}  // namespace

const profiles::Value* profile_value(const Inputs& inputs, const std::string& name) {
    const auto& version = inputs.machine.software.nccl_version;
    for (const profiles::Profile* profile : inputs.matched)
        for (const profiles::Value& value : profile->values) {
            if (value.name != name) continue;
            const bool ranged = !value.since.empty() || !value.until.empty();
            if (!ranged ||
                (version && profiles::version_in_range(*version, value.since, value.until)))
                return &value;
        }
    return nullptr;
}

const profiles::Profile& profile_of(const Inputs& inputs, const profiles::Value& value) {
    return **std::find_if(
        inputs.matched.begin(), inputs.matched.end(), [&](const profiles::Profile* profile) {
            return std::any_of(profile->values.begin(), profile->values.end(),
                               [&](const profiles::Value& own) { return &own == &value; });
        });
}

Setting with_profile(const Inputs& inputs, Setting wanted, std::vector<Finding>& findings,
                     const Unfit& unfit) {
    const profiles::Value* value = profile_value(inputs, wanted.name);
    if (value == nullptr) return wanted;
    const profiles::Profile& profile = profile_of(inputs, *value);
    const bool built_in = profile.layer == profiles::Layer::built_in;
    const bool same = wanted.value == value->value && wanted.origin != Origin::measured;
    if (built_in && wanted.value && !same) return wanted;
    const std::string fault = value->value && unfit ? unfit(*value->value) : "";
    if (!fault.empty()) {
        if (!user_has(inputs, wanted.name))
            findings.push_back({"profile-value-unfit", built_in ? Severity::note : Severity::slow,
                                fmt::format("{}={} of the profile '{}' cannot hold here",
                                            wanted.name, shell_word(*value->value), profile.name),
                                fault, "it is not used", "", value->where,
                                "correct the value, or its [match]"});
        return wanted;
    }
    if (wanted.value && !same)
        wanted.evidence =
            fmt::format("toporun's own choice: {} ({})", *wanted.value, wanted.reason);
    wanted.value = value->value;
    wanted.origin = value->value ? Origin::profile : Origin::left_to_nccl;
    wanted.profile = profile.name;
    wanted.reason = value->reason;
    return wanted;
}

std::vector<Setting> other_profile_settings(const Inputs& inputs,
                                            const std::vector<Setting>& decided,
                                            bool over_network) {
    std::vector<Setting> settings;
    for (const profiles::Profile* profile : inputs.matched) {
        const std::string seen = match_text(match_features(inputs.machine, profile->match));
        for (const profiles::Value& listed : profile->values) {
            const profiles::Value* value = profile_value(inputs, listed.name);
            if (value == nullptr || has_name(decided, listed.name) ||
                has_name(settings, listed.name) || !has_effect(inputs, listed.name, over_network))
                continue;
            // P2P is one decision; a profile does not switch it off behind its back.
            if (value->value && listed.name == kP2pDisable) continue;
            Setting setting = left_alone(value->name, value->reason,
                                         fmt::format("{}; source: {}", seen, value->source),
                                         "as NCCL decides by itself");
            setting.value = value->value;
            setting.profile = profile_of(inputs, *value).name;
            if (value->value) setting.origin = Origin::profile;
            settings.push_back(settle(inputs, std::move(setting)));
        }
    }
    return settings;
}

}  // namespace toporun::env
