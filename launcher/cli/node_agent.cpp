#include "launcher/cli/node_agent.hpp"

#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <bit>
#include <ctime>
#include <exception>
#include <map>

#include "base/text.hpp"
#include "launcher/cli/prepare.hpp"
#include "launcher/command/families.hpp"
#include "launcher/process/node_observer.hpp"
#include "launcher/process/run_directory.hpp"
#include "launcher/process/run_watch.hpp"
#include "launcher/version.hpp"

namespace toporun::launcher {
namespace {

using WordMap = std::map<std::string, std::string, std::less<>>;

std::string told_text(const WordMap& words, std::string_view key) {
    const auto found = words.find(key);
    return found == words.end() ? std::string() : found->second;
}

std::optional<int> told_count(const WordMap& words, std::string_view key) {
    const auto number = to_integer(told_text(words, key));
    if (!number || *number < 0 || *number > 1'000'000) return std::nullopt;
    return static_cast<int>(*number);
}

env::Job told_job(const WordMap& words, const std::string& ranks) {
    env::Job job;
    job.launcher = told_text(words, "launcher");
    job.nodes = told_count(words, "nodes");
    if (const auto number = to_integer(ranks); number && *number > 0 && *number <= 1'000'000)
        job.ranks_per_node = static_cast<int>(*number);
    job.open_mpi = told_count(words, "open_mpi").value_or(0);
    job.user_binds = !told_text(words, "user_binds").empty();
    job.binding_given = !told_text(words, "binding_given").empty();
    job.cpu_job = !told_text(words, "cpu_job").empty();
    job.loader_workers = told_count(words, "loader_workers");
    job.gpu_bind = told_text(words, "gpu_bind");
    job.rank_gpus_unknown = told_text(words, "rank_gpus");
    job.same_host = job.shim = job.other_hosts = true;
    return job;
}

std::size_t allowed_cpus() {
    // A mask of the kernel's largest number of CPUs (CONFIG_NR_CPUS with MAXSMP).
    std::array<unsigned char, 1024> mask{};
    const long size = ::syscall(SYS_sched_getaffinity, 0, mask.size(), mask.data());
    std::size_t count = 0;
    for (long i = 0; i < size; ++i)
        count += static_cast<std::size_t>(std::popcount(mask[static_cast<std::size_t>(i)]));
    return count;
}

/// Slurm binds each task of a step to CPUs of its own, or to some of the node's: this process has
/// those of the first. Then they are what every rank has, and nothing is divided.
void read_step_binding(env::Job& job, const Environment& environment, std::size_t cpus) {
    job.task_of_step = true;
    const auto here = to_integer(variable(environment, "SLURM_CPUS_ON_NODE"));
    const std::vector<std::string> masks = split(variable(environment, "SLURM_CPU_BIND_LIST"), ',');
    const bool differ = std::any_of(masks.begin(), masks.end(),
                                    [&](const std::string& mask) { return mask != masks.front(); });
    if (differ || (here && static_cast<long long>(cpus) < *here)) job.user_binds = true;
}

RunFacts node_facts(const Prepared& prepared, const std::string& run_directory) {
    RunFacts facts;
    facts.tool_version = kVersion;
    facts.command = prepared.command.argv;
    facts.job = prepared.command.job;
    facts.rewrite = rewrite_text(Rewrite::inserted);
    facts.machine = prepared.machine;
    facts.plan = prepared.plan;
    facts.run_directory = run_directory;
    facts.start_utc = utc_iso(std::time(nullptr));
    facts.warnings = prepared.problems;
    facts.notes = prepared.launch.notes;
    return facts;
}

int act_as_agent(const std::vector<std::string>& words) {
    if (words.size() < 3) return 1;
    const std::string& directory = words[1];
    WordMap map;
    std::vector<std::string> options;
    for (std::size_t i = 3; i < words.size(); ++i) {
        const std::size_t equals = words[i].find('=');
        if (equals == std::string::npos) continue;
        if (words[i].starts_with("option="))
            options.push_back(words[i].substr(equals + 1));
        else
            map[words[i].substr(0, equals)] = words[i].substr(equals + 1);
    }
    options.insert(options.end(), {"--", "ranks"});
    const Environment environment = environment_map();
    const SystemHost host(environment);
    ToldToNode told{told_job(map, words[2]), told_text(map, "program"),
                    told_text(map, "master_addr"), told_count(map, "master_port").value_or(0),
                    !told_text(map, "places").empty()};
    const bool step = told.job.launcher == "srun";
    if (step) read_step_binding(told.job, environment, allowed_cpus());
    const Prepared prepared =
        prepare_node(parse_arguments(options, environment), told, directory, environment, host);
    if (::access((directory + "/" + kShimPlanFile).c_str(), F_OK) != 0) return 1;
    std::string run_directory = told_text(map, "run_directory");
    if (!run_directory.starts_with('/')) run_directory.clear();  // the observer stands in /
    ObserverTask task;
    task.facts = node_facts(prepared, run_directory);
    task.private_directory = directory;
    task.run_directory = run_directory;
    task.place.job = told_text(map, "run");
    task.place.nodes = told_count(map, "hosts");
    task.place.name = prepared.machine.hostname;
    if (step) {
        // The launcher's host is node 0, whether it is one of the step or not.
        const int first = told_text(map, "launcher_node").empty() ? 1 : 0;
        const auto node = to_integer(variable(environment, "SLURM_NODEID"));
        if (node && *node >= 0 && *node < 1 << 20)
            task.place.node = static_cast<int>(*node) + first;
        if (const std::string name = variable(environment, "SLURMD_NODENAME"); !name.empty())
            task.place.name = name;
    }
    task.silent = true;
    leave_node_observer(std::move(task),
                        static_cast<std::size_t>(prepared.command.job.ranks_per_node.value_or(0)));
    return 0;
}

}  // namespace

int node_agent(const std::vector<std::string>& words) {
    try {
        return act_as_agent(words);
    } catch (const std::exception&) {
        return 1;
    }
}

}  // namespace toporun::launcher
