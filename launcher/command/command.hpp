#pragma once

#include <cstddef>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "env/job.hpp"
#include "launcher/command/host.hpp"
#include "launcher/command/options.hpp"

namespace toporun::launcher {

using Environment = std::map<std::string, std::string>;

/// How the rank shim gets in front of a worker.
enum class Rewrite {
    environment,  ///< PYTHON_EXEC: no word of the command changes
    inserted,     ///< one word before the program word of each context
    export_only,  ///< not at all: variables are exported, the command runs as typed
};

/// "env", "inserted", "export-only".
std::string rewrite_text(Rewrite rewrite);

/// What starts a rank's program all the same on another host where toporun's shim does not run.
enum class Guard {
    shell,
    /// The same, and a program that cannot be run there ends with srun's own status.
    srun,
    /// A shell in front of toporun itself, which stands in front of another launcher.
    toporun,
    /// Python: the launcher hands its words to a shell without quoting what is special in them.
    python,
    /// The same, and the launcher's own `--local_rank=N` is put in by it.
    python_local_rank,
};

/// The guard is a Python program, whose words have no dashes.
bool by_python(Guard guard);

/// A change of the command line that puts the shim in front of a worker.
struct Edit {
    std::size_t at = 0;  ///< position in Command::argv: the new words stand before this one
    bool drop = false;   ///< the word at `at` goes: a switch that the new words stand for
    std::vector<std::string> before;  ///< words in front of the shim
    bool shim = false;
    std::vector<std::string> after;  ///< words behind it
    bool when_binding = false;       ///< only where the plan binds the ranks
};

/// What the command line itself does to the variables that the ranks get.
struct GivenVariables {
    std::map<std::string, std::string> set;  ///< `env N=V`, `mpirun -x N=V`, ...
    std::vector<std::string> removed;        ///< `env -u N`
    bool cleared = false;                    ///< `env -i`
};

/// The host where rank 0 starts, of a launcher that reaches other hosts.
struct FirstHost {
    std::string name;     ///< as the launcher's list or the allocation has it
    bool here = false;    ///< it is this one
    std::string unknown;  ///< why it is not known, one line; "" = it is
};

/// The options of one launcher of the command line.
struct LauncherOptions {
    std::string kind;  ///< srun, torchrun, accelerate, deepspeed, composer, fabric, mpi
    std::vector<Given> given;
    bool enclosed = false;  ///< in a shell's text or a container: variables are not all known
};

/// What the user typed, as far as it had to be understood.
struct Command {
    env::Job job;
    std::vector<std::string> argv;      ///< as typed
    std::string executable;             ///< argv[0] resolved on PATH; "" = not found
    std::string family;                 ///< openmpi4, openmpi5, torchrun, vllm, ...; "" for plain
    std::vector<std::string> prefixes;  ///< prefix commands in front of it (`numactl`)
    /// The launcher's word in argv; nothing for a plain program.
    std::optional<std::size_t> launcher_at;
    /// Position in argv of the user's program word, one for each context; empty = not found.
    std::vector<std::size_t> program_at;
    /// The user's program or the Python interpreter whose NCCL is looked for; "" = unknown.
    std::string program;
    /// torchrun: what it would start workers with; "" = unknown, or pyenv decides when it starts.
    std::string interpreter;
    Rewrite rewrite = Rewrite::export_only;
    std::vector<Edit> edits;     ///< of Rewrite::inserted
    Guard guard = Guard::shell;  ///< where job.other_hosts
    GivenVariables given;
    FirstHost first_host;  ///< of Open MPI, Hydra and srun where job.other_hosts
    /// srun on several nodes: this host is certain to be one of them. Else each node makes a plan
    /// of its own.
    bool ranks_here = false;
    /// srun, and the launcher that it starts or that stands alone, outermost first.
    /// Empty where the line has several programs or was not understood.
    std::vector<LauncherOptions> launchers;
    /// Where NAME=VALUE words must stand for variables to arrive (behind `env -i`).
    std::optional<std::size_t> assignments_at;
    /// The launcher hands over only the variables that it is told: the shim gets its plan as an
    /// option.
    bool drops_variables = false;
    std::string export_only_reason;  ///< why there is no shim, one line
    /// torchrun: the user's word for the ranks per node when it is no number (gpu, auto, cpu); ""
    /// else.
    std::string ranks_word;
    /// Why it has no ranks behind a launcher where a single GPU is visible; "" = it has.
    std::string alone_reason;
    std::vector<std::string> notes;  ///< one line each, for the user
};

/// Recognises the launcher and reads its command line as far as is needed to find the user's
/// program and the counts. Never fails: what is not understood is a plain command with
/// `export_only`. Grammar and default values: docs/launchers.md.
Command recognise(std::vector<std::string> argv, const Environment& environment, const Host& host);

/// The variables of `environment` as the command line hands them on.
Environment variables_of_ranks(const Command& command, Environment environment);

/// One line for the user: launcher, prefixes, counts, program, and how the shim gets in front.
std::string structure_text(const Command& command);

/// The command on this host's visible GPUs: with a single one it may have no launcher.
Command with_gpus(Command command, std::optional<int> gpus);

/// The command without a shim, for `reason`: export only.
Command without_shim(Command command, const std::string& reason);

}  // namespace toporun::launcher
