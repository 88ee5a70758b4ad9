// Launchers of sites that start any program: horovodrun, flux run, jsrun.
#include "base/text.hpp"
#include "launcher/command/contexts.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/places.hpp"
#include "launcher/command/python_tables.hpp"

namespace toporun::launcher {
namespace {

Context only_context(const Command& command, const Site& site, const OptionTable& table) {
    return {scan_options(command.argv, site.first, command.argv.size(), table),
            command.argv.size()};
}

}  // namespace

Command recognise_horovodrun(Command command, const Site& site, const Host& host) {
    command.job.launcher = command.family = "horovodrun";
    const std::vector<Context> contexts = {only_context(command, site, kHorovodOptions)};
    const Scan& scan = contexts.front().scan;
    if (const std::string problem = contexts_problem(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    Places places;
    if (const Given* given = last_given(scan, Meaning::hosts)) add_host_list(places, given->value);
    if (const Given* given = last_given(scan, Meaning::host_file))
        add_host_file(places, given->value, false, host);
    places.unknown = places.unknown || last_given(scan, Meaning::elsewhere) != nullptr;
    const auto total = given_count(scan, Meaning::total_ranks);
    const bool several = !places.unknown && places.order.size() > 1;
    const auto each = several && total ? fill_by_slot(places, *total) : std::nullopt;
    const std::string away = settle_places(command.job, places, host);
    const auto nodes = static_cast<int>(distinct_hosts(places.hosts, host).size());
    if (!places.unknown) command.job.nodes = std::max(nodes, 1);
    if (several)
        command.job.ranks_per_node = each;
    else if (total && command.job.nodes && *total % *command.job.nodes == 0)
        command.job.ranks_per_node = *total / *command.job.nodes;
    command.job.user_binds = command.job.binding_given =
        last_given(scan, Meaning::binds) != nullptr;
    command = add_programs(std::move(command), contexts, host);
    if (!away.empty())
        return insert_shim_on_hosts(std::move(command), site, program_words(contexts), host, away);
    return insert_shim(std::move(command), site, program_words(contexts), host);
}

Command recognise_flux(Command command, const Site& site, const Environment& environment,
                       const Host& host) {
    command.job.launcher = command.family = "flux";
    const std::vector<Context> contexts = {only_context(command, site, kFluxOptions)};
    const Scan& scan = contexts.front().scan;
    if (const std::string problem = contexts_problem(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    bool affinity_given = false;
    for (const Given& given : scan.given) {
        if (given.meaning != Meaning::shell_option || !given.value.starts_with("cpu-affinity"))
            continue;
        affinity_given = true;
        command.job.binding_given = true;
        command.job.user_binds = given.value != "cpu-affinity=off";
    }
    if (const Given* given = last_given(scan, Meaning::gpu_bind))
        command.job.gpu_bind = "--gpus-per-task=" + given->value;
    // The nodes of the instance that this job of Flux itself runs in (flux-environment(7)).
    const bool one_node = variable(environment, "FLUX_JOB_NNODES") == "1";
    command.job.same_host = one_node;
    command.job.nodes = given_count(scan, Meaning::nodes);
    if (!command.job.nodes && one_node) command.job.nodes = 1;
    command.job.ranks_per_node = given_count(scan, Meaning::ranks_per_node);
    const auto total = given_count(scan, Meaning::total_ranks);
    if (!command.job.ranks_per_node && total && command.job.nodes &&
        *total % *command.job.nodes == 0)
        command.job.ranks_per_node = *total / *command.job.nodes;
    command = add_programs(std::move(command), contexts, host);
    if (!one_node)
        return export_only(std::move(command), "the hosts of the ranks are not known here");
    command = insert_shim(std::move(command), site, program_words(contexts), host);
    // Flux gives each task all cores of the job; without it toporun chooses inside them.
    if (command.rewrite == Rewrite::inserted && !affinity_given)
        command.edits.push_back({site.first, false, {"-o", "cpu-affinity=off"}, false, {}, true});
    return command;
}

Command recognise_jsrun(Command command, const Site& site, const Host& host) {
    command.job.launcher = command.family = "jsrun";
    const std::vector<Context> contexts = {only_context(command, site, kJsrunOptions)};
    if (const std::string problem = contexts_problem(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    command = add_programs(std::move(command), contexts, host);
    command.program.clear();  // jsrun is started where no rank runs
    return export_only(std::move(command), "jsrun starts the ranks on other hosts");
}

}  // namespace toporun::launcher
