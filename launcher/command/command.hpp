#pragma once

#include <cstddef>
#include <map>
#include <string>
#include <vector>

#include "env/job.hpp"
#include "launcher/command/host.hpp"

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

/// What the user typed, as far as it had to be understood.
struct Command {
    env::Job job;
    std::vector<std::string> argv;      ///< as typed
    std::string executable;             ///< argv[0] resolved on PATH; "" = not found
    std::string family;                 ///< openmpi4, openmpi5, torchrun, ...; "" for plain
    std::vector<std::string> prefixes;  ///< prefix commands in front of the program (`numactl`)
    /// Position in argv of the user's program word, one for each context; empty = not found.
    std::vector<std::size_t> program_at;
    /// The user's program or the Python interpreter whose NCCL is looked for; "" = unknown.
    std::string program;
    /// torchrun: what it would start workers with; "" = unknown, or pyenv decides when it starts.
    std::string interpreter;
    Rewrite rewrite = Rewrite::export_only;
    std::string export_only_reason;  ///< why there is no shim, one line
    /// torchrun: the user's word for the ranks per node when it is no number (gpu, auto, cpu); ""
    /// else.
    std::string ranks_word;
    std::vector<std::string> notes;  ///< one line each, for the user
};

/// Recognises the launcher and reads its command line as far as is needed to find the user's
/// program and the counts. Never fails: what is not understood is a plain command with
/// `export_only`. Grammar and default values: docs/launchers.md.
Command recognise(std::vector<std::string> argv, const Environment& environment, const Host& host);

/// The command without a shim, for `reason`: export only.
Command without_shim(Command command, const std::string& reason);

}  // namespace toporun::launcher
