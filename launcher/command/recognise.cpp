#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {
namespace {

enum class Mpi { openmpi4, openmpi5, hydra, other };

/// By the name of the file that the command's links lead to.
constexpr std::array<std::pair<std::string_view, Mpi>, 8> kMpiPrograms = {{
    {"orterun", Mpi::openmpi4},
    {"prterun", Mpi::openmpi5},
    {"prte", Mpi::openmpi5},
    {"mpiexec.hydra", Mpi::hydra},
    {"mpirun.hydra", Mpi::hydra},
    {"mpirun.mpich", Mpi::hydra},
    {"mpiexec.mpich", Mpi::hydra},
    {"oshrun", Mpi::openmpi4},
}};

Mpi mpi_of_version(const std::string& text) {
    constexpr std::string_view kOpenMpi = "Open MPI) ";
    if (text.find("prterun") != std::string::npos || text.find("PRRTE") != std::string::npos)
        return Mpi::openmpi5;
    if (const std::size_t at = text.find(kOpenMpi); at != std::string::npos) {
        const std::string rest = text.substr(at + kOpenMpi.size());
        const auto major = to_integer(rest.substr(0, rest.find_first_not_of("0123456789")));
        if (!major || *major < 3) return Mpi::other;  // another grammar; end of life
        return *major >= 5 ? Mpi::openmpi5 : Mpi::openmpi4;
    }
    if (text.find("OpenRTE") != std::string::npos) return Mpi::openmpi4;
    for (const char* name : {"HYDRA", "MPICH", "Intel(R) MPI", "MVAPICH"})
        if (text.find(name) != std::string::npos) return Mpi::hydra;
    return Mpi::other;
}

Mpi mpi_family(const std::string& typed, const std::string& path, const Host& host) {
    for (const std::string& name : {base_name(host.real_path(path)), base_name(typed)})
        for (const auto& [program, family] : kMpiPrograms)
            if (program == name) return family;
    return mpi_of_version(path.empty() ? "" : host.version_text(path));
}

Command recognise_mpi(Command command, const Site& site, const Environment& environment,
                      const Host& host) {
    const std::string& typed = command.argv[site.word];
    switch (mpi_family(typed, site.path, host)) {
        case Mpi::openmpi4:
            return recognise_openmpi(std::move(command), site, 4, environment, host);
        case Mpi::openmpi5:
            return recognise_openmpi(std::move(command), site, 5, environment, host);
        case Mpi::hydra:
            return recognise_hydra(std::move(command), site, environment, host);
        case Mpi::other:
            break;
    }
    const std::string reason =
        site.path.empty()
            ? fmt::format("'{}' is not found here", typed)
            : fmt::format("which MPI '{}' belongs to is not known: only Open MPI and Hydra are",
                          typed);
    return export_only(std::move(command), printable(reason));
}

/// The value behind one of the options; "" when none is there.
std::string option_value(const std::vector<std::string>& argv, std::size_t first,
                         std::initializer_list<std::string_view> names) {
    for (std::size_t i = first; i < argv.size(); ++i) {
        const std::size_t equals = argv[i].find('=');
        std::string typed = argv[i].substr(0, equals);
        std::replace(typed.begin(), typed.end(), '_', '-');
        if (std::find(names.begin(), names.end(), typed) == names.end()) continue;
        if (equals != std::string::npos) return argv[i].substr(equals + 1);
        return i + 1 < argv.size() ? argv[i + 1] : "";
    }
    return {};
}

/// sglang and vLLM of several nodes, and Ray workers that join another host.
void read_server_nodes(Command& command, const Site& site) {
    command.job.nodes = positive_count(option_value(command.argv, site.first, {"--nnodes"}));
    const std::string address =
        option_value(command.argv, site.first,
                     {"--dist-init-addr", "--nccl-init-addr", "--master-addr", "--address"});
    const std::size_t colon = address.rfind(':');
    const bool port = colon != std::string::npos && address.find(':') == colon;
    command.job.rendezvous = address == "auto" ? "" : port ? address.substr(0, colon) : address;
}

/// vLLM's Ray workers, perhaps on other hosts, are given every NCCL_ variable of the server
/// (vllm/ray/ray_env.py, get_env_vars_to_copy).
bool copies_variables(const Command& command, const Site& site) {
    const std::string value =
        option_value(command.argv, site.first,
                     {"--distributed-executor-backend", "--data-parallel-backend", "-dpb"});
    return site.kind == "vllm" && value == "ray";
}

/// Servers and workers of a cluster start their own processes here: they get the variables.
Command recognise_server(Command command, const Site& site, const Host& host) {
    command.job.same_host = true;
    command.job.gpu_job_unknown = true;
    command.family = site.kind;
    read_server_nodes(command, site);
    command.program = own_interpreter(site, host);
    if (command.program.empty()) command.program = site.path;
    command.program_at = {site.word};
    if (copies_variables(command, site)) {
        command.job.same_host = false;
        return export_only(std::move(command),
                           "vLLM hands NCCL's variables over to Ray's workers on other hosts");
    }
    return export_only(std::move(command),
                       fmt::format("{} starts its own processes, each is the server's", site.kind));
}

/// A launcher that is given variables only, and not those of this host.
Command recognise_away(Command command, const Site& site) {
    command.family = site.kind;
    return export_only(
        std::move(command),
        fmt::format("toporun does not read the command line of {}, its ranks may start elsewhere",
                    site.kind));
}

Command recognise_site(Command command, const Site& site, const Environment& environment,
                       const Host& host) {
    command.launcher_at = site.word;
    if (site.role == Role::away) return recognise_away(std::move(command), site);
    if (site.role == Role::server) return recognise_server(std::move(command), site, host);
    const std::string& kind = site.kind;
    if (kind == "torchrun" || kind == "tune")
        return recognise_torchrun(std::move(command), site, environment, host);
    if (kind == "mpi") return recognise_mpi(std::move(command), site, environment, host);
    if (kind == "srun") return recognise_srun(std::move(command), site, environment, host);
    if (kind == "accelerate")
        return recognise_accelerate(std::move(command), site, environment, host);
    if (kind == "deepspeed")
        return recognise_deepspeed(std::move(command), site, environment, host);
    if (kind == "colossalai") return recognise_colossalai(std::move(command), site, host);
    if (kind == "composer") return recognise_composer(std::move(command), site, host);
    if (kind == "fabric") return recognise_fabric(std::move(command), site, host);
    if (kind == "horovodrun") return recognise_horovodrun(std::move(command), site, host);
    if (kind == "flux") return recognise_flux(std::move(command), site, environment, host);
    if (kind == "llamafactory" || kind == "swift" || kind == "xtuner")
        return recognise_front_end(std::move(command), site, environment, host);
    if (kind == "axolotl" || kind == "trl")
        return recognise_over_accelerate(std::move(command), site, environment, host);
    if (kind == "jsrun") return recognise_jsrun(std::move(command), site, host);
    return recognise_away(std::move(command), site);
}

/// What prefixes in front of a launcher mean for its ranks.
Command behind_prefixes(Command command, const Peeled& peeled) {
    const std::string& launcher = command.job.launcher;
    if (peeled.binds.empty() || launcher == "plain") return command;
    if (launcher == "srun" || launcher == "flux" || launcher == "jsrun")
        return command;  // a daemon starts the ranks: nothing of the launcher's CPUs is handed on
    command.job.user_binds = true;
    if (command.job.open_mpi == 0)
        command.job.binding_given = true;
    else if (!command.job.binding_given)  // it binds by the machine's topology, mask or not
        command.notes.push_back(fmt::format(
            "Open MPI's own binding ignores {}: it is switched off, the ranks keep those CPUs",
            peeled.binds));
    command.notes.push_back(fmt::format(
        "{} chooses the CPUs of all ranks together: toporun does not bind them", peeled.binds));
    return command;
}

/// `srun toporun program`: the step's nodes are the job's, and of several tasks on this host each
/// is a rank. One alone may start the ranks of its host itself.
void read_step(env::Job& job, const Environment& environment) {
    const auto step = step_of(environment);
    if (!step) return;
    job.nodes = step->nodes;
    if (step->tasks_here.value_or(1) < 2) return;
    job.ranks_per_node = step->tasks_here;
    job.task_of_step = true;
}

Command recognise_plain(Command command, const Peeled& peeled, const Environment& environment,
                        const Host& host) {
    read_step(command.job, environment);
    command.job.gpu_job_unknown = true;
    std::string away = shell_leaves_host(command.argv, 0, environment, host);
    if (away.empty() && !peeled.opaque) away = words_leave_host(command.argv, peeled.inner, host);
    command.job.same_host = (!peeled.opaque || peeled.shell) && away.empty();
    command.program = innermost_program(command.argv, 0, host);
    const bool found = peeled.inner < command.argv.size();
    if (found) command.program_at = {peeled.inner};
    if (found && !peeled.prefixes.empty() && is_launcher_name(command.argv[peeled.inner])) {
        command.job.gpu_job_unknown = false;
        command.job.same_host = false;
        command.notes.push_back(fmt::format(
            "'{}' stands behind '{}': put toporun in front of '{}' itself to place its ranks",
            printable(command.argv[peeled.inner]), peeled.prefixes.back(),
            printable(command.argv[peeled.inner])));
    }
    if (!away.empty()) return export_only(std::move(command), away);
    if (!peeled.prefixes.empty())
        return export_only(std::move(command),
                           fmt::format("the program stands behind '{}'", peeled.prefixes.front()));
    if (command.job.task_of_step)
        return export_only(std::move(command),
                           "srun has started this rank, it keeps the CPUs that srun gave it");
    return export_only(std::move(command), "a plain program starts its ranks itself, if any");
}

}  // namespace

