// Launchers written in Python that start a Python script with their own interpreter.
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/places.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/python_tables.hpp"

namespace toporun::launcher {
namespace {

constexpr const char* kDeepspeedHosts = "/job/hostfile";  ///< DLTS_HOSTFILE of runner.py

/// The words that name the interpreter, in place of those that the launcher would have put there.
struct PythonWords {
    /// The launcher's options for a program that is no Python script.
    std::vector<std::string> switches;
    bool unbuffered = true;  ///< the launcher starts its interpreter with -u
};

/// `--no_python SHIM PYTHON -u [-m] script`: the module switch goes, both together are an error.
std::vector<Edit> python_edits(const Scan& scan, const std::string& interpreter,
                               const PythonWords& words) {
    std::vector<Edit> edits;
    bool module = false;
    for (const Given& given : scan.given) {
        if (given.meaning != Meaning::module) continue;
        if (!module) edits.push_back({given.at, true, {}, false, {}});
        module = true;
    }
    std::vector<std::string> python = {interpreter};
    if (words.unbuffered) python.emplace_back("-u");
    if (module) python.emplace_back("-m");
    if (scan.options_end == scan.program) {
        edits.push_back({scan.program, false, words.switches, true, python});
    } else {  // `--` stands between
        edits.push_back({scan.options_end, false, words.switches, false, {}});
        edits.push_back({scan.program, false, {}, true, python});
    }
    return edits;
}

/// A switch among other letters (`-mq`) or given twice cannot be taken out as one word.
bool module_switch_is_a_word(const Scan& scan, const std::vector<std::string>& argv) {
    std::size_t switches = 0;
    for (const Given& given : scan.given) {
        if (given.meaning != Meaning::module) continue;
        ++switches;
        if (argv[given.at].size() > 2 && argv[given.at][1] != '-') return false;
    }
    return switches <= 1;
}

/// The script and what starts it; the reason when there is nothing to put a shim in front of.
std::string script_of(Command& command, const Scan& scan, const Site& site, const Host& host) {
    command.interpreter = own_interpreter(site, host);
    command.program = command.interpreter;
    if (const std::string problem = scan_problem(scan, site); !problem.empty()) return problem;
    if (scan.program >= command.argv.size()) return "no program was given";
    command.program_at = {scan.program};
    if (last_given(scan, Meaning::no_python) != nullptr)
        command.program = innermost_program(command.argv, scan.program, host);
    return {};
}

/// The shim in front of the script, or of the program where the launcher's switch says that it is
/// no script.
Command insert_python(Command command, const Scan& scan, const Site& site, const Host& host,
                      const PythonWords& words) {
    if (last_given(scan, Meaning::no_python) != nullptr) {
        const std::size_t end = command.argv.size();
        return insert_shim(std::move(command), site, {{scan.program, end, ""}}, host);
    }
    if (command.interpreter.empty()) {
        const std::string reason = interpreter_unknown(command, site);
        return export_only(std::move(command), reason);
    }
    if (!module_switch_is_a_word(scan, command.argv))
        return export_only(std::move(command), "the switch for a module is not a word of its own");
    std::vector<Edit> edits = python_edits(scan, command.interpreter, words);
    return insert_words(std::move(command), std::move(edits));
}

/// `key: value` at the start of a line of accelerate's YAML file; "" when it is not there.
std::string config_value(const std::string& text, std::string_view key) {
    for (const std::string& line : split(text, '\n')) {
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':')
            continue;
        std::string value(trim(std::string_view(line).substr(key.size() + 1)));
        if (value.size() > 1 && (value[0] == '\'' || value[0] == '"'))
            value = value.substr(1, value.size() - 2);
        return value;
    }
    return {};
}

/// accelerate/commands/config/config_args.py: the file that is read when none is named.
std::string accelerate_config(const Scan& scan, const Environment& environment, const Host& host) {
    if (const Given* given = last_given(scan, Meaning::config_file))
        return host.read_file(given->value, kListBytes).value_or("");
    std::string directory = variable(environment, "HF_HOME");
    if (directory.empty()) {
        const std::string cache = variable(environment, "XDG_CACHE_HOME");
        const std::string home = variable(environment, "HOME");
        if (cache.empty() && home.empty()) return {};
        directory = (cache.empty() ? home + "/.cache" : cache) + "/huggingface";
    }
    return host.read_file(directory + "/accelerate/default_config.yaml", kListBytes).value_or("");
}

/// The options with those of the file that pre-flight judges and that the line leaves out.
std::vector<Given> with_config(std::vector<Given> given, const std::string& config) {
    constexpr std::array<std::pair<const char*, const char*>, 6> kKeys = {
        {{"machine-rank", "machine_rank"},
         {"num-machines", "num_machines"},
         {"num-processes", "num_processes"},
         {"main-process-ip", "main_process_ip"},
         {"main-process-port", "main_process_port"},
         {"rdzv-backend", "rdzv_backend"}}};
    for (const auto& [name, key] : kKeys) {
        const std::string value = config_value(config, key);
        const auto same = [wanted = name](const Given& one) { return one.name == wanted; };
        if (value.empty() || std::any_of(given.begin(), given.end(), same)) continue;
        given.push_back({name, Meaning::other, value, "", 0, fmt::format("{}: {}", key, value)});
    }
    return given;
}

/// How accelerate goes on with the script.
struct AccelerateRoute {
    bool simple = false;  ///< its own interpreter, one process: PYTHON_EXEC is not read
    std::string away;     ///< why nothing can stand before the ranks; "" = something can
};

AccelerateRoute accelerate_route(const Scan& scan, const std::string& config,
                                 const std::optional<int>& ranks, const std::optional<int>& nodes) {
    const std::string type = config_value(config, "distributed_type");
    const auto given = [&](Meaning meaning) { return last_given(scan, meaning) != nullptr; };
    const bool torchrun = given(Meaning::several_processes) || given(Meaning::deepspeed);
    AccelerateRoute route;
    if (config_value(config, "compute_environment") == "AMAZON_SAGEMAKER")
        route.away = "accelerate starts a SageMaker job";
    else if (!torchrun && (type == "TPU" || type == "XLA"))
        route.away = "accelerate's TPU launcher takes no program in front of the script";
    const bool deepspeed = given(Meaning::deepspeed) || type == "DEEPSPEED";
    const Given* way = last_given(scan, Meaning::elsewhere);
    const std::string multinode =
        way != nullptr ? way->value : config_value(config, "deepspeed_multinode_launcher");
    if (deepspeed && nodes.value_or(1) > 1 && multinode != "standard")
        route.away = "accelerate hands over to deepspeed, which reaches the other nodes";
    route.simple =
        given(Meaning::one_process) || given(Meaning::host_file) ||
        (!torchrun && (ranks == 1 || (!ranks && type == "NO")) && nodes.value_or(1) == 1);
    return route;
}

/// One part of a host filter, `a:0,1`: the slots are "" where it has none.
struct HostFilter {
    std::string name;
    std::string slots;
};

std::vector<HostFilter> host_filter(const std::string& text, char separator) {
    std::vector<HostFilter> filter;
    for (const std::string& part : split(text, separator)) {
        const std::size_t colon = part.find(':');
        filter.push_back({std::string(trim(part.substr(0, colon))),
                          colon == std::string::npos ? "" : part.substr(colon + 1)});
    }
    return filter;
}

void set_hosts(Places& places, const std::vector<std::string>& hosts) {
    places.order = hosts;
    places.hosts = {hosts.begin(), hosts.end()};
}

/// Leaves the hosts that are named; without a list of hosts they are the list.
void keep_hosts(Places& places, const std::vector<HostFilter>& filter) {
    std::vector<std::string> kept;
    for (const HostFilter& one : filter) kept.push_back(one.name);
    set_hosts(places, kept);
}

void drop_hosts(Places& places, const std::vector<HostFilter>& filter) {
    std::vector<std::string> kept;
    for (const std::string& host : places.order)
        if (std::none_of(filter.begin(), filter.end(), [&](const HostFilter& one) {
                return one.name == host && one.slots.empty();
            }))
            kept.push_back(host);
    set_hosts(places, kept);
}

void first_hosts(Places& places, int count) {
    if (static_cast<std::size_t>(count) >= places.order.size()) return;
    set_hosts(places, {places.order.begin(), places.order.begin() + count});
}

std::string numbers_below(int count) {
    std::vector<std::string> numbers;
    for (int i = 0; i < count && i < 1024; ++i) numbers.push_back(std::to_string(i));
    return join(numbers, ",");
}

/// The GPUs of this host that deepspeed shows to its ranks, whatever CUDA_VISIBLE_DEVICES holds
/// (deepspeed/launcher/runner.py, parse_inclusion_exclusion and main; launch.py sets the list).
void read_deepspeed_gpus(Command& command, const Scan& scan, const Places& places, bool hosts_named,
                         const Environment& environment, const Host& host) {
    constexpr const char* kList = "CUDA_VISIBLE_DEVICES";
    const auto filter_of = [&](Meaning meaning) -> std::optional<std::string> {
        const Given* given = last_given(scan, meaning);
        if (given == nullptr) return std::nullopt;
        for (const HostFilter& one : host_filter(given->value, '@'))
            if (is_this_host(one.name, host)) return one.slots;
        return std::nullopt;
    };
    const auto take = [&](const std::string& list) {
        command.given.set[kList] = list;
        command.job.ranks_per_node = static_cast<int>(split(list, ',').size());
    };
    command.job.gpu_list_by = "deepspeed chooses the GPUs of its ranks by itself";
    const auto included = filter_of(Meaning::hosts);
    const auto excluded = filter_of(Meaning::exclude);
    const auto slots =
        std::find_if(places.slots_of.begin(), places.slots_of.end(),
                     [&](const auto& one) { return hosts_named && is_this_host(one.first, host); });
    const bool asked = included || excluded || last_given(scan, Meaning::nodes) != nullptr;
    if (const auto& count = command.job.ranks_per_node) return take(numbers_below(*count));
    if (included && !included->empty()) return take(*included);
    const std::string users = variable(environment, kList);
    if (!hosts_named && !asked && !users.empty()) return take(users);
    command.given.set.erase(kList);
    command.given.removed.emplace_back(kList);
    if (excluded && !excluded->empty())
        command.job.rank_gpus_unknown = "deepspeed leaves out GPUs (--exclude)";
    else if (slots != places.slots_of.end())
        take(numbers_below(slots->second));
    else if (!hosts_named)
        command.job.ranks_word = command.ranks_word = "gpu";
}

/// deepspeed's default way to other hosts, pdsh: a shell there reads its words, of which deepspeed
/// quotes those with blanks, in some versions those that are no options, with quotes of either
/// kind (deepspeed/launcher/multinode_runner.py, PDSHRunner). Its own `--local_rank=N` would stand
/// behind the guard's first word, where no program takes it.
Command deepspeed_on_hosts(Command command, const Scan& scan, const Site& site,
                           const Places& places, const Host& host, const std::string& away) {
    const Given* way = last_given(scan, Meaning::launcher);
    if (places.unknown || (way != nullptr && way->value != "pdsh" && way->value != "PDSH"))
        return export_only(std::move(command), away);
    if (command.interpreter.empty()) {
        const std::string reason = interpreter_unknown(command, site);
        return export_only(std::move(command), reason);
    }
    const bool tells = last_given(scan, Meaning::no_local_rank) == nullptr;
    const bool program = last_given(scan, Meaning::no_python) != nullptr;
    PythonWords words;
    if (!program) words.switches.emplace_back("--no_python");
    if (tells) words.switches.emplace_back("--no_local_rank");
    command.job.gpu_list_by = "deepspeed chooses the GPUs of its ranks by itself";
    command = insert_python(std::move(command), scan, site, host, words);
    if (program && command.rewrite == Rewrite::inserted && tells)
        command.edits.push_back({scan.options_end, false, words.switches, false, {}});
    command.guard = tells ? Guard::python_local_rank : Guard::python;
    return on_other_hosts(std::move(command), away);
}

}  // namespace

