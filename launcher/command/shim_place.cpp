#include <fmt/format.h>

#include <algorithm>
#include <span>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

/// How the shim gets in front of the ranks of a launcher.
namespace toporun::launcher {
namespace {

/// The file that a launcher starts for the word: relative to its working directory, else by PATH.
std::string program_path(const std::string& word, const std::string& directory, const Host& host) {
    const bool relative = word.find('/') != std::string::npos && word[0] != '/';
    return host.find_executable(!directory.empty() && relative ? directory + "/" + word : word);
}

std::string refusal(const Command& command, const std::vector<ProgramWord>& programs,
                    const Host& host) {
    for (const ProgramWord& program : programs) {
        const std::vector<std::string> words(
            command.argv.begin(), command.argv.begin() + static_cast<std::ptrdiff_t>(program.end));
        const std::string path = program_path(words[program.at], program.directory, host);
        const std::string reason = refuses_shim(words, program.at, path, host);
        if (!reason.empty()) return reason;
        if (peel_prefixes(words, program.at).cleared)
            return "env -i in front of the ranks' program keeps toporun's variables out";
    }
    return {};
}

/// The text names a list of GPUs: CUDA_VISIBLE_DEVICES, HIP_VISIBLE_DEVICES, ...
bool chooses_gpus(std::string_view text) {
    return text.find("VISIBLE_DEVICES") != std::string_view::npos;
}

/// pyenv's stand-in for a program: a shell script that becomes the chosen version's program.
bool is_pyenv_script(const std::string& path, const Host& host) {
    const std::string text = host.read_file(path, 4096).value_or("");
    return text.starts_with("#!") && text.find("/pyenv\" exec \"$program\"") != std::string::npos;
}

}  // namespace

Command insert_words(Command command, std::vector<Edit> edits) {
    command.rewrite = Rewrite::inserted;
    command.edits = std::move(edits);
    command.job.shim = true;
    return command;
}

Command insert_shim(Command command, const Site& site, const std::vector<ProgramWord>& programs,
                    const Host& host) {
    std::string reason = refusal(command, programs, host);
    if (reason.empty() && !site.own_path.empty())
        reason = fmt::format("which program '{}' finds is not known here", site.own_path);
    if (!reason.empty()) {
        command.job.same_host = false;  // behind an opaque word paths of this host mean nothing
        return export_only(std::move(command), reason);
    }
    std::vector<Edit> edits;
    for (const ProgramWord& program : programs) {
        edits.push_back({program.at, false, {}, true, {}});
        const std::span<const std::string> words(command.argv.data(), program.end);
        const Peeled peeled = peel_prefixes(words, program.at);
        add_given(command.given, peeled);
        if (chooses_gpus(rank_text(words, program.at, host)))
            command.job.rank_gpus_unknown =
                "the shell text in front of the ranks chooses their GPUs";
        // numactl fails where the CPUs that it names are not in the mask that it is given.
        if (peeled.binds.empty() || command.job.user_binds) continue;
        command.job.user_binds = command.job.binding_given = true;
        command.notes.push_back(fmt::format(
            "{} in front of the program binds the ranks: toporun does not", peeled.binds));
    }
    return insert_words(std::move(command), std::move(edits));
}

Command insert_shim_on_hosts(Command command, const Site& site,
                             const std::vector<ProgramWord>& programs, const Host& host,
                             const std::string& away) {
    return on_other_hosts(insert_shim(std::move(command), site, programs, host), away);
}

Command on_other_hosts(Command command, const std::string& away) {
    if (command.rewrite != Rewrite::inserted) return command;
    command.job.same_host = command.job.other_hosts = true;
    command.notes.push_back(
        fmt::format("{}: each host decides for itself, where toporun is installed at the same "
                    "place",
                    away));
    return command;
}

void add_given(GivenVariables& given, const Peeled& peeled) {
    if (peeled.cleared) {
        given = {};
        given.cleared = true;
    }
    for (const std::string& name : peeled.removed) {
        given.set.erase(name);
        given.removed.push_back(name);
    }
    for (const auto& [name, value] : peeled.set) given.set[name] = value;
}

void forget_one_rank(env::Job& job, std::span<const std::string> argv, std::size_t word,
                     const Host& host) {
    if (job.ranks_per_node != 1 || word >= argv.size()) return;
    const Peeled peeled = peel_prefixes(argv, word);
    const bool boxed = peeled.inner < argv.size() &&
                       is_launcher_name(argv[peeled.inner]);  // behind a container's command
    if (peeled.shell || boxed || find_site(argv, peeled, host).role != Role::none ||
        !rank_text(argv, word, host).empty())
        job.ranks_per_node.reset();
}

void add_assignments(std::map<std::string, std::string>& variables, const std::string& text,
                     char separator) {
    const std::vector<std::string> parts =
        separator == '\0' ? std::vector<std::string>{text} : split(text, separator);
    for (const std::string& part : parts) {
        const std::size_t equals = part.find('=');
        if (equals != std::string::npos && equals > 0)
            variables[part.substr(0, equals)] = part.substr(equals + 1);
    }
}

Command use_python_exec(Command command) {
    command.rewrite = Rewrite::environment;
    command.job.shim = true;
    return command;
}

Command by_python_exec(Command command, const Site& site, const Host& host) {
    if (command.interpreter.empty() && !parent_tells_interpreter(site, host)) {
        const std::string reason = interpreter_unknown(command, site);
        return export_only(std::move(command), reason);
    }
    return use_python_exec(std::move(command));
}

std::string own_interpreter(const Site& site, const Host& host) {
    if (!site.module) return script_python(site.path, host);
    const bool program = host.read_file(site.path, 4).value_or("") == "\177ELF";
    return program ? site.path : "";  // a script may enter a container
}

bool parent_tells_interpreter(const Site& site, const Host& host) {
    return !site.own_path.empty() || is_pyenv_script(site.path, host);
}

std::string interpreter_unknown(const Command& command, const Site& site) {
    return fmt::format("the Python interpreter of '{}' is not known",
                       printable(command.argv[site.word]));
}

std::string scan_problem(const Scan& scan, const Site& site) {
    if (!scan.problem.empty()) return scan.problem;
    if (last_given(scan, Meaning::no_launch) != nullptr)
        return fmt::format("{} only prints its help or its version", site.kind);
    if (const Given* given = last_given(scan, Meaning::opaque))
        return fmt::format("{}'s option '{}' leaves no place for toporun before the ranks",
                           site.kind, given->name);
    return {};
}

std::optional<int> given_count(const Scan& scan, Meaning meaning) {
    const Given* given = last_given(scan, meaning);
    return given == nullptr ? std::nullopt : positive_count(given->value);
}

}  // namespace toporun::launcher
