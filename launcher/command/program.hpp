#pragma once

#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/command/command.hpp"
#include "launcher/command/host.hpp"
#include "launcher/command/prefixes.hpp"

/// Words of a command line that are no options: prefix commands, launchers, interpreters.
namespace toporun::launcher {

/// The part of `word` after its last slash.
std::string base_name(const std::string& word);

/// A Python interpreter by its name: python, python3, python3.11, pypy3.
bool is_python(const std::string& word);

/// The name of a command that starts several ranks.
bool is_launcher_name(const std::string& word);

/// The Python that the first lines of a script name, resolved: `#!/path/python3`, `#!/usr/bin/env
/// python3`, and the two-line form that installers write for long paths. "" = another program.
std::string script_python(const std::string& script, const Host& host);

/// The executable that a program word ends in: behind prefixes, the Python of a Python script. ""
/// when it is not found here.
std::string innermost_program(std::span<const std::string> argv, std::size_t first,
                              const Host& host);

/// Why what a shell runs for argv[first...] (`bash train.sh`, `sh -c TEXT`, `./train.sh`) may start
/// the training in another place; "" = it starts it here, where it inherits the environment, or the
/// command is no shell text. `environment` tells whether an MPI launcher in the text has other
/// hosts.
std::string shell_leaves_host(std::span<const std::string> argv, std::size_t first,
                              const Environment& environment, const Host& host);

/// Why a program at argv[word] that is no Python may start the training in another place: a
/// launcher or a shell text that uses one is among its words (`./wrap.sh srun ...`); "" = none is.
std::string words_leave_host(std::span<const std::string> argv, std::size_t word, const Host& host);

/// The text that argv[word...] gives a shell: of `sh -c TEXT`, `bash train.sh`, `./train.sh`; ""
/// for other programs and what cannot be read.
std::string rank_text(std::span<const std::string> argv, std::size_t word, const Host& host);

/// The commands of a shell text, with those of the texts that it gives to shells; none where not
/// all of it could be read.
std::vector<std::vector<std::string>> shell_commands(std::string_view text);

/// Why `path` cannot be started through the shim as the launcher would start it; "" = it can.
/// `arguments` are looked at for the text of `sh -c`.
std::string refuses_shim(std::span<const std::string> argv, std::size_t word,
                         const std::string& path, const Host& host);

}  // namespace toporun::launcher
