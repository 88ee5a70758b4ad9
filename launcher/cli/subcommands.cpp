#include "launcher/cli/subcommands.hpp"

#include <fmt/format.h>
#include <sys/stat.h>

#include <cerrno>
#include <cstdio>
#include <cstring>

#include "base/error.hpp"
#include "base/text.hpp"
#include "detect/machine_toml.hpp"
#include "env/settings_text.hpp"
#include "env/summary.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/command/options.hpp"
#include "launcher/report/json.hpp"
#include "launcher/report/machine_view.hpp"
#include "launcher/report/write_file.hpp"
#include "profiles/profile.hpp"

namespace toporun::launcher {
namespace {

void print(const std::string& text) {
    if (std::fwrite(text.data(), 1, text.size(), stdout) != text.size() || std::fflush(stdout) != 0)
        throw Error(fmt::format("cannot write to standard output: {}", std::strerror(errno)));
}

std::optional<int> slurm_number(const Environment& environment, const char* name) {
    const auto found = environment.find(name);
    if (found == environment.end()) return std::nullopt;
    return positive_count(found->second);
}

/// The job that `toporun env` decides for: nothing is known of its command line, and whatever the
/// shell starts afterwards starts on this host.
env::Job shell_job(const Arguments& arguments, const Environment& environment) {
    env::Job job;
    job.launcher = "shell";
    job.nodes =
        arguments.nodes ? arguments.nodes : slurm_number(environment, "SLURM_JOB_NUM_NODES");
    job.ranks_per_node = arguments.ranks_per_node
                             ? arguments.ranks_per_node
                             : slurm_number(environment, "SLURM_NTASKS_PER_NODE");
    job.same_host = true;
    return job;
}

bool exists(const std::string& path) {
    struct stat info {};
    return ::stat(path.c_str(), &info) == 0;
}

}  // namespace

int detect_command(const Arguments& arguments, const Console& console) {
    const detect::Machine machine = read_machine(arguments, environment_map(), {}, true);
    if (!arguments.save.empty()) {
        write_file(arguments.save, detect::machine_to_toml(machine));
        console.say(fmt::format("saved to {}; toporun detect --machine {} shows it", arguments.save,
                                shell_word(arguments.save)));
        if (!arguments.json) return 0;
    }
    print(arguments.json ? machine_json(machine) : machine_view(machine));
    return 0;
}

int env_command(const Arguments& arguments, const Console& console) {
    const std::string format = !arguments.format.empty() ? arguments.format
                               : arguments.json          ? "json"
                                                         : "sh";
    if (format != "sh" && format != "json" && format != "toml" && format != "slurm")
        throw Error(fmt::format("--format={} is not known", printable(format)), {},
                    "write sh, json, toml or slurm");
    const Environment environment = environment_map();
    const detect::Machine machine = read_machine(arguments, environment, {}, true);
    env::Options options = arguments.options;
    options.for_shell = true;
    const env::Plan plan = env::decide(
        shell_job(arguments, environment), machine, profiles::builtin_profiles(),
        profiles::builtin_profiler_versions(), read_user_environment(environment), options);
    if (arguments.explain)
        for (const std::string& line : env::explain_lines(plan)) console.say(line);
    print(format == "json"    ? settings_json(plan)
          : format == "toml"  ? env::settings_toml(plan)
          : format == "slurm" ? env::settings_slurm(plan)
                              : env::settings_sh(plan));
    return 0;
}

int report_command(const Arguments& arguments) {
    const std::string directory =
        arguments.positional.empty() ? "toporun/latest" : arguments.positional.front();
    if (!exists(directory))
        throw Error(arguments.positional.empty()
                        ? "no run is known here: toporun/latest is not there"
                        : fmt::format("'{}' is not there", printable(directory)),
                    {}, "name a run directory, or start where the run was started");
    const std::string file = directory + (arguments.json ? "/report.json" : "/report.txt");
    if (!exists(file))
        throw Error(fmt::format("no report in '{}'", printable(directory)), {},
                    "the run still goes on, or its observer ended before it wrote one");
    print(read_text_file(file));
    return 0;
}

}  // namespace toporun::launcher
