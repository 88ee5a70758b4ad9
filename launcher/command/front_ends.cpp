// Programs that start torchrun for themselves, by name or as `python -m torch.distributed.run`, and
// tell it what variables say. Sources: LLaMA-Factory src/llamafactory/launcher.py (2b040c10);
// ms-swift swift/cli/main.py (01a14c18, 2fbbd6d1); XTuner xtuner/entry_point.py (041e96f6).
#include <fmt/format.h>

#include <algorithm>
#include <cctype>

#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

/// LLaMA-Factory's own reading of a switch (extras/misc.py, is_env_enabled).
bool is_enabled(const Environment& environment, const char* name) {
    std::string value = variable(environment, name);
    std::transform(value.begin(), value.end(), value.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return value == "true" || value == "y" || value == "1";
}

bool always_starts_torchrun(const Environment& environment) {
    for (const char* name : {"FORCE_TORCHRUN", "USE_MCA", "USE_MEGATRON_BRIDGE"})
        if (is_enabled(environment, name)) return true;
    return false;
}

/// Why LLaMA-Factory starts something else than torchrun; "" = it does not.
std::string starts_no_torchrun(const Environment& environment) {
    if (always_starts_torchrun(environment)) return {};
    for (const char* name : {"USE_RAY", "USE_KT"})
        if (is_enabled(environment, name))
            return fmt::format("with {} LLaMA-Factory starts no torchrun", name);
    return {};
}

std::optional<int> count_of(const Environment& environment, const char* name, int otherwise) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::optional(otherwise) : positive_count(found->second);
}

}  // namespace

Command recognise_front_end(Command command, const Site& site, const Environment& environment,
                            const Host& host) {
    command.job.launcher = command.family = site.kind;
    command.program_at = {site.word};
    if (site.kind == "llamafactory") {
        if (const std::string reason = starts_no_torchrun(environment); !reason.empty())
            return export_only(std::move(command), reason);
        if (!always_starts_torchrun(environment))
            command.alone_reason = "on a single GPU LLaMA-Factory trains in its own process";
    }
    command.job.same_host = true;
    Site torchrun = site;
    torchrun.path = host.find_executable("torchrun");
    torchrun.module = false;
    const std::string own = own_interpreter(site, host);
    command.interpreter = site.own_path.empty() ? script_python(torchrun.path, host) : "";
    command.program = command.interpreter;
    command.job.nodes = count_of(environment, "NNODES", 1);
    if (environment.contains("RDZV_ID") && environment.contains("MAX_NNODES"))
        command.job.nodes.reset();  // elastic
    command.job.ranks_per_node = count_of(environment, "NPROC_PER_NODE", 1);
    if (site.kind == "llamafactory" && !environment.contains("NPROC_PER_NODE")) {
        command.job.ranks_per_node.reset();
        command.job.ranks_word = command.ranks_word = "gpu";
    }
    command.job.rendezvous = variable(environment, site.kind == "xtuner" ? "ADDR" : "MASTER_ADDR");
    // Newer versions of swift start their own Python in place of the torchrun on PATH.
    if (site.kind == "swift" && own != command.interpreter)
        return export_only(std::move(command),
                           "swift and the torchrun on PATH have different Python interpreters");
    return by_python_exec(std::move(command), torchrun, host);
}

}  // namespace toporun::launcher
