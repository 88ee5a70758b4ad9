// axolotl and trl: their words become a line of accelerate, or of torchrun, which is read like one
// that was typed. Sources: axolotl src/axolotl/cli/main.py, utils/train.py (018086ec) and
// launchers/resolve.py (0ee81497); TRL trl/cli.py (02d936cb), trl/cli/commands/training.py
// (4dff79bc) and trl/cli/accelerate_config.py (382ccac9).
#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "base/text.hpp"
#include "launcher/command/families.hpp"
#include "launcher/command/places.hpp"
#include "launcher/command/program.hpp"

namespace toporun::launcher {
namespace {

/// The line that a front end starts, and what is not known of it.
struct InnerLine {
    std::vector<std::string> argv;
    std::size_t first = 0;  ///< the word behind the launcher's own words
    bool torchrun = false;
    bool counts_unknown = false;  ///< a file that is not read may hold counts
    std::string other;        ///< why another launcher, or none, starts the ranks; "" = none does
    bool other_here = false;  ///< ... in this process
};

/// `--name value` and `--name=value`, with `-` and `_` alike: the value, "" for the last word.
struct Typed {
    std::string name;  ///< as typed with `-` for `_`, without the dashes; "" = no option
    std::string value;
    bool has_value = false;  ///< behind `=`
};

Typed option_of(const std::string& word) {
    if (!word.starts_with("--") || word.size() == 2) return {};
    const std::size_t equals = word.find('=');
    Typed option;
    option.name = word.substr(2, equals == std::string::npos ? equals : equals - 2);
    std::replace(option.name.begin(), option.name.end(), '_', '-');
    option.has_value = equals != std::string::npos;
    if (option.has_value) option.value = word.substr(equals + 1);
    return option;
}

/// The option at argv[at] with the next word as its value where it has none of its own.
Typed option_with_value(std::span<const std::string> argv, std::size_t at) {
    Typed option = option_of(argv[at]);
    if (!option.has_value && at + 1 < argv.size()) option.value = argv[at + 1];
    return option;
}

/// A line `key: ...` of a YAML file.
bool has_key(const std::string& text, std::string_view key, std::string_view value = {}) {
    for (const std::string& line : split(text, '\n')) {
        if (!line.starts_with(key) || line.size() <= key.size() || line[key.size()] != ':')
            continue;
        if (value.empty() || trim(std::string_view(line).substr(key.size() + 1)) == value)
            return true;
    }
    return false;
}

InnerLine axolotl_line(std::span<const std::string> words, const Host& host) {
    const auto dashes = std::find(words.begin(), words.end(), "--");
    const std::span<const std::string> own(words.begin(), dashes);
    std::string launcher = "accelerate";
    InnerLine line;
    std::vector<std::string> arguments;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const Typed option = option_with_value(own, i);
        if (option.name == "launcher") launcher = option.value;
        if (option.name == "no-accelerate") launcher = "python";
        if (option.name == "use-ray" || launcher == "ray") line.other = "axolotl hands over to Ray";
        if (option.name == "cloud") line.other = "axolotl starts a job elsewhere (--cloud)";
        if (option.name == "runtime") line.other = "axolotl's --runtime file may name any launcher";
        if (option.name == "num-processes") arguments = {"--num_processes", option.value};
        if (option.name.empty() &&
            has_key(host.read_file(own[i], kListBytes).value_or(""), "use_ray", "true"))
            line.other = "axolotl hands over to Ray";
    }
    if (line.other.empty() && launcher == "python") {
        line.other = "axolotl trains in its own process";
        line.other_here = true;
    } else if (launcher != "accelerate" && launcher != "torchrun" && line.other.empty()) {
        line.other = fmt::format("axolotl's launcher '{}' is not known", printable(launcher));
    }
    line.torchrun = launcher == "torchrun";
    line.counts_unknown = line.torchrun && !arguments.empty();  // read by some versions only
    line.argv = {line.torchrun ? "torchrun" : "accelerate"};
    if (!line.torchrun) line.argv.emplace_back("launch");
    line.first = line.argv.size();
    if (!line.torchrun) line.argv.insert(line.argv.end(), arguments.begin(), arguments.end());
    if (dashes != words.end()) line.argv.insert(line.argv.end(), dashes + 1, words.end());
    line.argv.insert(line.argv.end(), {"-m", "axolotl.cli.train"});
    return line;
}

/// What the training script does not know is accelerate's. Only options that no script has.
InnerLine trl_line(std::span<const std::string> words, const Host& host) {
    constexpr std::array<std::string_view, 7> kValues = {
        "num-processes",     "num-machines", "machine-rank", "main-process-ip",
        "main-process-port", "gpu-ids",      "config-file"};
    constexpr std::array<std::string_view, 2> kFlags = {"multi-gpu", "use-deepspeed"};
    InnerLine line;
    line.argv = {"accelerate", "launch"};
    line.first = 2;
    for (std::size_t i = 0; i < words.size(); ++i) {
        const Typed option = option_with_value(words, i);
        const auto is = [&](std::string_view name) { return option.name == name; };
        if (std::any_of(kFlags.begin(), kFlags.end(), is)) line.argv.push_back(words[i]);
        if (std::any_of(kValues.begin(), kValues.end(), is))
            line.argv.push_back("--" + option.name + "=" + option.value);
        if (is("accelerate-config") && host.read_file(option.value, 1))
            line.argv.push_back("--config_file=" + option.value);
        else if (is("accelerate-config"))
            line.counts_unknown = true;  // one of TRL's own files
        if (!is("config")) continue;
        const std::string text = host.read_file(option.value, kListBytes).value_or("");
        for (const char* key :
             {"num_processes", "num_machines", "accelerate_config", "config_file"})
            line.counts_unknown = line.counts_unknown || has_key(text, key);
    }
    line.argv.emplace_back("script.py");
    return line;
}

}  // namespace