std::optional<LauncherOptions> python_launcher_options(const Command& command, const Site& site,
                                                       const Environment& environment,
                                                       const Host& host) {
    const OptionTable* table = site.kind == "accelerate"  ? &kAccelerateOptions
                               : site.kind == "deepspeed" ? &kDeepspeedOptions
                               : site.kind == "composer"  ? &kComposerOptions
                               : site.kind == "fabric"    ? &kFabricOptions
                                                          : nullptr;
    if (table == nullptr) return std::nullopt;
    const Scan scan = scan_options(command.argv, site.first, command.argv.size(), *table);
    if (!scan_problem(scan, site).empty() || !scan.guessed.empty()) return std::nullopt;
    if (last_given(scan, Meaning::one_process) != nullptr) return std::nullopt;  // for CPUs
    LauncherOptions options{site.kind, scan.given};
    if (site.kind == "accelerate") {
        const std::string config = accelerate_config(scan, environment, host);
        options.given = with_config(scan.given, config);
        const auto count = [&](const char* name) {
            const auto found = std::find_if(options.given.rbegin(), options.given.rend(),
                                            [&](const Given& given) { return given.name == name; });
            return found == options.given.rend() ? std::nullopt : positive_count(found->value);
        };
        const AccelerateRoute route =
            accelerate_route(scan, config, count("num-processes"), count("num-machines"));
        if (!route.away.empty()) return std::nullopt;
    }
    if (site.kind == "deepspeed" && last_given(scan, Meaning::host_file) == nullptr &&
        host.read_file(kDeepspeedHosts, 1))
        options.given.push_back(
            {"hostfile", Meaning::host_file, kDeepspeedHosts, "", 0, kDeepspeedHosts});
    return options;
}

