#include "env/log.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"

namespace toporun::env {
namespace {

constexpr std::array<const char*, 3> kNames = {"NCCL_DEBUG", "NCCL_DEBUG_SUBSYS",
                                               "NCCL_DEBUG_FILE"};
constexpr std::size_t kMaxLogPath = 1000;  // conf readers and old NCCL take 1023 characters

/// A directory as part of NCCL_DEBUG_FILE, where `%` starts a placeholder (NCCL src/debug.cc).
std::string escaped(const std::string& directory) {
    std::string out;
    for (const char c : directory) {
        out += c;
        if (c == '%') out += c;
    }
    return out;
}

std::string file_pattern(const Inputs& inputs) {
    const std::string& directory = inputs.options.log_directory;
    return fmt::format("{}{}nccl.{}%h.%p.log", escaped(directory),
                       directory.ends_with('/') ? "" : "/",
                       inputs.job.shim ? "{rank}.{restart}." : "");
}

/// BOOTSTRAP is a name since 2.21; 2.30.7 rejects a list with a name that it does not know.
std::string subsystems(const Inputs& inputs) {
    const bool bootstrap = inputs.nccl && *inputs.nccl >= 22100;
    return bootstrap ? "INIT,ENV,GRAPH,NET,BOOTSTRAP" : "INIT,ENV,GRAPH,NET";
}

/// The user's own log, where it goes to files of this host and holds what is needed (levels of NCCL
/// src/debug.cc, read without regard to case).
std::string followed_log(const Inputs& inputs) {
    std::string level = user_value(inputs, "NCCL_DEBUG").value_or("");
    std::transform(level.begin(), level.end(), level.begin(),
                   [](unsigned char c) { return static_cast<char>(std::toupper(c)); });
    if (level != "INFO" && level != "ABORT" && level != "TRACE") return {};
    if (!inputs.job.same_host) return {};
    return user_value(inputs, "NCCL_DEBUG_FILE").value_or("");
}

/// Why the log stays where it is; "" when it goes to our files.
std::string log_obstacle(const Inputs& inputs) {
    const Options& options = inputs.options;
    if (options.for_shell) return "a shell's jobs have no run directory for it";
    if (!options.log) return "switched off (--no-log)";
    std::vector<std::string> set;
    for (const char* name : kNames) {
        if (std::find(options.leave.begin(), options.leave.end(), name) != options.leave.end())
            return fmt::format(
                "{} is left alone as asked, and the three variables are one decision", name);
        if (user_has(inputs, name)) set.emplace_back(name);
    }
    if (!set.empty() && !options.take_log)
        return followed_log(inputs).empty()
                   ? fmt::format(
                         "{} set already, so what NCCL does is not known (--take-log replaces "
                         "the setting for this run)",
                         join(set, ", "))
                   : fmt::format("{} set already: that log is read at the end", join(set, ", "));
    if (options.log_directory.empty()) return "there is no directory for it";
    if (!inputs.job.same_host)
        return not_here_text(inputs.job) + ": the directory may be missing there";
    if (file_pattern(inputs).size() > kMaxLogPath) return "the path of the directory is too long";
    return "";
}

std::string default_of(const std::string& name, const Inputs& inputs) {
    if (name == "NCCL_DEBUG") return "no log";
    if (name == "NCCL_DEBUG_FILE") return "the log goes to stdout";
    if (!inputs.nccl || *inputs.nccl >= 22300) return "INIT,BOOTSTRAP,ENV";
    return *inputs.nccl >= 21600 ? "INIT,ENV" : "INIT";
}

}  // namespace

LogDecision decide_log(const Inputs& inputs) {
    LogDecision decision;
    decision.reason = log_obstacle(inputs);
    decision.takes_log = decision.reason.empty();
    if (!decision.takes_log && !inputs.options.for_shell && inputs.options.log)
        decision.followed = followed_log(inputs);
    const std::array<std::string, 3> values = {"INFO", subsystems(inputs), file_pattern(inputs)};
    for (std::size_t i = 0; i < kNames.size(); ++i) {
        const std::string name = kNames[i];
        if (!decision.takes_log) {
            decision.settings.push_back(
                settle(inputs, left_alone(name, decision.reason, "", default_of(name, inputs))));
            continue;
        }
        Setting setting = detected(
            name, values[i],
            "what NCCL really did is read from its log: a file per process, and no line a call",
            fmt::format("none of the three is set; {}", library_text(inputs)),
            default_of(name, inputs));
        if (const auto own = user_value(inputs, name))
            setting.evidence = fmt::format("replaces {} as asked (--take-log)", *own);
        setting.exported = true;
        setting.replaces = inputs.options.take_log;
        setting.per_rank = inputs.job.shim;
        decision.settings.push_back(std::move(setting));
    }
    return decision;
}

}  // namespace toporun::env
