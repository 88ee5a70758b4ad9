#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/host_list.hpp"
#include "launcher/command/contexts.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/openmpi_tables.hpp"
#include "launcher/command/places.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {
namespace {

std::string lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

bool has_any(std::string_view text, std::initializer_list<std::string_view> words) {
    return std::any_of(words.begin(), words.end(),
                       [&](std::string_view word) { return text.find(word) != text.npos; });
}

/// Whether a mapping policy, or a parameter's name and value, may put rank 0 on another host than
/// the first: sequential, by a file, none on the own host.
bool places_first_rank(const std::string& text) {
    const std::string lower = lower_case(text);
    return has_any(lower, {"seq", "nolocal", "rankfile", "rank_file", "no_schedule_local"});
}

/// MCA parameters from where Open MPI reads them: command line, environment, the user's file, the
/// site's file.
class Parameters {
  public:
    Parameters(const std::vector<Context>& contexts, const Environment& environment,
               const std::string& executable, const Host& host) {
        for (const std::string& file : files(environment, executable, host)) read_file(file, host);
        for (const auto& [name, value] : environment)
            for (const std::string_view prefix : {"OMPI_MCA_", "PRTE_MCA_", "PMIX_MCA_"})
                if (name.starts_with(prefix)) set_[name.substr(prefix.size())] = value;
        for (const Context& context : contexts)
            for (const Given& given : context.scan.given)
                if (given.meaning == Meaning::parameter) set_[given.value] = given.second;
    }

    /// The first of `names` that is set; "" when none is.
    std::string first(std::initializer_list<const char*> names) const {
        for (const char* name : names)
            if (const std::string value = variable(set_, name); !value.empty()) return value;
        return {};
    }

    /// A parameter that may say where rank 0 starts, "" for none.
    std::string placing() const {
        for (const auto& [name, value] : set_)
            if (has_any(name, {"rmaps", "rankfile"}) && places_first_rank(name + "=" + value))
                return name;
        return {};
    }

  private:
    /// Weakest first.
    static std::vector<std::string> files(const Environment& environment,
                                          const std::string& executable, const Host& host) {
        const std::string home = variable(environment, "HOME");
        const std::string real = host.real_path(executable);
        const std::string prefix = real.substr(0, real.rfind("/bin/"));
        std::vector<std::string> list = {"/etc/openmpi/openmpi-mca-params.conf",
                                         prefix + "/etc/openmpi-mca-params.conf",
                                         prefix + "/etc/prte-mca-params.conf"};
        if (!home.empty()) list.push_back(home + "/.openmpi/mca-params.conf");
        if (!home.empty()) list.push_back(home + "/.prte/mca-params.conf");
        return list;
    }

    void read_file(const std::string& path, const Host& host) {
        for (const std::string& line : split(host.read_file(path, kListBytes).value_or(""), '\n')) {
            const std::size_t equals = line.find('=');
            const std::string name(trim(std::string_view(line).substr(0, equals)));
            if (equals == std::string::npos || name.empty() || name[0] == '#') continue;
            set_[name] = trim(std::string_view(line).substr(equals + 1));
        }
    }