Command recognise_accelerate(Command command, const Site& site, const Environment& environment,
                             const Host& host) {
    command.job.launcher = command.family = "accelerate";
    const Scan scan =
        scan_options(command.argv, site.first, command.argv.size(), kAccelerateOptions);
    if (const std::string problem = script_of(command, scan, site, host); !problem.empty())
        return export_only(std::move(command), problem);
    const std::string config = accelerate_config(scan, environment, host);
    if (auto options = python_launcher_options(command, site, environment, host))
        command.launchers.push_back(std::move(*options));
    const auto count = [&](Meaning meaning, std::string_view key) {
        const auto given = given_count(scan, meaning);
        return given ? given : positive_count(config_value(config, key));
    };
    command.job.nodes = count(Meaning::nodes, "num_machines").value_or(1);
    const auto total = count(Meaning::total_ranks, "num_processes");
    const int nodes = command.job.nodes.value_or(1);
    const bool config_named = last_given(scan, Meaning::config_file) != nullptr;
    const bool counts_gpus = !total && nodes == 1 && config.empty() && !config_named;
    if (counts_gpus) command.job.ranks_word = command.ranks_word = "gpu";  // launch.py
    if (total && *total % nodes == 0) command.job.ranks_per_node = *total / nodes;
    if (const Given* given = last_given(scan, Meaning::master_address))
        command.job.rendezvous = given->value;
    command.job.user_binds = command.job.binding_given =
        last_given(scan, Meaning::binds) != nullptr;
    command.job.cpu_job = last_given(scan, Meaning::one_process) != nullptr;
    const AccelerateRoute route = accelerate_route(scan, config, total, command.job.nodes);
    const bool by_mpi = last_given(scan, Meaning::host_file) != nullptr;
    if (route.simple && !by_mpi) command.job.ranks_per_node = 1;  // simple_launcher starts one
    const auto text_of = [&](Meaning meaning, std::string_view key) {
        const Given* given = last_given(scan, meaning);
        return given != nullptr ? given->value : config_value(config, key);
    };
    const std::string gpus = text_of(Meaning::gpu_list, "gpu_ids");
    if (!gpus.empty() && gpus != "all") command.given.set["CUDA_VISIBLE_DEVICES"] = gpus;
    const std::string threads = text_of(Meaning::threads, "num_cpu_threads_per_process");
    if (!threads.empty()) command.given.set["OMP_NUM_THREADS"] = threads;
    if (!scan.guessed.empty()) {  // what stands behind it may be the program's
        command.job.nodes.reset();
        command.job.ranks_per_node.reset();
    }
    if (!route.away.empty()) return export_only(std::move(command), route.away);
    Places places;
    if (const Given* given = last_given(scan, Meaning::host_file))
        add_host_file(places, given->value, false, host);
    if (const std::string away = settle_places(command.job, places, host); !away.empty())
        return export_only(std::move(command), away);
    if (!scan.guessed.empty())
        return export_only(std::move(command),
                           fmt::format("whether '{}' takes a value is not known", scan.guessed));
    // A count of one GPU or none starts no torchrun; --no_python is read on either way.
    const bool either_way =
        counts_gpus && last_given(scan, Meaning::several_processes) == nullptr &&
        !command.interpreter.empty() && module_switch_is_a_word(scan, command.argv);
    if (route.simple || either_way || last_given(scan, Meaning::no_python) != nullptr)
        return insert_python(std::move(command), scan, site, host, {{"--no_python"}, true});
    return by_python_exec(std::move(command), site, host);
}

