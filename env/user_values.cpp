#include "env/user_values.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {
namespace {

/// Those have findings of their own, or an empty value means "unset" to NCCL.
bool spoken_of(const std::string& name) {
    return name == kP2pLevel || name == kSocketIfname || name == "NCCL_CONF_FILE" ||
           name.ends_with("_PLUGIN");
}

std::string effect_of_empty(const std::string& name) {
    if (name == "NCCL_COMM_ID") return "NCCL stops with an error";
    if (name == "NCCL_DEBUG") return "no log, and the conf files cannot switch it on";
    if (name == "NCCL_DEBUG_SUBSYS") return "nothing is logged at all before 2.30.7";
    if (name == "NCCL_ALGO" || name == "NCCL_PROTO")
        return "2.24 and later may fail to choose an algorithm";
    return "NCCL takes its default, and the conf files cannot set it";
}

void empty_values(const Inputs& inputs, std::vector<Finding>& findings) {
    for (const auto& [name, value] : inputs.user.variables) {
        if (!name.starts_with("NCCL_") || !value.empty() || spoken_of(name)) continue;
        findings.push_back(
            {"nccl-empty-value", name == "NCCL_COMM_ID" ? Severity::broken : Severity::note,
             fmt::format("{} is set to nothing", name), "an empty value is not unset",
             effect_of_empty(name), fmt::format("unset {}", name), ""});
    }
}

/// NCCL takes conf lines verbatim (src/misc/param.cc).
void conf_lines(const Inputs& inputs, std::vector<Finding>& findings) {
    for (const detect::ConfValue& line : inputs.user.conf) {
        std::string fault;
        if (trim(line.name) != line.name)
            fault = "has blanks around the name, which become part of it";
        else if (line.value.find('\r') != std::string::npos &&
                 (!inputs.nccl || *inputs.nccl < 23000))
            fault = "ends in a carriage return, which becomes part of the value before 2.30";
        else if (line.value.size() > 1 && (line.value.front() == '"' || line.value.front() == '\''))
            fault = "has quotes, which become part of the value";
        else if (line.value.starts_with(' ') || line.value.ends_with(' '))
            fault = "has blanks around the value, which become part of it";
        if (fault.empty()) continue;
        findings.push_back({"conf-line", Severity::slow,
                            fmt::format("{}={} {}", trim(line.name), shell_word(line.value), fault),
                            "NCCL takes each line of its files as it stands",
                            "the variable is not what it looks like",
                            "write NAME=VALUE without blanks and quotes", line.where});
    }
}

}  // namespace

std::vector<Finding> user_value_findings(const Inputs& inputs) {
    std::vector<Finding> findings;
    empty_values(inputs, findings);
    conf_lines(inputs, findings);
    const auto plugin = user_value(inputs, "NCCL_ENV_PLUGIN");
    if (plugin && !plugin->empty() && *plugin != "none" && (!inputs.nccl || *inputs.nccl >= 22807))
        findings.push_back(
            {"env-plugin", Severity::note,
             fmt::format("NCCL_ENV_PLUGIN={} answers for every variable", shell_word(*plugin)),
             "it replaces NCCL's look-up since 2.28.7",
             "values that toporun exports may be ignored", "compare with what NCCL's log says",
             ""});
    return findings;
}

}  // namespace toporun::env
