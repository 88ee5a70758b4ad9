#include "env/measure.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "base/text.hpp"

namespace toporun::env {
namespace {

constexpr const char* kPlugin = "NCCL_PROFILER_PLUGIN";
constexpr std::size_t kMaxPluginPath = 254;      // MAX_STR_LEN of NCCL src/plugin/plugin_open.cc
constexpr const char* kFirstInterface = "2.27";  // interface version 4, the plugin's oldest

const profiles::ProfilerRule* rule_for(const Inputs& inputs, const std::string& version) {
    const auto& shm = inputs.machine.limits.shm_bytes;
    for (const profiles::ProfilerRule& rule : inputs.knowledge.profiler_versions.rules) {
        if (rule.library != (inputs.rccl ? "rccl" : "nccl")) continue;
        if (rule.shm_below_bytes && (!shm || *shm >= *rule.shm_below_bytes)) continue;
        if (profiles::version_in_range(version, rule.since, rule.until)) return &rule;
    }
    return nullptr;
}

struct Verdict {
    bool load = false;
    std::string reason;
    std::string source;
    bool on_demand = false;  ///< --measure=always would load it: nothing speaks against the version
};

/// By the table and --measure alone.
Verdict by_version(const Inputs& inputs) {
    const bool always = inputs.options.measure == Measure::always;
    const auto& version = inputs.machine.software.nccl_version;
    if (!version) {
        if (always)
            return {true, "loaded as asked (--measure=always): the version is not known", ""};
        return {false,
                fmt::format("the version of {} is not known (--measure=always loads the plugin "
                            "all the same)",
                            inputs.rccl ? "RCCL" : "NCCL"),
                "", true};
    }
    const profiles::ProfilerRule* rule = rule_for(inputs, *version);
    if (rule == nullptr) {
        const std::string unknown =
            fmt::format("{} is not in the table of known versions", library_text(inputs));
        if (always) return {true, "loaded as asked (--measure=always): " + unknown, ""};
        return {false, unknown + " (--measure=always loads the plugin all the same)", "", true};
    }
    if (rule->load) return {true, rule->reason, rule->source};
    const bool possible = profiles::compare_versions(*version, kFirstInterface) >= 0;
    if (always && possible)
        return {true, "loaded as asked (--measure=always) although " + rule->reason, rule->source};
    return {false, fmt::format("{}: {}", library_text(inputs), rule->reason), rule->source};
}

std::string measure_obstacle(const Inputs& inputs) {
    const Options& options = inputs.options;
    if (options.for_shell) return "a shell's jobs have no run directory for the records";
    if (options.measure == Measure::off) return "switched off (--no-measure)";
    if (user_has(inputs, kPlugin)) return fmt::format("{} is set already", kPlugin);
    if (std::find(options.leave.begin(), options.leave.end(), kPlugin) != options.leave.end())
        return fmt::format("{} is left alone as asked", kPlugin);
    if (options.plugin.empty()) return "the profiler plugin is not installed";
    if (!options.plugin.starts_with('/')) return "the plugin's path is not absolute";
    if (options.plugin.size() > kMaxPluginPath)
        return fmt::format("the plugin's path has {} characters, NCCL takes {}",
                           options.plugin.size(), kMaxPluginPath);
    if (!inputs.job.same_host)
        return not_here_text(inputs.job) + ": the plugin may be missing there";
    return "";
}

}  // namespace

MeasureDecision decide_measure(const Inputs& inputs) {
    MeasureDecision decision;
    const std::string nccl_default = "libnccl-profiler.so if there is one, else no profiler";
    decision.reason = measure_obstacle(inputs);
    std::string evidence = library_text(inputs);
    if (inputs.machine.limits.shm_bytes)
        evidence += fmt::format(", /dev/shm of {}", format_bytes(*inputs.machine.limits.shm_bytes));
    if (decision.reason.empty()) {
        Verdict verdict = by_version(inputs);
        if (!verdict.source.empty()) evidence += fmt::format("; {}", verdict.source);
        if (verdict.load) {
            decision.measures = true;
            decision.setting = settle(inputs, detected(kPlugin, inputs.options.plugin,
                                                       verdict.reason, evidence, nccl_default));
            return decision;
        }
        decision.reason = verdict.reason;
        decision.on_demand = verdict.on_demand;
    }
    decision.setting = settle(inputs, left_alone(kPlugin, decision.reason, evidence, nccl_default));
    return decision;
}

}  // namespace toporun::env