Command recognise_deepspeed(Command command, const Site& site, const Environment& environment,
                            const Host& host) {
    command.job.launcher = command.family = "deepspeed";
    const Scan scan =
        scan_options(command.argv, site.first, command.argv.size(), kDeepspeedOptions);
    if (const std::string problem = script_of(command, scan, site, host); !problem.empty())
        return export_only(std::move(command), problem);
    if (auto options = python_launcher_options(command, site, environment, host))
        command.launchers.push_back(std::move(*options));
    Places places;
    const Given* file = last_given(scan, Meaning::host_file);
    const std::string hosts = file != nullptr ? file->value : kDeepspeedHosts;
    const bool hosts_named = host.read_file(hosts, 1).has_value();
    if (hosts_named) add_host_file(places, hosts, false, host);
    if (const Given* given = last_given(scan, Meaning::hosts))
        keep_hosts(places, host_filter(given->value, '@'));
    if (const Given* given = last_given(scan, Meaning::exclude))
        drop_hosts(places, host_filter(given->value, '@'));
    if (const auto nodes = given_count(scan, Meaning::nodes)) first_hosts(places, *nodes);
    // Each node runs its own deepspeed with --no_ssh; without a host file it stays here.
    const bool own_node = last_given(scan, Meaning::one_rank_per_node) != nullptr;
    const std::string away = settle_places(command.job, own_node ? Places{} : places, host);
    if (!hosts_named && !own_node)
        command.job.nodes = 1;
    else
        command.job.nodes = given_count(scan, Meaning::nodes);
    if (!command.job.nodes && !places.hosts.empty())
        command.job.nodes = static_cast<int>(distinct_hosts(places.hosts, host).size());
    command.job.ranks_per_node = given_count(scan, Meaning::ranks_per_node);
    if (away.empty()) read_deepspeed_gpus(command, scan, places, hosts_named, environment, host);
    if (const Given* given = last_given(scan, Meaning::master_address))
        command.job.rendezvous = given->value;
    command.job.user_binds = command.job.binding_given =
        last_given(scan, Meaning::binds) != nullptr;
    if (!variable(environment, "DLTS_HOSTFILE").empty())
        return export_only(std::move(command), "the hosts of the ranks are not known here");
    if (!away.empty())
        return deepspeed_on_hosts(std::move(command), scan, site, places, host, away);
    if (last_given(scan, Meaning::elsewhere) != nullptr) {
        command.job.same_host = false;
        return export_only(
            std::move(command),
            "with --force_multi deepspeed starts the ranks through another launcher");
    }
    if (const Given* given = last_given(scan, Meaning::launcher);
        given != nullptr && (given->value == "slurm" || given->value == "SLURM")) {
        command.job.same_host = false;
        return export_only(std::move(command), "deepspeed's Slurm launcher ignores --no_python");
    }
    return insert_python(std::move(command), scan, site, host, {{"--no_python"}, true});
}