std::string rewrite_text(Rewrite rewrite) {
    switch (rewrite) {
        case Rewrite::environment:
            return "env";
        case Rewrite::inserted:
            return "inserted";
        case Rewrite::export_only:
            break;
    }
    return "export-only";
}

Command export_only(Command command, const std::string& reason) {
    command.rewrite = Rewrite::export_only;
    command.job.shim = false;
    command.export_only_reason = reason;
    command.job.why_not_here = reason;
    return command;
}

Command with_gpus(Command command, std::optional<int> gpus) {
    if (gpus != 1 || command.alone_reason.empty()) return command;
    command.job.nodes = command.job.ranks_per_node = 1;
    const std::string reason = command.alone_reason;
    return export_only(std::move(command), reason);
}

Command without_shim(Command command, const std::string& reason) {
    command = export_only(std::move(command), reason);
    command.job.why_not_here.clear();  // the caller warns of it: one line is enough
    return command;
}

std::string variable(const Environment& environment, const std::string& name) {
    const auto found = environment.find(name);
    return found == environment.end() ? std::string() : found->second;
}

bool is_this_host(const std::string& name, const Host& host) {
    const auto short_name = [](const std::string& text) {
        const bool address = text.find_first_not_of("0123456789.") == std::string::npos ||
                             text.find(':') != std::string::npos;
        std::string lower = address ? text : text.substr(0, text.find('.'));
        std::transform(lower.begin(), lower.end(), lower.begin(),
                       [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
        return lower;
    };
    if (name.empty()) return false;
    if (name == "localhost" || name == "::1" || name.starts_with("127.")) return true;
    const std::vector<std::string> names = host.names();
    return std::any_of(names.begin(), names.end(), [&](const std::string& own) {
        return !own.empty() && short_name(own) == short_name(name);
    });
}

Environment variables_of_ranks(const Command& command, Environment environment) {
    if (command.given.cleared) environment.clear();
    for (const std::string& name : command.given.removed) environment.erase(name);
    for (const auto& [name, value] : command.given.set) environment[name] = value;
    return environment;
}

std::string structure_text(const Command& command) {
    std::string name = "a plain program";
    if (command.launcher_at)
        name = command.family.empty() ? printable(base_name(command.argv[*command.launcher_at]))
                                      : command.family;
    std::string text = "recognised: " + name;
    if (!command.prefixes.empty()) text += fmt::format(" behind {}", join(command.prefixes, ", "));
    const auto count = [](const std::optional<int>& number, std::string_view one,
                          std::string_view several) {
        if (!number) return fmt::format("? {}", several);
        return fmt::format("{} {}", *number, *number == 1 ? one : several);
    };
    if (command.job.launcher != "plain")
        text += fmt::format(", {} x {}", count(command.job.nodes, "node", "nodes"),
                            count(command.job.ranks_per_node, "rank", "ranks"));
    std::vector<std::string> programs;
    for (const std::size_t at : command.program_at)
        if (at < command.argv.size()) programs.push_back(printable(shell_word(command.argv[at])));
    if (!programs.empty()) text += ", program " + join(programs, " and ");
    switch (command.rewrite) {
        case Rewrite::environment:
            return text + "; shim through PYTHON_EXEC";
        case Rewrite::inserted:
            if (command.guard == Guard::toporun) return text + "; toporun inserted, on every node";
            return text +
                   (command.job.other_hosts ? "; shim inserted, on every host" : "; shim inserted");
        case Rewrite::export_only:
            break;
    }
    return text + "; variables only: " + command.export_only_reason;
}

Command recognise(std::vector<std::string> argv, const Environment& environment, const Host& host) {
    Command command;
    command.argv = std::move(argv);
    if (command.argv.empty()) return export_only(std::move(command), "no command was given");
    command.executable = host.find_executable(command.argv[0]);
    const Peeled peeled = peel_prefixes(command.argv, 0);
    command.prefixes = peeled.prefixes;
    if (!peeled.opaque || peeled.shell)
        command.given = {peeled.set, peeled.removed, peeled.cleared};
    command.assignments_at = peeled.assignments_at;
    const Site site = find_site(command.argv, peeled, host);
    const Environment inner = variables_of_ranks(command, environment);
    // Without these variables they run the script alone.
    const bool alone = (site.kind == "swift" || site.kind == "xtuner") &&
                       !inner.contains("NPROC_PER_NODE") && !inner.contains("NNODES");
    if (site.role == Role::none || alone)
        return recognise_plain(std::move(command), peeled, environment, host);
    return behind_prefixes(recognise_site(std::move(command), site, inner, host), peeled);
}

}  // namespace toporun::launcher
