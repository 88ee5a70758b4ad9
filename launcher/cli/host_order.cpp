#include "launcher/cli/host_order.hpp"

#include <filesystem>

#include "base/error.hpp"
#include "env/host_list.hpp"
#include "launcher/command/families.hpp"

namespace toporun::launcher {
namespace {

/// SLURM_STEP_NODELIST is the step's part of the job's list.
std::vector<std::string> slurm_hosts(const Environment& environment) {
    for (const char* name : {"SLURM_STEP_NODELIST", "SLURM_JOB_NODELIST"}) {
        const std::string list = variable(environment, name);
        if (list.empty()) continue;
        try {
            return env::expand_host_list(list);
        } catch (const Error&) {
            return {};  // somebody's variable: nothing is known of the hosts
        }
    }
    return {};
}

/// Slurm's own file, where it can be read.
std::string slurm_topology(const Environment& environment) {
    const std::string conf = variable(environment, "SLURM_CONF");
    const std::filesystem::path folder = conf.empty() ? std::filesystem::path("/etc/slurm")
                                                      : std::filesystem::path(conf).parent_path();
    const std::filesystem::path file = folder / "topology.conf";
    std::error_code error;
    return std::filesystem::is_regular_file(file, error) ? file.string() : "";
}

bool first_task(const Environment& environment) {
    const std::string task = variable(environment, "SLURM_PROCID");
    return variable(environment, "SLURM_STEP_ID").empty() || task.empty() || task == "0";
}

}  // namespace

void read_host_order(const Arguments& arguments, const Environment& environment, env::Job& job,
                     env::Options& options) {
    if (job.hosts.empty()) job.hosts = slurm_hosts(environment);
    const bool named = !arguments.host_order.empty();
    if (!first_task(environment) || (!named && job.hosts.size() < 2)) return;
    const std::string file = named ? arguments.host_order : slurm_topology(environment);
    if (file.empty()) return;
    try {
        options.host_places = env::read_host_places(read_text_file(file), file);
        options.host_places_file = file;
    } catch (const Error&) {
        if (named) throw;
        return;
    }
    if (job.hosts.empty())
        for (const auto& [host, place] : options.host_places->places) job.hosts.push_back(host);
}

}  // namespace toporun::launcher