Command recognise_colossalai(Command command, const Site& site, const Host& host) {
    command.job.launcher = command.family = "colossalai";
    const Scan scan =
        scan_options(command.argv, site.first, command.argv.size(), kColossalaiOptions);
    if (const Given* module = last_given(scan, Meaning::program_is_module);
        module != nullptr && scan.problem.empty()) {
        command.interpreter = command.program = own_interpreter(site, host);
        command.program_at = {scan.program - 1};
    } else if (const std::string problem = script_of(command, scan, site, host); !problem.empty()) {
        return export_only(std::move(command), problem);
    }
    Places places;
    if (const Given* given = last_given(scan, Meaning::hosts)) add_host_list(places, given->value);
    if (const Given* given = last_given(scan, Meaning::host_file))
        add_host_file(places, given->value, false, host);
    for (const Given& given : scan.given) {
        if (given.name == "include") keep_hosts(places, host_filter(given.value, ','));
        if (given.meaning == Meaning::exclude) drop_hosts(places, host_filter(given.value, ','));
    }
    if (const auto nodes = given_count(scan, Meaning::nodes)) first_hosts(places, *nodes);
    const std::string away = settle_places(command.job, places, host);
    if (!places.unknown)
        command.job.nodes =
            std::max(1, static_cast<int>(distinct_hosts(places.hosts, host).size()));
    command.job.ranks_per_node = given_count(scan, Meaning::ranks_per_node);
    if (const Given* given = last_given(scan, Meaning::master_address))
        command.job.rendezvous = given->value;
    if (!away.empty()) return export_only(std::move(command), away);
    return by_python_exec(std::move(command), site, host);
}