    Environment set_;
};

Places read_places(const std::vector<Context>& contexts, const Parameters& parameters,
                   const Environment& environment, const Host& host) {
    Places places;
    bool named = false;
    for (const Context& context : contexts) {
        for (const Given& given : context.scan.given) {
            if (given.meaning == Meaning::hosts) add_host_list(places, given.value);
            if (given.meaning == Meaning::rank_file) add_host_file(places, given.value, true, host);
            if (given.meaning == Meaning::host_file) {
                places.unknown = places.unknown || given.name == "nolocal";
                if (given.name != "nolocal") add_host_file(places, given.value, false, host);
            }
            named = named || given.meaning == Meaning::hosts || given.meaning == Meaning::host_file;
        }
    }
    if (named) return places;
    add_allocation(places, environment, host);
    const std::string file = parameters.first({"orte_default_hostfile", "prte_default_hostfile"});
    if (!file.empty() && file != "none") add_host_file(places, file, false, host);
    if (file.empty() && host.read_file("/etc/openmpi/openmpi-default-hostfile", 1))
        add_host_file(places, "/etc/openmpi/openmpi-default-hostfile", false, host);
    const std::string ranks =
        parameters.first({"orte_rankfile", "rmaps_rank_file_path", "rmaps_default_file"});
    if (!ranks.empty()) add_host_file(places, ranks, true, host);
    return places;
}

/// Hydra (MPICH, Intel MPI) without hosts starts its ranks here, unless a resource manager or a
/// variable names some.
Places hydra_places(const std::vector<Context>& contexts, const Environment& environment,
                    const Host& host) {
    Places places;
    bool named = false;
    for (const Context& context : contexts) {
        for (const Given& given : context.scan.given) {
            if (given.meaning == Meaning::hosts) add_host_list(places, given.value);
            if (given.meaning == Meaning::host_file) {
                places.unknown = places.unknown || given.name == "nolocal";
                if (given.name != "nolocal") add_host_file(places, given.value, false, host);
            }
            places.unknown = places.unknown || given.meaning == Meaning::elsewhere;
            named = named || given.meaning == Meaning::hosts || given.meaning == Meaning::host_file;
        }
    }
    if (named) return places;
    add_allocation(places, environment, host);
    for (const char* name : {"HYDRA_HOST_FILE", "I_MPI_HYDRA_HOST_FILE"})
        if (const std::string file = variable(environment, name); !file.empty())
            add_host_file(places, file, false, host);
    return places;
}

/// The N of `ppr:N:node`.
std::optional<int> ranks_per_node_of(const std::string& policy) {
    const std::vector<std::string> parts = split(policy, ':');
    if (parts.size() < 3 || parts[0] != "ppr" || parts[2].substr(0, 4) != "node")
        return std::nullopt;
    return positive_count(parts[1]);
}

/// `--map-by node`, `--bynode`: round the hosts; or a rank file.
bool is_divided(const Scan& scan) {
    if (last_given(scan, Meaning::rank_file) != nullptr) return true;
    const Given* given = last_given(scan, Meaning::map_policy);
    return given != nullptr && (given->name == "bynode" || given->value.starts_with("node"));
}

/// The ranks that one node gets; nothing when the launcher decides by slots (`by_slot`).
std::optional<int> ranks_of(const Scan& scan, const Places& places, bool by_slot) {
    const auto nodes = static_cast<int>(std::max<std::size_t>(places.hosts.size(), 1));
    const Given* total = last_given(scan, Meaning::total_ranks);
    const auto count = total == nullptr ? std::nullopt : positive_count(total->value);
    if (count && nodes == 1) return count;
    if (const Given* given = last_given(scan, Meaning::ranks_per_node))
        return positive_count(given->value);
    if (last_given(scan, Meaning::one_rank_per_node) != nullptr) return 1;
    if (const Given* given = last_given(scan, Meaning::map_policy))
        if (const auto ranks = ranks_per_node_of(given->value)) return ranks;
    if (count && *count % nodes == 0 && (!by_slot || is_divided(scan))) return *count / nodes;
    return total == nullptr && nodes == 1 ? places.slots : std::nullopt;
}

/// Open MPI's ranks of one context where no option divides them: the hosts take their slots in
/// order (mpirun(1), --map-by). `policy`: the parameter for it.
std::optional<int> ranks_by_slot(Places& places, const std::vector<Context>& contexts,
                                 const std::string& policy) {
    if (contexts.size() != 1 || places.unknown || places.order.size() < 2) return std::nullopt;
    const Scan& scan = contexts.front().scan;
    for (const Meaning other :
         {Meaning::ranks_per_node, Meaning::one_rank_per_node, Meaning::rank_file})
        if (last_given(scan, other) != nullptr) return std::nullopt;
    if (const Given* map = last_given(scan, Meaning::map_policy);
        map != nullptr && map->name != "byslot" && map->value != "slot")
        return std::nullopt;
    const auto total = given_count(scan, Meaning::total_ranks);
    return total && policy.empty() ? fill_by_slot(places, *total) : std::nullopt;
}

/// Hydra gives each host its -ppn ranks until the total is reached.
void leave_out_hosts(Places& places, const std::vector<Context>& contexts) {
    if (contexts.size() != 1 || places.unknown) return;
    const auto each = given_count(contexts.front().scan, Meaning::ranks_per_node);
    const auto total = given_count(contexts.front().scan, Meaning::total_ranks);
    if (!each || !total) return;
    const auto used = static_cast<std::size_t>((*total + *each - 1) / *each);
    if (used >= places.order.size()) return;
    places.order.resize(used);
    places.hosts = {places.order.begin(), places.order.end()};
}

/// The hosts of a Slurm allocation, in its order; empty where there is none.
std::vector<std::string> allocated_hosts(const Environment& environment) {
    if (variable(environment, "SLURM_JOB_ID").empty()) return {};
    try {
        return env::expand_host_list(variable(environment, "SLURM_JOB_NODELIST"));
    } catch (const Error&) {
        return {};  // somebody's variable
    }
}

/// Open MPI takes the host that it is started on first, whatever the place that it has in a list,
/// then the list in its order (seen with 4.1.4; ompi#13199). Hydra keeps the order.
FirstHost read_first_host(const std::vector<Context>& contexts, const Places& places,
                          const Environment& environment, const Host& host, bool own_host_first) {
    FirstHost first;
    bool named = false;
    for (const Context& context : contexts) {
        for (const Given& given : context.scan.given) {
            const bool places_ranks =
                given.meaning == Meaning::rank_file || given.name == "order-nodes" ||
                (given.meaning == Meaning::map_policy && places_first_rank(given.value));
            if (places_ranks)
                first.unknown = fmt::format("'{}' says where rank 0 starts", given.name);
            named = named || given.meaning == Meaning::hosts || given.meaning == Meaning::host_file;
        }
    }
    const std::vector<std::string> hosts =
        places.unknown && !named ? allocated_hosts(environment) : places.order;
    if (first.unknown.empty() && (hosts.empty() || (places.unknown && named)))
        first.unknown = "the hosts of the ranks are not known here";
    if (!first.unknown.empty()) return first;
    const std::string node = variable(environment, "SLURMD_NODENAME");
    const auto is_here = [&](const std::string& name) {
        return is_this_host(name, host) || (!named && !node.empty() && name == node);
    };
    const auto here = std::find_if(hosts.begin(), hosts.end(), is_here);
    first.name = own_host_first && here != hosts.end() ? *here : hosts.front();
    first.here = here != hosts.end() && *here == first.name;
    return first;
}

env::Job read_counts(env::Job job, const std::vector<Context>& contexts, const Places& places,
                     bool by_slot) {
    if (!places.unknown)
        job.nodes = static_cast<int>(std::max<std::size_t>(places.hosts.size(), 1));
    int sum = 0;
    for (const Context& context : contexts) {
        const auto ranks = places.unknown ? std::nullopt : ranks_of(context.scan, places, by_slot);
        if (!ranks) return job;
        sum += *ranks;
    }
    job.ranks_per_node = sum;
    return job;
}

/// Binding as the options and parameters ask for it.
struct Binding {
    bool given = false;  ///< something says how to bind
    bool binds = false;  ///< ... and it is not "none"
};

void add_policy(Binding& binding, const std::string& policy) {
    if (policy.empty()) return;
    binding.given = true;
    binding.binds = binding.binds || !lower_case(policy).starts_with("none");
}

Binding read_binding(const std::vector<Context>& contexts, const Parameters& parameters) {
    Binding binding;
    const auto binds_by_map = [](const std::string& policy) {
        return lower_case(policy).find("pe=") != std::string::npos ||
               lower_case(policy).find("pe-list=") != std::string::npos;
    };
    for (const Context& context : contexts) {
        for (const Given& given : context.scan.given) {
            if (given.meaning == Meaning::bind_policy) add_policy(binding, given.value);
            if (given.meaning == Meaning::binds || given.meaning == Meaning::rank_file ||
                (given.meaning == Meaning::map_policy && binds_by_map(given.value)))
                binding = {true, true};
        }
    }
    if (binding.given) return binding;
    add_policy(binding,
               parameters.first({"hwloc_base_binding_policy", "hwloc_default_binding_policy"}));
    const std::string map =
        parameters.first({"rmaps_base_mapping_policy", "rmaps_default_mapping_policy"});
    const std::string fixed = parameters.first(
        {"orte_rankfile", "rmaps_rank_file_path", "rmaps_default_file", "rmaps_base_cpus_per_rank",
         "hwloc_base_cpu_list", "hwloc_base_cpu_set", "hwloc_default_cpu_list"});
    if (!fixed.empty() || binds_by_map(map)) binding = {true, true};
    return binding;
}

/// What Open MPI counts before it starts ranks, as options of pre-flight's: `np` and `slots`, a
/// number or "cores". Without `slots` where more ranks than slots are allowed or the number is not
/// certain (mpirun(1), "Definition of slot"; orte/mca/ras/slurm, rmaps_base_support_fns.c).
LauncherOptions slots_of(const std::vector<Context>& contexts, const Places& places,
                         const Parameters& parameters, const Environment& environment) {
    LauncherOptions options{"openmpi", {}};
    const Scan& scan = contexts.front().scan;
    const Given* total = last_given(scan, Meaning::total_ranks);
    if (contexts.size() != 1 || total == nullptr) return options;
    options.given = {{"np", Meaning::other, total->value, "", total->at, total->words}};
    const auto oversubscribes = [](const std::string& text) {
        return has_any(lower_case(text), {"oversub", "pe=", "ppr"});
    };
    bool hosts = false;
    for (const Given& given : scan.given) {
        hosts = hosts || given.meaning == Meaning::hosts || given.meaning == Meaning::host_file;
        if (given.name == "oversubscribe" || given.name == "use-hwthread-cpus" ||
            given.meaning == Meaning::rank_file || oversubscribes(given.value + given.second))
            return options;
        if (given.meaning == Meaning::parameter && has_any(given.value, {"ras", "rmaps", "slots"}))
            return options;
    }
    for (const char* name :
         {"rmaps_base_oversubscribe", "rmaps_base_mapping_policy", "rmaps_default_mapping_policy",
          "orte_rankfile", "rmaps_rank_file_path", "ras", "orte_set_default_slots",
          "prte_set_default_slots", "hwloc_use_hwthreads_as_cpus", "orte_default_hostfile",
          "prte_default_hostfile", "ras_slurm_use_entire_allocation"})
        if (!parameters.first({name}).empty()) return options;
    for (const char* name : {"PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE", "LSB_HOSTS",
                             "FLUX_JOB_ID", "COBALT_NODEFILE"})
        if (!variable(environment, name).empty()) return options;
    const auto add = [&](const std::string& number, const std::string& words) {
        options.given.push_back({"slots", Meaning::other, number, "", 0, words});
    };
    if (!variable(environment, "SLURM_JOB_ID").empty()) {
        const std::string tasks = variable(environment, "SLURM_TASKS_PER_NODE");
        const auto slots = tasks_on_all_nodes(tasks);
        if (!hosts && slots) add(fmt::to_string(*slots), "SLURM_TASKS_PER_NODE=" + tasks);
    } else if (hosts) {
        int slots = 0;
        for (const std::string& name : places.order) {
            const auto found = places.slots_of.find(name);
            if (found == places.slots_of.end()) return options;
            slots += found->second;
        }
        if (places.unknown || slots == 0) return options;
        add(fmt::to_string(slots), "of the hosts that the line names");
    } else if (places.order.empty() && !places.unknown) {
        add("cores", "no hosts and no slots are named");
    }
    return options;
}

}  // namespace

