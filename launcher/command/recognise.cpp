#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>

#include "base/text.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

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

Mpi mpi_family(const Command& command, const Host& host) {
    const std::string real = base_name(host.real_path(command.executable));
    const std::string typed = base_name(command.argv[0]);
    for (const std::string& name : {real, typed})
        for (const auto& [program, family] : kMpiPrograms)
            if (program == name) return family;
    return mpi_of_version(host.version_text(command.executable));
}

Command recognise_mpi(Command command, const Environment& environment, const Host& host) {
    if (command.executable.empty())
        return export_only(std::move(command), "the command is not found");
    switch (mpi_family(command, host)) {
        case Mpi::openmpi4:
            return recognise_openmpi(std::move(command), 4, environment, host);
        case Mpi::openmpi5:
            return recognise_openmpi(std::move(command), 5, environment, host);
        case Mpi::hydra:
            return recognise_hydra(std::move(command), host);
        case Mpi::other:
            break;
    }
    const std::string reason = fmt::format(
        "which MPI '{}' belongs to is not known: only Open MPI and Hydra are", command.argv[0]);
    return export_only(std::move(command), printable(reason));
}

/// The word behind `-m MODULE` in a Python command line, and the module; `word` 0 when there is
/// none.
struct PythonModule {
    std::string module;
    std::size_t word = 0;
};

PythonModule python_module(const std::vector<std::string>& argv) {
    constexpr std::string_view kWithValue = "WX";
    for (std::size_t i = 1; i < argv.size(); ++i) {
        const std::string& word = argv[i];
        if (word.size() < 2 || word[0] != '-' || word == "--") return {};
        if (word == "--check-hash-based-pycs") ++i;
        if (word.starts_with("--")) continue;
        for (std::size_t at = 1; at < word.size(); ++at) {
            const bool last = at + 1 == word.size();
            if (word[at] == 'c') return {};
            if (word[at] == 'm')
                return last ? PythonModule{i + 1 < argv.size() ? argv[i + 1] : "", i + 2}
                            : PythonModule{word.substr(at + 1), i + 1};
            if (kWithValue.find(word[at]) != std::string_view::npos) {
                if (last) ++i;
                break;
            }
        }
    }
    return {};
}

/// Launchers as Python modules, and the kind that launcher_kind() gives their commands.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kModules = {{
    {"torch.distributed.run", "torchrun"},
    {"torch.distributed.launch", "torchrun"},
    {"accelerate.commands.launch", "accelerate"},
    {"accelerate.commands.accelerate_cli", "accelerate"},
    {"deepspeed.launcher.runner", "deepspeed"},
    {"deepspeed.launcher.launch", "deepspeed"},
    {"horovod.runner.launch", "horovodrun"},
    {"composer.cli.launcher", "composer"},
    {"lightning.fabric.cli", "fabric"},
}};

std::string module_kind(const std::string& module) {
    for (const auto& [name, kind] : kModules)
        if (name == module) return std::string(kind);
    return {};
}

/// A launcher that is given variables only. Those that reach other nodes by themselves are not
/// certain to stay here.
Command recognise_other(Command command, const std::string& kind) {
    command.family = kind;
    return export_only(std::move(command),
                       fmt::format("toporun does not read the command line of {}", kind));
}

/// `srun toporun program`: the step's nodes are the job's.
std::optional<int> nodes_of_step(const Environment& environment) {
    if (variable(environment, "SLURM_STEP_ID").empty()) return std::nullopt;
    const auto nodes = to_integer(variable(environment, "SLURM_STEP_NUM_NODES"));
    return nodes && *nodes > 0 && *nodes < 1 << 20 ? std::optional(static_cast<int>(*nodes))
                                                   : std::nullopt;
}

Command recognise_plain(Command command, const Environment& environment, const Host& host) {
    command.job.nodes = nodes_of_step(environment);
    const Peeled peeled = peel_prefixes(command.argv, 0);
    command.prefixes = peeled.prefixes;
    command.job.gpu_job_unknown = true;
    const std::string away = shell_leaves_host(command.argv, 0, environment, host);
    command.job.same_host = (!peeled.opaque || peeled.shell) && away.empty();
    command.program = innermost_program(command.argv, 0, host);
    const bool found = peeled.inner < command.argv.size();
    if (found) command.program_at = {peeled.inner};
    const std::string inner = found ? launcher_kind(command.argv[peeled.inner]) : "";
    if (!peeled.prefixes.empty() && !inner.empty()) {
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

Command recognise(std::vector<std::string> argv, const Environment& environment, const Host& host) {
    Command command;
    command.argv = std::move(argv);
    if (command.argv.empty()) return export_only(std::move(command), "no command was given");
    command.executable = host.find_executable(command.argv[0]);
    std::string kind = launcher_kind(command.argv[0]);
    std::size_t first = 1;
    if (is_python(command.argv[0])) {
        const PythonModule module = python_module(command.argv);
        kind = module_kind(module.module);
        first = module.word;
    }
    if (kind == "torchrun") return recognise_torchrun(std::move(command), first, environment, host);
    if (kind == "mpi") return recognise_mpi(std::move(command), environment, host);
    if (kind == "srun") return recognise_srun(std::move(command), environment, host);
    if (!kind.empty()) return recognise_other(std::move(command), kind);
    return recognise_plain(std::move(command), environment, host);
}

}  // namespace toporun::launcher