Command recognise_composer(Command command, const Site& site, const Host& host) {
    command.job.launcher = command.family = "composer";
    command.job.same_host = true;  // one on each node: the ranks are its own children
    const Scan scan = scan_options(command.argv, site.first, command.argv.size(), kComposerOptions);
    if (const std::string problem = script_of(command, scan, site, host); !problem.empty())
        return export_only(std::move(command), problem);
    if (auto options = python_launcher_options(command, site, {}, host))
        command.launchers.push_back(std::move(*options));
    command.job.ranks_per_node = given_count(scan, Meaning::ranks_per_node);
    const auto total = given_count(scan, Meaning::total_ranks);
    const auto& here = command.job.ranks_per_node;
    if (!here) command.job.ranks_word = command.ranks_word = "gpu";
    if (!total)
        command.job.nodes = 1;
    else if (here && *total % *here == 0)
        command.job.nodes = *total / *here;
    if (const Given* given = last_given(scan, Meaning::master_address))
        command.job.rendezvous = given->value;
    return insert_python(std::move(command), scan, site, host, {{"-c"}, false});
}

Command recognise_fabric(Command command, const Site& site, const Host& host) {
    command.job.launcher = command.family = "fabric";
    command.job.same_host = true;  // it calls torchrun in its own process
    const Scan scan = scan_options(command.argv, site.first, command.argv.size(), kFabricOptions);
    if (const std::string problem = script_of(command, scan, site, host); !problem.empty())
        return export_only(std::move(command), problem);
    if (auto options = python_launcher_options(command, site, {}, host))
        command.launchers.push_back(std::move(*options));
    command.job.nodes = given_count(scan, Meaning::nodes).value_or(1);
    const Given* devices = last_given(scan, Meaning::ranks_per_node);
    command.job.ranks_per_node = devices == nullptr ? 1 : positive_count(devices->value);
    if (devices != nullptr && (devices->value == "auto" || devices->value == "-1"))
        command.job.ranks_word = command.ranks_word = "gpu";
    if (const Given* given = last_given(scan, Meaning::master_address))
        command.job.rendezvous = given->value;
    return by_python_exec(std::move(command), site, host);
}

}  // namespace toporun::launcher
