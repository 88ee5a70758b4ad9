// A launcher in the text that srun's tasks give a shell: `srun bash -c 'torchrun ...'`.
#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

bool is_name_character(char c) {
    return c == '_' || (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

/// Whether the text may set the variable by other words than those of a launcher.
bool may_set(std::string_view text, const std::string& name) {
    for (const std::string& sets :
         {name + "=", "for " + name, std::string("source "), std::string("read "),
          std::string("readarray "), std::string("mapfile "), std::string("getopts "),
          std::string("eval "), std::string("printf -v")})
        if (text.find(sets) != std::string_view::npos) return true;
    for (std::size_t at = 0; (at = text.find(". ", at)) != std::string_view::npos; ++at)
        if (at == 0 || std::string_view(" \t\n;&|({").find(text[at - 1]) != std::string_view::npos)
            return true;  // the command `. FILE`
    return false;
}

/// The value that a variable of the job script has in every task too; nothing for one that Slurm,
/// the shell or the text may set.
std::optional<std::string> same_in_tasks(const std::string& name, std::string_view text,
                                         const Environment& environment) {
    const bool of_tasks = name.starts_with("SLURM_") && name != "SLURM_JOB_NUM_NODES";
    const auto found = environment.find(name);
    if (of_tasks || name == "HOSTNAME" || found == environment.end()) return std::nullopt;
    if (may_set(text, name)) return std::nullopt;
    return found->second;
}

/// The word with `$NAME` and `${NAME}` as the tasks have them; those that are not known stay.
std::string expand(const std::string& word, std::string_view text, const Environment& environment) {
    std::string out;
    for (std::size_t i = 0; i < word.size();) {
        const bool braces = word[i] == '$' && i + 1 < word.size() && word[i + 1] == '{';
        std::size_t end = i + (braces ? 2 : 1);
        const std::size_t start = end;
        while (word[i] == '$' && end < word.size() && is_name_character(word[end])) ++end;
        const std::string name = word.substr(start, end - start);
        if (braces && (end == word.size() || word[end] != '}')) end = start;
        if (braces && end > start) ++end;
        const auto value =
            name.empty() || end == start ? std::nullopt : same_in_tasks(name, text, environment);
        out += value ? *value : word.substr(i, end - i);
        i = end;
    }
    return out;
}

/// The text that argv[word...] gives a shell, also where that is in a container; "" = none.
std::string text_for_shell(std::span<const std::string> argv, std::size_t word, const Host& host) {
    const std::string text = rank_text(argv, word, host);
    const Peeled peeled = peel_prefixes(argv, word);
    if (!text.empty() || !peeled.opaque || peeled.shell || peeled.inner < argv.size()) return text;
    for (std::size_t i = word; i + 2 < argv.size(); ++i)
        if (prefix_place(argv[i]) == Place::shell && argv[i + 1].starts_with('-') &&
            argv[i + 1].ends_with('c'))
            return rank_text(argv, i, host);
    return {};
}

/// What only the shell can work out, or variables that a launcher reads by itself.
bool is_uncertain(std::string_view text) {
    for (const char* sets : {"`", "PET_", "NODE_RANK=", "WORLD_SIZE=", "BASE_RANK="})
        if (text.find(sets) != std::string_view::npos) return true;
    for (std::size_t at = 0; (at = text.find("${", at)) != std::string_view::npos;) {
        at += 2;
        while (at < text.size() && is_name_character(text[at])) ++at;
        if (at == text.size() || text[at] != '}') return true;  // ${RANK:-0}, ${hosts[0]}
    }
    return false;
}

bool is_known(const std::string& word) {
    return word.find('$') == std::string::npos;
}

/// The word behind the last option and its value.
std::size_t behind_options(const LauncherOptions& options, const std::vector<std::string>& argv,
                           std::size_t first) {
    std::size_t end = first;
    for (const Given& given : options.given) {
        if (given.at < first) continue;  // of a file
        const bool two_words = given.words.size() > shell_word(argv[given.at]).size();
        end = std::max(end, given.at + (two_words ? 2 : 1));
    }
    return end;
}

}  // namespace

std::optional<LauncherOptions> options_in_shell_text(std::span<const std::string> argv,
                                                     std::size_t word,
                                                     const Environment& environment,
                                                     const Host& host) {
    const std::string text = text_for_shell(argv, word, host);
    if (text.empty() || is_uncertain(text)) return std::nullopt;
    Command inner;
    for (const std::vector<std::string>& words : shell_commands(text)) {
        if (find_site(words, peel_prefixes(words, 0), host).role != Role::launcher) continue;
        if (!inner.argv.empty()) return std::nullopt;  // which of them runs is not known
        inner.argv = words;
    }
    if (inner.argv.empty()) return std::nullopt;
    for (std::string& one : inner.argv) {
        if (one.ends_with('$')) return std::nullopt;  // $(...): the words behind it are not read
        one = expand(one, text, environment);
    }
    const Site site = find_site(inner.argv, peel_prefixes(inner.argv, 0), host);
    auto options = inner_options(inner, site, environment, host);
    if (!options) return std::nullopt;
    const std::size_t program = behind_options(*options, inner.argv, site.first);
    if (program < inner.argv.size() && inner.argv[program].starts_with('$'))
        return std::nullopt;  // options may be in the variable
    for (Given& given : options->given)
        if (!is_known(given.value)) given.value = kUnknownValue;
    options->enclosed = true;
    return options;
}

}  // namespace toporun::launcher