Command recognise_openmpi(Command command, const Site& site, int major,
                          const Environment& environment, const Host& host) {
    command.job.launcher = "openmpi";
    command.family = major >= 5 ? "openmpi5" : "openmpi4";
    command.job.open_mpi = major;
    const std::vector<Context> contexts =
        read_contexts(command.argv, site.first, major >= 5 ? kOpenMpi5Options : kOpenMpi4Options);
    const Parameters parameters(contexts, environment, site.path, host);
    if (const std::string problem = contexts_problem(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    Places places = read_places(contexts, parameters, environment, host);
    command.launchers.push_back(slots_of(contexts, places, parameters, environment));
    const auto each = ranks_by_slot(
        places, contexts,
        parameters.first({"rmaps_base_mapping_policy", "rmaps_default_mapping_policy"}));
    const std::string away = settle_places(command.job, places, host);
    if (!away.empty())
        command.first_host = read_first_host(contexts, places, environment, host, true);
    if (const std::string name = parameters.placing(); !away.empty() && !name.empty()) {
        command.first_host = {};
        command.first_host.unknown = fmt::format("'{}' says where rank 0 starts", printable(name));
    }
    places.hosts = distinct_hosts(places.hosts, host);
    command.job = read_counts(std::move(command.job), contexts, places, true);
    if (each) command.job.ranks_per_node = each;
    const Binding binding = read_binding(contexts, parameters);
    command.job.binding_given = binding.given;
    command.job.user_binds = binding.binds;
    add_assignments(command.given.set, parameters.first({"mca_base_env_list"}), ';');
    command = add_programs(std::move(command), contexts, host);
    if (contexts.size() == 1)
        forget_one_rank(command.job, command.argv, contexts.front().scan.program, host);
    if (!away.empty())
        return insert_shim_on_hosts(std::move(command), site, program_words(contexts), host, away);
    return insert_shim(std::move(command), site, program_words(contexts), host);
}

Command recognise_hydra(Command command, const Site& site, const Environment& environment,
                        const Host& host) {
    command.job.launcher = "hydra";
    command.family = "hydra";
    const std::vector<Context> contexts = read_contexts(command.argv, site.first, kHydraOptions);
    if (const std::string problem = contexts_problem(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    Places places = hydra_places(contexts, environment, host);
    leave_out_hosts(places, contexts);
    const std::string away = settle_places(command.job, places, host);
    if (!away.empty())
        command.first_host = read_first_host(contexts, places, environment, host, false);
    places.hosts = distinct_hosts(places.hosts, host);
    command.job = read_counts(std::move(command.job), contexts, places, false);
    for (const Context& context : contexts) {
        const Given* policy = last_given(context.scan, Meaning::bind_policy);
        command.job.binding_given = command.job.binding_given || policy != nullptr;
        command.job.user_binds =
            command.job.user_binds || (policy != nullptr && policy->value != "none");
        command.drops_variables = command.drops_variables ||
                                  last_given(context.scan, Meaning::narrows_variables) != nullptr;
    }
    command = add_programs(std::move(command), contexts, host);
    if (contexts.size() == 1)
        forget_one_rank(command.job, command.argv, contexts.front().scan.program, host);
    if (!away.empty())
        return insert_shim_on_hosts(std::move(command), site, program_words(contexts), host, away);
    return insert_shim(std::move(command), site, program_words(contexts), host);
}

}  // namespace toporun::launcher
