#include "launcher/cli/node_words.hpp"

#include <fmt/format.h>

#include <map>
#include <string_view>

#include "base/text.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/site.hpp"

namespace toporun::launcher {
namespace {

/// Options of this run that hold on other hosts too.
void add_option_words(const Arguments& arguments, std::vector<std::string>& tell) {
    const env::Options& options = arguments.options;
    static const std::map<env::Bind, std::string> kBinds = {
        {env::Bind::numa, "numa"}, {env::Bind::core, "core"}, {env::Bind::none, "none"}};
    if (const auto bind = kBinds.find(options.bind); bind != kBinds.end())
        tell.push_back("option=--bind=" + bind->second);
    if (!options.log) tell.emplace_back("option=--no-log");
    if (options.take_log) tell.emplace_back("option=--take-log");
    if (options.measure == env::Measure::off) tell.emplace_back("option=--measure=off");
    if (options.measure == env::Measure::always) tell.emplace_back("option=--measure=always");
    for (const std::string& name : options.leave) tell.push_back("option=--leave=" + name);
    for (const std::string& file : arguments.profile_files)
        if (file.starts_with('/')) tell.push_back("option=--profile=" + file);
}

/// Ranks of Python that srun starts on nodes that are not known here.
bool reads_places_of_step(const Command& command) {
    return command.job.launcher == "srun" && command.first_host.name.empty() &&
           command.program_at.size() == 1 && is_python(base_name(command.program)) &&
           role_of(command.argv, command.program_at.front()) == Role::none;
}

}  // namespace

std::vector<std::string> words_for_nodes(const Prepared& prepared, const Arguments& arguments) {
    const env::Job& job = prepared.command.job;
    if (prepared.command.guard == Guard::toporun) return arguments.own_words;
    if (!job.other_hosts) return {};
    std::vector<std::string> tell = {std::string(kRunDirectoryWord).substr(sizeof "--tell=" - 1),
                                     "launcher=" + job.launcher};
    if (prepared.place.shared()) {
        tell.push_back("run=" + prepared.place.job);
        tell.push_back(fmt::format("hosts={}", *prepared.place.nodes));
    }
    if (job.nodes) tell.push_back(fmt::format("nodes={}", *job.nodes));
    if (job.open_mpi != 0) tell.push_back(fmt::format("open_mpi={}", job.open_mpi));
    if (job.user_binds) tell.emplace_back("user_binds=1");
    if (job.binding_given) tell.emplace_back("binding_given=1");
    if (job.cpu_job) tell.emplace_back("cpu_job=1");
    if (job.loader_workers) tell.push_back(fmt::format("loader_workers={}", *job.loader_workers));
    if (!prepared.command.program.empty()) tell.push_back("program=" + prepared.command.program);
    for (const env::Setting& setting : prepared.plan.settings) {
        if (!setting.exported || !setting.per_rank || !setting.value) continue;
        if (setting.name == "MASTER_ADDR") tell.push_back("master_addr=" + *setting.value);
        if (setting.name == "MASTER_PORT") tell.push_back("master_port=" + *setting.value);
    }
    if (prepared.command.ranks_here) tell.emplace_back("launcher_node=1");
    if (!job.gpu_bind.empty()) tell.push_back("gpu_bind=" + job.gpu_bind);
    if (!job.rank_gpus_unknown.empty() && !by_python(prepared.command.guard))
        tell.push_back("rank_gpus=" + job.rank_gpus_unknown);
    if (reads_places_of_step(prepared.command)) tell.emplace_back("places=1");
    add_option_words(arguments, tell);
    return tell;
}

}  // namespace toporun::launcher