Command recognise_over_accelerate(Command command, const Site& site, const Environment& environment,
                                  const Host& host) {
    const std::span<const std::string> words =
        std::span<const std::string>(command.argv).subspan(site.first);
    const InnerLine line = site.kind == "trl" ? trl_line(words, host) : axolotl_line(words, host);
    command.job.launcher = command.family = site.kind;
    command.program_at = {site.word};
    if (!line.other.empty()) {
        command.job.same_host = line.other_here;
        if (line.other_here) {
            command.program = own_interpreter(site, host);
            command.job.nodes = command.job.ranks_per_node = 1;
        }
        return export_only(std::move(command), line.other);
    }
    Command inner;
    inner.argv = line.argv;
    inner.given = command.given;
    Site launcher = site;
    launcher.kind = line.torchrun ? "torchrun" : "accelerate";
    launcher.word = 0;
    launcher.first = line.first;
    // axolotl starts the program on PATH, trl calls accelerate in its own process.
    if (site.kind == "axolotl" && site.own_path.empty())
        launcher.path = host.find_executable(line.argv[0]);
    inner = line.torchrun ? recognise_torchrun(std::move(inner), launcher, environment, host)
                          : recognise_accelerate(std::move(inner), launcher, environment, host);
    const bool counts_gpus = inner.ranks_word == "gpu" && !line.torchrun;
    command.job = inner.job;
    command.job.launcher = site.kind;
    command.interpreter = inner.interpreter;
    command.program = inner.program;
    command.given = inner.given;
    command.ranks_word = inner.ranks_word;
    command.notes = inner.notes;
    if (line.counts_unknown) {
        command.job.nodes.reset();
        command.job.ranks_per_node.reset();
        command.job.ranks_word.clear();
        command.ranks_word.clear();
    }
    if (inner.rewrite == Rewrite::export_only)
        return export_only(std::move(command), inner.export_only_reason);
    if (inner.rewrite == Rewrite::inserted && !counts_gpus)
        return export_only(std::move(command), "accelerate starts the script by itself");
    if (counts_gpus && !line.counts_unknown)
        command.alone_reason = "on a single GPU accelerate starts the script by itself";
    return by_python_exec(std::move(command), launcher, host);
}

}  // namespace toporun::launcher
