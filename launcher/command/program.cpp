#include "launcher/command/program.hpp"

#include <elf.h>
#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <map>

#include "base/text.hpp"
#include "launcher/command/prefixes.hpp"
#include "launcher/command/shell_text.hpp"
#include "launcher/command/site.hpp"

namespace toporun::launcher {
namespace {

/// The interpreter and its argument in a `#!` line.
std::vector<std::string> shebang_words(std::string_view text) {
    if (!text.starts_with("#!")) return {};
    std::string line(text.substr(2, text.find('\n') - 2));
    std::replace(line.begin(), line.end(), '\t', ' ');  // a carriage return belongs to the word
    std::vector<std::string> words;
    for (const std::string& word : split(line, ' '))
        if (!word.empty()) words.push_back(word);
    return words;
}

/// `'''exec' "/long path/python" "$0" "$@"`, the second line of scripts with long interpreter
/// paths.
std::string second_line_python(std::string_view text) {
    constexpr std::string_view kStart = "'''exec' ";
    const std::size_t line = text.find('\n');
    if (line == std::string_view::npos) return {};
    text.remove_prefix(line + 1);
    if (!text.starts_with(kStart)) return {};
    text.remove_prefix(kStart.size());
    const char end = text.starts_with('"') ? '"' : ' ';
    if (end == '"') text.remove_prefix(1);
    const std::size_t length = text.find(end);
    return length == std::string_view::npos ? "" : std::string(text.substr(0, length));
}

/// Commands of a shell text behind which paths of this host may mean nothing: NCCL then writes its
/// log to stdout.
constexpr std::array<std::string_view, 9> kOtherPlaces = {
    "singularity", "apptainer", "docker", "podman", "enroot", "shifter", "ch-run", "srun", "ssh"};

constexpr std::size_t kScriptBytes = 64 * 1024;
constexpr int kDeepestShell = 4;  ///< `bash -c` in `bash -c`

/// What a shell word will run: the word behind it that is a script, or the text behind `-c`.
struct ShellWord {
    std::size_t at = 0;  ///< 0 = neither is there
    bool is_text = false;
};

ShellWord text_of_shell(std::span<const std::string> argv, std::size_t word) {
    for (std::size_t i = word + 1; i < argv.size(); ++i) {
        const std::string& part = argv[i];
        const bool option = part.size() > 1 && (part[0] == '-' || part[0] == '+');
        if (!option) return {i, false};
        if (part.starts_with("--")) {
            if (part == "--rcfile" || part == "--init-file") ++i;
        } else if (part.find('c') != std::string::npos && part[0] == '-') {
            // `-c` may be followed by more options, the text is the first word that is none.
            while (++i < argv.size() && argv[i].size() > 1 && argv[i][0] == '-') {
            }
            return i < argv.size() ? ShellWord{i, true} : ShellWord{};
        } else if (part.ends_with('o') || part.ends_with('O')) {
            ++i;  // the name of a shell option
        }
    }
    return {};
}

/// The text that a shell word will run; nothing when it cannot be read.
std::optional<std::string> shell_text(std::span<const std::string> argv, std::size_t word,
                                      const Host& host) {
    const ShellWord found = text_of_shell(argv, word);
    if (found.at == 0) return std::nullopt;
    return found.is_text ? std::optional(argv[found.at])
                         : host.read_file(argv[found.at], kScriptBytes);
}

/// The commands of a text with those of the texts that it gives to shells (`bash -c '...'`).
ShellText all_commands(std::string_view text, int depth = 0) {
    ShellText read = read_shell_text(text);
    const std::size_t own = depth < kDeepestShell ? read.commands.size() : 0;
    for (std::size_t i = 0; i < own; ++i) {
        const Peeled peeled = peel_prefixes(read.commands[i], 0);
        if (!peeled.shell) continue;
        const ShellWord word = text_of_shell(read.commands[i], *peeled.shell);
        if (!word.is_text) continue;
        ShellText inner = all_commands(read.commands[i][word.at], depth + 1);
        read.whole = read.whole && inner.whole;
        for (auto& words : inner.commands) read.commands.push_back(std::move(words));
    }
    return read;
}

bool is_other_place(const std::string& name) {
    return std::find(kOtherPlaces.begin(), kOtherPlaces.end(), name) != kOtherPlaces.end();
}

/// The first word of a text, wherever it stands, that leads to another place; "" = none.
std::string names_other_place(std::string_view text, const Host& host) {
    constexpr std::string_view kOfNames =
        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_-./";
    std::vector<std::string> words;
    for (std::size_t at = 0; (at = text.find_first_of(kOfNames, at)) != text.npos;) {
        const std::size_t end = std::min(text.find_first_not_of(kOfNames, at), text.size());
        words.emplace_back(text.substr(at, end - at));
        at = end;
    }
    for (std::size_t i = 0; i < words.size(); ++i) {
        if (is_other_place(base_name(words[i]))) return base_name(words[i]);
        if (!is_launcher_name(words[i])) continue;
        const Site site = find_site(words, i, host);
        if (site.role == Role::away || site.reaches_hosts) return site.kind;
    }
    return {};
}

/// The launcher or the container command by which a shell text may start the training in another
/// place; "" = none. What cannot be read counts wherever it stands.
std::string leaves_host(std::string_view text, const Host& host) {
    const ShellText read = all_commands(text);
    for (const std::vector<std::string>& words : read.commands) {
        const Peeled peeled = peel_prefixes(words, 0);
        std::vector<std::string> names;
        for (const std::string& name : peeled.prefixes) names.push_back(name);
        if (peeled.inner < words.size()) names.push_back(base_name(words[peeled.inner]));
        for (const std::string& name : names)
            if (is_other_place(name)) return name;
        // xargs, parallel: what they start is somewhere in their words.
        if (peeled.opaque && !peeled.shell)
            if (std::string name = names_other_place(join(words, " "), host); !name.empty())
                return name;
        const Site site = find_site(words, peeled, host);
        if (site.role == Role::away || site.reaches_hosts) return site.kind;
    }
    return read.whole ? "" : names_other_place(text, host);
}

bool is_shell(const std::string& word) {
    return prefix_place(word) == Place::shell;
}

/// The text of `./train.sh`, a file whose first line names a shell; "" for any other program.
std::string script_text(const std::string& path, const Host& host) {
    const std::string text = host.read_file(path, kScriptBytes).value_or("");
    const std::vector<std::string> words = shebang_words(text);
    if (words.empty()) return {};
    const bool shell = is_shell(words[0]) ||
                       (base_name(words[0]) == "env" && words.size() > 1 && is_shell(words[1]));
    return shell ? text : "";
}

/// An MPI launcher in a shell text that is told other hosts, or that finds them in the allocation.
bool starts_mpi_elsewhere(std::string_view text, const Environment& environment, const Host& host) {
    const auto has = [&](std::string_view word) { return text.find(word) != text.npos; };
    const std::vector<std::vector<std::string>> commands = all_commands(text).commands;
    if (std::none_of(commands.begin(), commands.end(), [&](const std::vector<std::string>& words) {
            const std::string kind = find_site(words, peel_prefixes(words, 0), host).kind;
            return kind == "mpi" || kind == "horovodrun";
        }))
        return false;
    for (const std::string_view option : {" -H", "host", "machinefile", "rankfile", " -f "})
        if (has(option)) return true;
    for (const char* name : {"PBS_NODEFILE", "PE_HOSTFILE", "LSB_HOSTS", "LSB_DJOB_HOSTFILE",
                             "COBALT_NODEFILE", "FLUX_JOB_ID"})
        if (environment.contains(name)) return true;
    const auto nodes = environment.find("SLURM_JOB_NUM_NODES");
    return environment.contains("SLURM_JOB_ID") &&
           (nodes == environment.end() || nodes->second != "1");
}

}  // namespace

std::string base_name(const std::string& word) {
    return word.substr(word.rfind('/') + 1);
}

bool is_python(const std::string& word) {
    const std::string name = base_name(word);
    const std::size_t start = name.starts_with("python") ? 6 : name.starts_with("pypy") ? 4 : 0;
    return start > 0 && name.find_first_not_of("0123456789.t", start) == std::string::npos;
}

std::string script_python(const std::string& script, const Host& host) {
    const std::string text = host.read_file(script, 4096).value_or("");
    std::vector<std::string> words = shebang_words(text);
    if (words.empty()) return {};
    std::string python = words[0];
    if (base_name(python) == "env") {
        const auto word = std::find_if(words.begin() + 1, words.end(), [](const std::string& w) {
            return w[0] != '-' && !is_assignment(w);
        });
        python = word == words.end() ? "" : *word;
    } else if (base_name(python) == "sh") {
        python = second_line_python(text);
    }
    return is_python(python) ? host.find_executable(python) : "";
}

std::string innermost_program(std::span<const std::string> argv, std::size_t first,
                              const Host& host) {
    const Peeled peeled = peel_prefixes(argv, first);
    if (peeled.inner >= argv.size() || peeled.opaque) return {};
    const std::string path = host.find_executable(argv[peeled.inner]);
    if (path.empty() || is_python(path)) return path;
    const std::string python = script_python(path, host);
    return python.empty() ? path : python;
}

std::string rank_text(std::span<const std::string> argv, std::size_t word, const Host& host) {
    const Peeled peeled = peel_prefixes(argv, word);
    if (peeled.shell) return shell_text(argv, *peeled.shell, host).value_or("");
    if (peeled.opaque || peeled.inner >= argv.size()) return {};
    return script_text(host.find_executable(argv[peeled.inner]), host);
}

std::vector<std::vector<std::string>> shell_commands(std::string_view text) {
    ShellText read = all_commands(text);
    if (!read.whole) return {};
    return std::move(read.commands);
}

std::string shell_leaves_host(std::span<const std::string> argv, std::size_t first,
                              const Environment& environment, const Host& host) {
    const Peeled peeled = peel_prefixes(argv, first);
    if (peeled.opaque && !peeled.shell) return {};
    std::optional<std::string> text;
    if (peeled.shell) {
        text = shell_text(argv, *peeled.shell, host);
        if (!text) return "what the shell will run cannot be read";
    } else if (peeled.inner < argv.size()) {
        text = script_text(host.find_executable(argv[peeled.inner]), host);
    }
    const std::string away = leaves_host(text.value_or(""), host);
    if (!away.empty()) return fmt::format("the shell text uses {}", away);
    if (text && starts_mpi_elsewhere(*text, environment, host))
        return "the shell text starts MPI ranks, perhaps on other hosts";
    return {};
}

std::string words_leave_host(std::span<const std::string> argv, std::size_t word,
                             const Host& host) {
    if (word >= argv.size() || is_python(argv[word])) return {};
    const bool python = !script_python(host.find_executable(argv[word]), host).empty();
    for (std::size_t i = word + 1; i < argv.size() && !python; ++i) {
        if (argv[i].find(' ') != std::string::npos) {
            if (const std::string away = leaves_host(argv[i], host); !away.empty())
                return fmt::format("the words of '{}' use {}", printable(argv[0]), away);
            continue;
        }
        if (!is_launcher_name(argv[i]) || (argv[i - 1].starts_with('-') && argv[i - 1] != "--"))
            continue;
        const Site site = find_site(argv, i, host);
        if (site.role == Role::away || site.reaches_hosts || site.kind == "mpi" ||
            site.kind == "horovodrun")
            return fmt::format(
                "'{}' may start ranks elsewhere: put toporun in front of '{}' itself",
                printable(argv[word]), printable(argv[i]));
    }
    return {};
}

namespace {

/// The first 64 KiB of a file are those of an ELF program whose program headers are there: a file
/// cut short is the launcher's to report.
bool is_whole_elf(const std::string& start) {
    Elf64_Ehdr header{};
    if (start.size() < sizeof header || !start.starts_with(ELFMAG)) return false;
    std::memcpy(&header, start.data(), sizeof header);
    if (header.e_ident[EI_CLASS] != ELFCLASS64) return true;  // 32 bits: the kernel will tell
    return header.e_phoff <= start.size() &&
           std::uint64_t{header.e_phnum} * header.e_phentsize <= start.size() - header.e_phoff;
}

}  // namespace

std::string refuses_shim(std::span<const std::string> argv, std::size_t word,
                         const std::string& path, const Host& host) {
    const std::string& typed = argv[word];
    if (path.empty())
        return fmt::format("'{}' is not an executable file here: left to the launcher",
                           printable(typed));
    const std::string start = host.read_file(path, 64 * 1024).value_or("");
    const std::vector<std::string> interpreter = shebang_words(start);
    if (!interpreter.empty() ? !host.is_executable(interpreter[0]) : !is_whole_elf(start))
        return fmt::format("'{}' is no program that the system can start: left to the launcher",
                           printable(typed));
    const Peeled peeled = peel_prefixes(argv, word);
    const std::size_t inner = std::min(peeled.inner, argv.size() - 1);
    const auto boxed =
        std::find_if(peeled.prefixes.begin(), peeled.prefixes.end(), [](const std::string& name) {
            return prefix_place(name) == Place::container || name == "ssh";
        });
    if (is_launcher_name(argv[inner]))
        return fmt::format("each rank starts '{}', which starts ranks itself{}",
                           printable(argv[inner]),
                           boxed == peeled.prefixes.end()
                               ? ""
                               : fmt::format(": put toporun in front of it, behind '{}'", *boxed));
    if (boxed != peeled.prefixes.end())
        return fmt::format("each rank starts in another place, behind '{}'", *boxed);
    const bool shell =
        !interpreter.empty() && !is_python(interpreter[0]) && script_python(path, host).empty();
    const std::string text = shell           ? start
                             : peeled.opaque ? shell_text(argv, word, host).value_or("")
                                             : std::string();
    if (const std::string away = leaves_host(text, host); !away.empty())
        return fmt::format("'{}' is a shell text that uses {}", printable(typed), away);
    return {};
}

}  // namespace toporun::launcher
