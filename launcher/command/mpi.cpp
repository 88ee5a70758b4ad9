#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>
#include <set>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/openmpi_tables.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

constexpr std::size_t kListBytes = 1 << 20;  ///< of a host file

/// An application context: its options and its program.
struct Context {
    Scan scan;
    std::size_t end = 0;  ///< the word behind its last one: `:` or the end
};

/// Contexts are separated by a word that is exactly `:`.
std::vector<Context> read_contexts(const std::vector<std::string>& argv, const OptionTable& table) {
    std::vector<Context> contexts;
    for (std::size_t first = 1; first <= argv.size();) {
        const auto colon =
            std::find(argv.begin() + static_cast<std::ptrdiff_t>(first), argv.end(), ":");
        const auto end = static_cast<std::size_t>(colon - argv.begin());
        contexts.push_back({scan_options(argv, first, end, table), end});
        if (end == argv.size()) break;
        first = end + 1;
    }
    return contexts;
}

std::string problem_of(const std::vector<Context>& contexts) {
    for (const Context& context : contexts) {
        if (!context.scan.problem.empty()) return context.scan.problem;
        if (last_given(context.scan, Meaning::no_launch) != nullptr)
            return "the launcher only prints its help or its version";
        if (const Given* given = last_given(context.scan, Meaning::opaque))
            return fmt::format(
                "the launcher's option '{}' leaves no place for toporun before the ranks",
                given->name);
        if (context.scan.program >= context.end) return "no program was given";
    }
    return {};
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

std::string lower_case(std::string text) {
    std::transform(text.begin(), text.end(), text.begin(),
                   [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
    return text;
}

/// `node:4` without its slots; an IPv6 address in brackets without them.
std::string without_slots(const std::string& host) {
    if (host.starts_with('[')) return host.substr(1, host.find(']') - 1);
    return host.substr(0, host.find(':'));
}

/// Where the ranks may go, as far as the command line and the allocation say.
struct Places {
    std::set<std::string> hosts;
    std::vector<std::string> order;  ///< the same as they were named
    bool unknown = false;            ///< a list that cannot be read here
    std::optional<int> slots;

    void add(const std::string& name) {
        if (hosts.insert(name).second) order.push_back(name);
    }
};

/// Each line's first word is a host; in a rank file (`rank 0=node slot=0`) what follows the `=`.
void add_host_file(Places& places, const std::string& path, bool ranks, const Host& host) {
    const auto text = host.read_file(path, kListBytes);
    if (!text) places.unknown = true;
    for (std::string line : split(text.value_or(""), '\n')) {
        line = trim(std::string_view(line).substr(0, line.find('#')));
        if (ranks) {
            const std::size_t equals = line.find('=');
            line = equals == std::string::npos ? "" : trim(line.substr(equals + 1));
        }
        line = line.substr(0, line.find_first_of(" \t"));
        if (ranks && line.starts_with('+')) places.unknown = true;
        if (!line.empty()) places.add(without_slots(line));
    }
}

void add_host_list(Places& places, const std::string& list) {
    for (const std::string& host : split(list, ',')) {
        const std::string name(trim(host));
        if (name.starts_with('+')) places.unknown = true;  // relative to the allocation
        if (name.empty()) continue;
        places.add(without_slots(name));
        const std::size_t colon = name.rfind(':');
        const auto slots = colon == std::string::npos ? std::optional<long long>(1)
                                                      : to_integer(name.substr(colon + 1));
        if (slots && *slots > 0 && *slots < 100'000)
            places.slots = places.slots.value_or(0) + static_cast<int>(*slots);
    }
}

/// What a resource manager has given: more than one node of Slurm, or a list in a file.
void add_allocation(Places& places, const Environment& environment, const Host& host) {
    if (!variable(environment, "SLURM_JOB_ID").empty()) {
        const bool one = variable(environment, "SLURM_JOB_NUM_NODES") == "1" ||
                         variable(environment, "SLURM_NNODES") == "1";
        const std::string list = variable(environment, "SLURM_JOB_NODELIST");
        if (one && !list.empty() && list != variable(environment, "SLURMD_NODENAME"))
            places.add(list);
        places.unknown = places.unknown || !one;
    }
    for (const char* name : {"PBS_NODEFILE", "PE_HOSTFILE", "LSB_DJOB_HOSTFILE", "COBALT_NODEFILE"})
        if (const std::string file = variable(environment, name); !file.empty())
            add_host_file(places, file, false, host);
    for (const char* name : {"FLUX_JOB_ID", "LSB_HOSTS"})
        places.unknown = places.unknown || !variable(environment, name).empty();
}

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

/// Every name of this host as "localhost".
std::set<std::string> distinct_hosts(const std::set<std::string>& names, const Host& host) {
    std::set<std::string> hosts;
    for (const std::string& name : names)
        hosts.insert(is_this_host(name, host) ? "localhost" : name);
    return hosts;
}

std::string other_host(const Places& places) {
    for (const std::string& name : places.hosts)
        if (name != "localhost") return name;
    return {};
}

/// The N of `ppr:N:node`.
std::optional<int> ranks_per_node_of(const std::string& policy) {
    const std::vector<std::string> parts = split(policy, ':');
    if (parts.size() < 3 || parts[0] != "ppr" || parts[2].substr(0, 4) != "node")
        return std::nullopt;
    return positive_count(parts[1]);
}

/// The ranks that one node gets; nothing when the launcher decides by slots.
std::optional<int> ranks_of(const Scan& scan, const Places& places) {
    const auto nodes = static_cast<int>(std::max<std::size_t>(places.hosts.size(), 1));
    const Given* total = last_given(scan, Meaning::total_ranks);
    const auto count = total == nullptr ? std::nullopt : positive_count(total->value);
    if (count && nodes == 1) return count;
    if (const Given* given = last_given(scan, Meaning::ranks_per_node))
        return positive_count(given->value);
    if (last_given(scan, Meaning::one_rank_per_node) != nullptr) return 1;
    if (const Given* given = last_given(scan, Meaning::map_policy))
        if (const auto ranks = ranks_per_node_of(given->value)) return ranks;
    if (count && *count % nodes == 0) return *count / nodes;
    return total == nullptr && nodes == 1 ? places.slots : std::nullopt;
}

env::Job read_counts(env::Job job, const std::vector<Context>& contexts, const Places& places) {
    if (!places.unknown)
        job.nodes = static_cast<int>(std::max<std::size_t>(places.hosts.size(), 1));
    int sum = 0;
    for (const Context& context : contexts) {
        const auto ranks = places.unknown ? std::nullopt : ranks_of(context.scan, places);
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

/// The words of one context, to look at its program without those of the next one.
std::vector<std::string> words_of(const std::vector<std::string>& argv, const Context& context) {
    return {argv.begin(), argv.begin() + static_cast<std::ptrdiff_t>(context.end)};
}

/// The file that a context starts: relative to its working directory, else by PATH.
std::string program_path(const std::string& word, const Scan& scan, const Host& host) {
    const Given* directory = last_given(scan, Meaning::directory);
    const bool relative = word.find('/') != std::string::npos && word[0] != '/';
    return host.find_executable(directory != nullptr && relative ? directory->value + "/" + word
                                                                 : word);
}

std::string refusal(const Command& command, const std::vector<Context>& contexts,
                    const Host& host) {
    for (const Context& context : contexts) {
        const std::size_t word = context.scan.program;
        const std::string path = program_path(command.argv[word], context.scan, host);
        const std::string reason = refuses_shim(words_of(command.argv, context), word, path, host);
        if (!reason.empty()) return reason;
    }
    return {};
}

Command add_programs(Command command, const std::vector<Context>& contexts, const Host& host) {
    for (const Context& context : contexts) {
        if (context.scan.program >= context.end || !context.scan.problem.empty()) continue;
        command.program_at.push_back(context.scan.program);
        if (command.program.empty())
            command.program =
                innermost_program(words_of(command.argv, context), context.scan.program, host);
    }
    return command;
}

}  // namespace

Command recognise_openmpi(Command command, int major, const Environment& environment,
                          const Host& host) {
    command.job.launcher = "openmpi";
    command.family = major >= 5 ? "openmpi5" : "openmpi4";
    command.job.open_mpi = major;
    const std::vector<Context> contexts =
        read_contexts(command.argv, major >= 5 ? kOpenMpi5Options : kOpenMpi4Options);
    const Parameters parameters(contexts, environment, command.executable, host);
    if (const std::string problem = problem_of(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    Places places = read_places(contexts, parameters, environment, host);
    command.job.hosts = places.order;
    places.hosts = distinct_hosts(places.hosts, host);
    const std::string other = other_host(places);
    command.job.same_host = other.empty() && !places.unknown;
    command.job = read_counts(std::move(command.job), contexts, places);
    const Binding binding = read_binding(contexts, parameters);
    command.job.binding_given = binding.given;
    command.job.user_binds = binding.binds;
    command = add_programs(std::move(command), contexts, host);
    if (!other.empty())
        return export_only(std::move(command),
                           fmt::format("ranks start on another host, '{}'", printable(other)));
    if (places.unknown)
        return export_only(std::move(command), "the hosts of the ranks are not known here");
    if (const std::string reason = refusal(command, contexts, host); !reason.empty()) {
        command.job.same_host = false;  // behind an opaque word paths of this host mean nothing
        return export_only(std::move(command), reason);
    }
    command.rewrite = Rewrite::inserted;
    command.job.shim = true;
    return command;
}

Command recognise_hydra(Command command, const Host& host) {
    command.job.launcher = "hydra";
    command.family = "hydra";
    const std::vector<Context> contexts = read_contexts(command.argv, kHydraOptions);
    if (const std::string problem = problem_of(contexts); !problem.empty())
        return export_only(std::move(command), problem);
    Places places;
    for (const Context& context : contexts) {
        if (const Given* given = last_given(context.scan, Meaning::hosts))
            add_host_list(places, given->value);
        places.unknown = places.unknown || last_given(context.scan, Meaning::host_file) != nullptr;
        const Given* policy = last_given(context.scan, Meaning::bind_policy);
        command.job.binding_given = command.job.binding_given || policy != nullptr;
        command.job.user_binds =
            command.job.user_binds || (policy != nullptr && policy->value != "none");
    }
    command.job.hosts = places.order;
    command.job = read_counts(std::move(command.job), contexts, places);
    if (places.hosts.empty()) command.job.nodes.reset();  // a resource manager may name some
    command = add_programs(std::move(command), contexts, host);
    return export_only(std::move(command), "Hydra's mpiexec may start the ranks on other hosts");
}

}  // namespace toporun::launcher
