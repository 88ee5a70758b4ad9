#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <optional>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/options.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/python_tables.hpp"

namespace toporun::launcher {
namespace {

// torch/distributed/run.py and launch.py, 1.13 to 2.9.
constexpr std::array kTorchrunOptions = {
    Option{"nnodes", Arity::one, Meaning::nodes},
    Option{"nproc-per-node", Arity::one, Meaning::ranks_per_node},
    Option{"rdzv-backend", Arity::one},
    Option{"rdzv-endpoint", Arity::one, Meaning::rendezvous},
    Option{"rdzv-id", Arity::one},
    Option{"rdzv-conf", Arity::one},
    Option{"standalone", Arity::flag, Meaning::standalone},
    Option{"max-restarts", Arity::one},
    Option{"monitor-interval", Arity::one},
    Option{"start-method", Arity::one},
    Option{"event-log-handler", Arity::one},
    Option{"role", Arity::one},
    Option{"module", Arity::flag, Meaning::module},
    Option{"m", Arity::flag, Meaning::module},
    Option{"no-python", Arity::flag, Meaning::no_python},
    Option{"run-path", Arity::flag, Meaning::run_path},
    Option{"log-dir", Arity::one},
    Option{"redirects", Arity::one},
    Option{"r", Arity::one},
    Option{"tee", Arity::one},
    Option{"t", Arity::one},
    Option{"local-ranks-filter", Arity::one},
    Option{"node-rank", Arity::one},
    Option{"master-addr", Arity::one, Meaning::master_address},
    Option{"master-port", Arity::one},
    Option{"local-addr", Arity::one},
    Option{"logs-specs", Arity::one},
    Option{"numa-binding", Arity::one, Meaning::binds},
    Option{"signals-to-handle", Arity::one},
    Option{"shutdown-timeout", Arity::one},
    Option{"duplicate-stdout-filters", Arity::many},
    Option{"duplicate-stderr-filters", Arity::many},
    Option{"virtual-local-rank", Arity::flag},
    Option{"use-env", Arity::flag},  // torch.distributed.launch
    Option{"help", Arity::flag, Meaning::no_launch},
    Option{"h", Arity::flag, Meaning::no_launch},
};
constexpr OptionTable kTorchrunTable = {
    .options = kTorchrunOptions, .abbreviations = true, .underscores = true};

/// What the option says, from the command line, else from PET_<NAME>.
std::optional<std::string> value_of(const Scan& scan, const Environment& environment,
                                    Meaning meaning, const std::string& pet_name) {
    if (const Given* given = last_given(scan, meaning)) return given->value;
    const auto found = environment.find("PET_" + pet_name);
    if (found == environment.end()) return std::nullopt;
    return found->second;
}

/// torchrun reads these variables with int(): "1" is set, "true" ends it with an error.
bool flag_of(const Scan& scan, const Environment& environment, Meaning meaning,
             const std::string& pet_name) {
    if (last_given(scan, meaning) != nullptr) return true;
    const auto value = to_integer(trim(variable(environment, "PET_" + pet_name)));
    return value.value_or(0) != 0;
}

/// The program's options that ask for CPUs.
bool says_cpu(const std::vector<std::string>& argv, std::size_t program) {
    constexpr std::array<std::string_view, 4> kFlags = {"--cpu", "--no-cuda", "--use-cpu",
                                                        "--force-cpu"};
    constexpr std::array<std::pair<std::string_view, std::string_view>, 6> kValues = {
        {{"--device", "cpu"},
         {"--accelerator", "cpu"},
         {"--trainer.accelerator", "cpu"},
         {"--backend", "gloo"},
         {"--dist-backend", "gloo"},
         {"--distributed-backend", "gloo"}}};
    for (std::size_t i = program + 1; i < argv.size(); ++i) {
        const std::size_t equals = argv[i].find('=');
        std::string name = argv[i].substr(0, equals);
        std::replace(name.begin(), name.end(), '_', '-');
        std::string value;
        if (equals != std::string::npos)
            value = argv[i].substr(equals + 1);
        else if (i + 1 < argv.size())
            value = argv[i + 1];
        if (equals == std::string::npos &&
            std::find(kFlags.begin(), kFlags.end(), name) != kFlags.end())
            return true;
        if (std::find(kValues.begin(), kValues.end(),
                      std::pair<std::string_view, std::string_view>(name, value)) != kValues.end())
            return true;
    }
    return false;
}

/// "2" or "2:2"; an elastic range has no fixed number of nodes.
std::optional<int> node_count(const std::string& text) {
    const std::vector<std::string> bounds = split(text, ':');
    const auto low = positive_count(bounds.front());
    const auto high = positive_count(bounds.back());
    return bounds.size() <= 2 && low == high ? low : std::nullopt;
}

/// The host of `host`, `host:port`, `[address]:port`.
std::string host_part(const std::string& endpoint) {
    if (endpoint.starts_with('[')) return endpoint.substr(1, endpoint.find(']') - 1);
    const std::size_t colon = endpoint.find(':');
    const bool port =
        colon != std::string::npos && endpoint.find(':', colon + 1) == std::string::npos;
    return port ? endpoint.substr(0, colon) : endpoint;
}

/// `tune run RECIPE`: only a word in front of the recipe makes torchtune call torchrun
/// (torchtune/_cli/run.py, _is_distributed_args).
bool runs_alone(const Site& site, const Scan& scan) {
    return site.kind == "tune" && scan.program == site.first;
}

Command read_counts(Command command, const Scan& scan, const Environment& environment) {
    const bool standalone = flag_of(scan, environment, Meaning::standalone, "STANDALONE");
    const std::string nodes = value_of(scan, environment, Meaning::nodes, "NNODES").value_or("1");
    const auto given = value_of(scan, environment, Meaning::ranks_per_node, "NPROC_PER_NODE");
    const std::string ranks = given.value_or("1");
    command.job.ranks_left_out = !given;
    command.job.nodes = standalone ? std::optional<int>(1) : node_count(nodes);
    command.job.ranks_per_node = positive_count(ranks);
    if (!command.job.ranks_per_node) command.job.ranks_word = command.ranks_word = ranks;
    if (standalone) return command;
    std::string endpoint =
        value_of(scan, environment, Meaning::rendezvous, "RDZV_ENDPOINT").value_or("");
    if (endpoint.empty())
        endpoint = value_of(scan, environment, Meaning::master_address, "MASTER_ADDR").value_or("");
    command.job.rendezvous = host_part(std::string(trim(endpoint)));
    return command;
}

}  // namespace

std::optional<LauncherOptions> inner_options(const Command& command, const Site& site,
                                             const Environment& environment, const Host& host) {
    if (site.kind == "mpi") return LauncherOptions{site.kind, {}};
    if (site.kind != "torchrun" && site.kind != "tune")
        return python_launcher_options(command, site, environment, host);
    const Scan scan = scan_options(command.argv, site.first, command.argv.size(), kTorchrunTable);
    if (!scan_problem(scan, site).empty() || runs_alone(site, scan)) return std::nullopt;
    return LauncherOptions{"torchrun", scan.given};
}

Command recognise_torchrun(Command command, const Site& site, const Environment& environment,
                           const Host& host) {
    command.job.launcher = "torchrun";
    command.family = "torchrun";
    command.job.same_host = true;  // one agent per node: its workers are its own children
    command.interpreter = own_interpreter(site, host);
    command.program = command.interpreter;
    const Scan scan = scan_options(command.argv, site.first, command.argv.size(), kTorchrunTable);
    if (const std::string problem = scan_problem(scan, site); !problem.empty())
        return export_only(std::move(command), problem);
    if (runs_alone(site, scan)) {
        command.family = "torchtune";
        command.program_at = {scan.program};
        command.job.nodes = command.job.ranks_per_node = 1;
        return export_only(
            std::move(command),
            "without torchrun's options torchtune runs the recipe in its own process");
    }
    command.launchers.push_back({"torchrun", scan.given});
    command = read_counts(std::move(command), scan, environment);
    command.job.user_binds = command.job.binding_given =
        value_of(scan, environment, Meaning::binds, "NUMA_BINDING").has_value();
    const bool program = scan.program < command.argv.size();
    if (program) command.program_at = {scan.program};
    command.job.cpu_job = command.ranks_word == "cpu" || says_cpu(command.argv, scan.program);
    // Its versions before 1.9 do not read the variables; torchtune's own program decides by
    // options.
    if (site.kind == "tune" || std::find(command.argv.begin(), command.argv.end(),
                                         "torch.distributed.launch") != command.argv.end())
        command.job.ranks_left_out = false;
    if (flag_of(scan, environment, Meaning::run_path, "RUN_PATH"))
        return export_only(std::move(command),
                           "with --run-path torchrun starts no program for its workers");
    if (flag_of(scan, environment, Meaning::no_python, "NO_PYTHON")) {
        command.program = innermost_program(command.argv, scan.program, host);
        if (!program) return export_only(std::move(command), "no program was given");
        const std::size_t end = command.argv.size();
        return insert_shim(std::move(command), site, {{scan.program, end, ""}}, host);
    }
    // Behind pyenv the shim asks its parent, which is the interpreter by then.
    if (command.interpreter.empty() && !parent_tells_interpreter(site, host)) {
        const std::string reason = interpreter_unknown(command, site);
        return export_only(std::move(command), reason);
    }
    return use_python_exec(std::move(command));
}

}  // namespace toporun::launcher
