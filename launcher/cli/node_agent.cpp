#include "launcher/cli/node_agent.hpp"

#include <unistd.h>

#include <ctime>
#include <exception>
#include <map>

#include "base/text.hpp"
#include "launcher/cli/prepare.hpp"
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
    job.same_host = job.shim = job.other_hosts = true;
    return job;
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
    const Prepared prepared =
        prepare_node(parse_arguments(options, environment),
                     {told_job(map, words[2]), told_text(map, "program"),
                      told_text(map, "master_addr"), told_count(map, "master_port").value_or(0)},
                     directory, environment, host);
    if (::access((directory + "/" + kShimPlanFile).c_str(), F_OK) != 0) return 1;
    const std::string run_directory = told_text(map, "run_directory");
    ObserverTask task;
    task.facts = node_facts(prepared, run_directory);
    task.private_directory = directory;
    task.run_directory = run_directory;
    task.place.job = told_text(map, "run");
    task.place.nodes = told_count(map, "hosts");
    task.place.name = prepared.machine.hostname;
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
