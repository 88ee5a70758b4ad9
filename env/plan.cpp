#include "env/plan.hpp"

namespace toporun::env {

std::string origin_text(const Setting& setting) {
    switch (setting.origin) {
        case Origin::user:
            return "user";
        case Origin::conf:
            return "conf";
        case Origin::launcher:
            return "launcher";
        case Origin::profile:
            return "profile:" + setting.profile;
        case Origin::detected:
            return "detected";
        case Origin::measured:
            return "measured";
        case Origin::left_to_nccl:
            break;
    }
    return "left-to-nccl";
}

std::string_view severity_text(Severity severity) {
    switch (severity) {
        case Severity::broken:
            return "broken";
        case Severity::slow:
            return "slow";
        case Severity::note:
            break;
    }
    return "note";
}

std::optional<std::string> UserEnvironment::variable(const std::string& name) const {
    const auto found = variables.find(name);
    if (found == variables.end()) return std::nullopt;
    return found->second;
}

std::optional<std::string> UserEnvironment::nccl_value(const std::string& name) const {
    if (auto value = variable(name)) return value;
    for (const detect::ConfValue& line : conf)
        if (line.name == name) return line.value;
    return std::nullopt;
}

}  // namespace toporun::env
