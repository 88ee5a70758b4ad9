#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>

#include "launcher/command/command.hpp"
#include "launcher/command/options.hpp"
#include "launcher/command/prefixes.hpp"
#include "launcher/command/site.hpp"

/// One function for each family of launchers. `command` holds argv and executable, `site` the
/// launcher's own words.
namespace toporun::launcher {

Command recognise_torchrun(Command command, const Site& site, const Environment& environment,
                           const Host& host);
/// Open MPI 4 (`major` 4) and 5: `mpirun` of PRRTE.
Command recognise_openmpi(Command command, const Site& site, int major,
                          const Environment& environment, const Host& host);
Command recognise_hydra(Command command, const Site& site, const Environment& environment,
                        const Host& host);
Command recognise_srun(Command command, const Site& site, const Environment& environment,
                       const Host& host);
Command recognise_accelerate(Command command, const Site& site, const Environment& environment,
                             const Host& host);
Command recognise_deepspeed(Command command, const Site& site, const Environment& environment,
                            const Host& host);
Command recognise_colossalai(Command command, const Site& site, const Host& host);
Command recognise_composer(Command command, const Site& site, const Host& host);
Command recognise_fabric(Command command, const Site& site, const Host& host);
/// LLaMA-Factory, ms-swift and XTuner, which start torchrun for themselves.
Command recognise_front_end(Command command, const Site& site, const Environment& environment,
                            const Host& host);
/// axolotl and trl, which start accelerate.
Command recognise_over_accelerate(Command command, const Site& site, const Environment& environment,
                                  const Host& host);
Command recognise_horovodrun(Command command, const Site& site, const Host& host);
Command recognise_flux(Command command, const Site& site, const Environment& environment,
                       const Host& host);
Command recognise_jsrun(Command command, const Site& site, const Host& host);

/// The options of a launcher that another launcher starts; nothing for a program, for launchers
/// that pre-flight does not judge there and for what is not understood. Of MPI's launchers the kind
/// alone.
std::optional<LauncherOptions> inner_options(const Command& command, const Site& site,
                                             const Environment& environment, const Host& host);
/// What an option of a launcher in a shell text says where it is not known before the text runs.
constexpr const char* kUnknownValue = "unknown";

/// The same for the only launcher in the text that argv[word...] gives a shell, with the values
/// that variables of the job script have. Nothing where which words it gets is not certain.
std::optional<LauncherOptions> options_in_shell_text(std::span<const std::string> argv,
                                                     std::size_t word,
                                                     const Environment& environment,
                                                     const Host& host);

/// The same for accelerate, with what its config file says where the line does not, deepspeed, with
/// the host file that it takes by itself, composer and fabric.
std::optional<LauncherOptions> python_launcher_options(const Command& command, const Site& site,
                                                       const Environment& environment,
                                                       const Host& host);

/// The command as one that is only given variables, for `reason`.
Command export_only(Command command, const std::string& reason);

/// A program word of the command line.
struct ProgramWord {
    std::size_t at = 0;
    std::size_t end = 0;    ///< the word behind the program's last one
    std::string directory;  ///< the working directory that the launcher gives it; "" = its own
};

/// The command with the shim in front of each program word, where each resolves to an executable
/// here; else export only: the launcher gives its own error and status.
Command insert_shim(Command command, const Site& site, const std::vector<ProgramWord>& programs,
                    const Host& host);

/// The same where ranks start on other hosts too, because of `away`: there each node decides for
/// itself.
Command insert_shim_on_hosts(Command command, const Site& site,
                             const std::vector<ProgramWord>& programs, const Host& host,
                             const std::string& away);

/// The rewritten command where ranks start on other hosts too, because of `away`.
Command on_other_hosts(Command command, const std::string& away);

/// The command with these words around the shim. The program is an interpreter that is known.
Command insert_words(Command command, std::vector<Edit> edits);

/// Adds the `NAME=VALUE` parts of `text` to `variables`, split at `separator` (NUL: one part).
void add_assignments(std::map<std::string, std::string>& variables, const std::string& text,
                     char separator);

/// What stands in front of a program behind the launcher does to its variables.
void add_given(GivenVariables& given, const Peeled& peeled);

/// One task a node whose program argv[word...] may start ranks by itself, a shell or a launcher:
/// their number is not known.
void forget_one_rank(env::Job& job, std::span<const std::string> argv, std::size_t word,
                     const Host& host);

/// The command with the shim by PYTHON_EXEC. Without a known interpreter the shim asks its parent.
Command use_python_exec(Command command);

/// The same where the interpreter is known or the shim can ask for it; else export only.
Command by_python_exec(Command command, const Site& site, const Host& host);

/// The Python that a launcher written in Python runs with, and so starts its workers with. "" when
/// it is not known.
std::string own_interpreter(const Site& site, const Host& host);
/// The shim may ask its parent for the interpreter: behind pyenv and behind prefixes that find the
/// launcher by themselves.
bool parent_tells_interpreter(const Site& site, const Host& host);
/// Why the interpreter of the launcher is not known, one line.
std::string interpreter_unknown(const Command& command, const Site& site);

/// Why the options were not understood or start nothing; "" when they are fine.
std::string scan_problem(const Scan& scan, const Site& site);

/// `name` means this host: one of its names, with or without the domain, or a loopback address.
bool is_this_host(const std::string& name, const Host& host);

/// The variable, "" when it is unset.
std::string variable(const Environment& environment, const std::string& name);

/// The value that was given last for `meaning` as a count; nothing else.
std::optional<int> given_count(const Scan& scan, Meaning meaning);

}  // namespace toporun::launcher
