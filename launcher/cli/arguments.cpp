#include "launcher/cli/arguments.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <boost/program_options.hpp>
#include <cmath>
#include <filesystem>

#include "base/error.hpp"
#include "base/text.hpp"
#include "env/host_list.hpp"
#include "env/placement.hpp"

namespace toporun::launcher {
namespace {

namespace po = boost::program_options;
using Words = std::vector<std::string>;

constexpr std::array<std::pair<std::string_view, Action>, 5> kSubcommands = {
    {{"detect", Action::detect},
     {"env", Action::env},
     {"doctor", Action::doctor},
     {"report", Action::report},
     {"profiles", Action::profiles}}};

std::string name_of(Action action) {
    for (const auto& [name, known] : kSubcommands)
        if (known == action) return std::string(name);
    return {};
}

template <class T>
po::typed_value<T>* value() {
    return po::value<T>();
}

void add_profile_option(po::options_description& options) {
    options.add_options()("profile", value<Words>()->composing());
}

/// What replaces this machine.
void add_machine_options(po::options_description& options) {
    options.add_options()                         //
        ("machine", value<Words>()->composing())  //
        ("from", value<Words>()->composing())     //
        ("nccl-version", value<std::string>());
}

void add_decision_options(po::options_description& options) {
    options.add_options()                       //
        ("leave", value<Words>()->composing())  //
        ("bind", value<std::string>())          //
        ("no-bind", "")                         //
        ("no-log", "")                          //
        ("take-log", "")                        //
        ("no-measure", "")                      //
        ("measure", value<std::string>())       //
        ("host-order", value<std::string>());
    add_profile_option(options);
    add_machine_options(options);
}

po::options_description options_of(Action action) {
    po::options_description options;
    options.add_options()("help,h", "")("json", "");
    switch (action) {
        case Action::detect:
            add_machine_options(options);
            options.add_options()("save", value<std::string>())(
                "graph", value<std::string>()->implicit_value("auto"));
            break;
        case Action::env:
            add_decision_options(options);
            options.add_options()("format", value<std::string>())("explain", "")(
                "nodes", value<int>())("ranks-per-node", value<int>());
            break;
        case Action::doctor:
            add_profile_option(options);
            add_machine_options(options);
            options.add_options()("list", "")("nodes", value<int>())("ranks-per-node",
                                                                     value<int>());
            break;
        case Action::report:
            options.add_options()("format", value<std::string>())("explain", "");
            break;
        case Action::profiles:
            add_profile_option(options);
            add_machine_options(options);
            options.add_options()("force", "");
            break;
        default:
            add_decision_options(options);
            options.add_options()("version,V", "")("quiet,q", "")("explain", "")("dry-run", "")(
                "preflight-only", "")("strict", "")("set-workers", "")("export-tf-config", "")(
                "no-pdeath", "")("reap", "")("comm-limit", value<double>())(
                "report-wait", value<double>())("run-dir", value<std::string>());
            break;
    }
    return options;
}

struct Split {
    Words own;
    Words command;
    bool separated = false;  ///< by "--": the command is never a subcommand
};

/// Ends the own words at the first that is neither an option nor an option's value. Whether an
/// option takes a value is looked up over all actions, where the names agree.
Split split_words(const Words& words) {
    po::options_description all;
    const std::array actions = {options_of(Action::run), options_of(Action::detect),
                                options_of(Action::env)};  // doctor and report have no others
    const auto takes_value = [&](const std::string& name) {
        for (const po::options_description& options : actions)
            if (const auto* option = options.find_nothrow(name, false))
                return option->semantic()->min_tokens() > 0;
        return false;
    };
    Split out;
    std::size_t i = 0;
    for (; i < words.size(); ++i) {
        const std::string& word = words[i];
        if (word == "--") {
            out.separated = true;
            ++i;
            break;
        }
        if (word.size() < 2 || word[0] != '-') break;
        out.own.push_back(word);
        const bool takes_next =
            word[1] == '-' && word.find('=') == std::string::npos && takes_value(word.substr(2));
        if (takes_next && i + 1 < words.size()) out.own.push_back(words[++i]);
    }
    out.command.assign(words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
    return out;
}

/// Options of env(1) that the subcommand does not have; the short ones stand alone or are glued.
bool is_option_of_env_program(const std::string& word) {
    constexpr std::array<std::string_view, 11> kLong = {"--ignore-environment",
                                                        "--null",
                                                        "--unset",
                                                        "--chdir",
                                                        "--split-string",
                                                        "--block-signal",
                                                        "--debug",
                                                        "--default-signal",
                                                        "--ignore-signal",
                                                        "--list-signal-handling",
                                                        "--argv0"};
    if (word == "-") return true;
    if (!word.starts_with("--"))
        return word.size() > 1 && word.find_first_of("i0uCSva") == 1 && word != "-h";
    return std::find(kLong.begin(), kLong.end(), word.substr(0, word.find('='))) != kLong.end();
}

/// `toporun env A=1 torchrun ...`: the words behind `env` are those of env(1), a variable or a
/// command. The subcommand takes options alone; the name of a format by itself is a slip there.
bool is_env_program(const Words& command) {
    constexpr std::array<std::string_view, 5> kFormats = {"sh", "json", "toml", "slurm", "hosts"};
    const po::options_description options = options_of(Action::env);
    for (std::size_t i = 1; i < command.size(); ++i) {
        const std::string& word = command[i];
        if (word.empty() || word[0] != '-') {
            const bool format = std::find(kFormats.begin(), kFormats.end(), word) != kFormats.end();
            return !format || i + 1 < command.size();
        }
        if (word == "--") return i + 1 < command.size();
        const std::string name = word.starts_with("--") ? word.substr(2, word.find('=') - 2) : "";
        const auto* option = name.empty() ? nullptr : options.find_nothrow(name, false);
        if (option == nullptr) return is_option_of_env_program(word);
        if (word.find('=') == std::string::npos && option->semantic()->min_tokens() > 0) ++i;
    }
    return false;
}

std::optional<Action> selected(const Split& split) {
    if (split.separated || split.command.empty()) return std::nullopt;
    const auto action = subcommand(split.command.front());
    return action == Action::env && is_env_program(split.command) ? std::nullopt : action;
}

po::variables_map parse(const Words& words, Action action, Words* positional) {
    const po::options_description options = options_of(action);
    const int style = po::command_line_style::unix_style & ~po::command_line_style::allow_guessing;
    po::options_description with_positional = options;
    po::positional_options_description names;
    if (positional != nullptr) {
        with_positional.add_options()("positional words", value<Words>());
        names.add("positional words", -1);
    }
    try {
        po::variables_map map;
        po::store(po::command_line_parser(words)
                      .options(with_positional)
                      .positional(names)
                      .style(style)
                      .run(),
                  map);
        if (positional != nullptr && map.contains("positional words"))
            *positional = map["positional words"].as<Words>();
        return map;
    } catch (const po::unknown_option& fault) {
        const std::string typed = fault.get_option_name();
        const std::string name = typed.substr(0, typed.find('='));
        const auto close = closest_word(name, option_names(action));
        throw Error(fmt::format("unknown option '{}'", printable(typed)), {},
                    close ? fmt::format("did you mean '{}'?", *close)
                          : "'toporun --help' lists the options");
    } catch (const po::error& fault) {
        throw Error(printable(fault.what()), {},
                    fmt::format("'toporun {}--help' shows how options are written",
                                action == Action::run ? std::string() : name_of(action) + " "));
    }
}

double number_between(const po::variables_map& map, const char* name, double low, double high,
                      double otherwise) {
    if (!map.contains(name)) return otherwise;
    const double number = map[name].as<double>();
    if (!std::isfinite(number) || number < low || number > high)
        throw Error(fmt::format("--{} must lie between {:g} and {:g}", name, low, high));
    return number;
}

std::optional<int> count_up_to(const po::variables_map& map, const char* name, int most) {
    if (!map.contains(name)) return std::nullopt;
    const int number = map[name].as<int>();
    if (number < 1) throw Error(fmt::format("--{} must be at least 1", name));
    if (number > most) throw Error(fmt::format("--{} must be at most {}", name, most));
    return number;
}

std::string text(const po::variables_map& map, const char* name) {
    return map.contains(name) ? map[name].as<std::string>() : std::string();
}

env::Measure measure_mode(const po::variables_map& map) {
    const std::string mode = text(map, "measure");
    if (map.contains("no-measure")) {
        if (mode.empty() || mode == "off") return env::Measure::off;
        throw Error(
            fmt::format("--no-measure and --measure={} contradict each other", printable(mode)));
    }
    if (mode.empty() || mode == "auto") return env::Measure::automatic;
    if (mode == "off") return env::Measure::off;
    if (mode == "always") return env::Measure::always;
    throw Error(fmt::format("--measure={} is not known", printable(mode)), {},
                "write off, auto or always");
}

env::Bind bind_mode(const po::variables_map& map) {
    const std::string mode = text(map, "bind");
    if (map.contains("no-bind")) {
        if (mode.empty() || mode == "none") return env::Bind::none;
        throw Error(fmt::format("--no-bind and --bind={} contradict each other", printable(mode)));
    }
    if (mode.empty() || mode == "auto") return env::Bind::automatic;
    if (mode == "numa") return env::Bind::numa;
    if (mode == "core") return env::Bind::core;
    if (mode == "none") return env::Bind::none;
    throw Error(fmt::format("--bind={} is not known", printable(mode)), {},
                "write auto, numa, core or none");
}

void read_decisions(const po::variables_map& map,
                    const std::map<std::string, std::string>& environment, Arguments& arguments) {
    if (const auto found = environment.find("TOPORUN_LEAVE"); found != environment.end())
        for (const std::string& name : split(found->second, ','))
            if (!trim(name).empty()) arguments.options.leave.emplace_back(trim(name));
    if (map.contains("leave"))
        for (const std::string& name : map["leave"].as<Words>())
            arguments.options.leave.push_back(name);
    arguments.options.bind = bind_mode(map);
    arguments.options.log = !map.contains("no-log");
    arguments.options.take_log = map.contains("take-log");
    arguments.options.measure = measure_mode(map);
    arguments.host_order = text(map, "host-order");
}

void read_common(const po::variables_map& map, Arguments& arguments) {
    arguments.json = map.contains("json");
    arguments.explain = map.contains("explain");
    if (map.contains("machine")) arguments.machine_files = map["machine"].as<Words>();
    if (map.contains("from")) arguments.captures = map["from"].as<Words>();
    if (map.contains("profile")) arguments.profile_files = map["profile"].as<Words>();
    arguments.nccl_version = text(map, "nccl-version");
}

std::string graph_format(const po::variables_map& map) {
    const std::string format = text(map, "graph");
    if (!format.empty() && format != "auto" && format != "text" && format != "dot")
        throw Error(fmt::format("--graph={} is not known", printable(format)), {},
                    "write --graph, --graph=text or --graph=dot");
    return format;
}

Arguments parse_subcommand(const Split& split, Action action,
                           const std::map<std::string, std::string>& environment) {
    Words words = split.own;  // `toporun --json detect` is `toporun detect --json`
    words.insert(words.end(), split.command.begin() + 1, split.command.end());
    Arguments arguments;
    const po::variables_map map = parse(words, action, &arguments.positional);
    arguments.action = action;
    if (map.contains("help")) {
        arguments.action = Action::help;
        arguments.positional = {split.command.front()};
        return arguments;
    }
    read_common(map, arguments);
    if (action == Action::env) read_decisions(map, environment, arguments);
    arguments.save = text(map, "save");
    arguments.graph = graph_format(map);
    arguments.list = map.contains("list");
    arguments.force = map.contains("force");
    if (!arguments.graph.empty() && arguments.json)
        throw Error("--graph and --json contradict each other");
    arguments.format = text(map, "format");
    arguments.nodes = count_up_to(map, "nodes", static_cast<int>(env::kMostHosts));
    arguments.ranks_per_node = count_up_to(map, "ranks-per-node", env::kMostRanks);
    if (action == Action::profiles) return arguments;  // each verb counts its own words
    if (action == Action::report) return arguments;    // any number of logs
    if (!arguments.positional.empty())
        throw Error(fmt::format("'{}' is one word too many for 'toporun {}'",
                                printable(arguments.positional.front()), split.command.front()),
                    {},
                    fmt::format("to run a program called '{0}': toporun -- {0} ...",
                                split.command.front()));
    return arguments;
}

}  // namespace

std::optional<Action> subcommand(const std::string& name) {
    for (const auto& [known, action] : kSubcommands)
        if (name == known) return action;
    return std::nullopt;
}

std::vector<std::string> option_names(Action action) {
    std::vector<std::string> names;
    const po::options_description options = options_of(action);
    for (const auto& option : options.options()) names.push_back("--" + option->long_name());
    return names;
}

namespace {

/// The path as it is from any working directory.
std::string absolute_path(const std::string& path) {
    std::error_code error;
    const auto whole = std::filesystem::absolute(path, error);
    return path.empty() || error ? path : whole.string();
}

/// Without what only asks for a look (--dry-run) or replaces this machine for one. Each option is
/// one word, since a value may be `--`, and paths are absolute: tasks may start in another
/// directory.
std::vector<std::string> words_of_run(const Words& own) {
    constexpr std::array<std::string_view, 6> kLeftOut = {
        "--dry-run", "--preflight-only", "--json", "--machine", "--from", "--nccl-version"};
    constexpr std::array<std::string_view, 2> kPaths = {"--profile", "--run-dir"};
    const auto is_among = [](const auto& names, std::string_view name) {
        return std::find(names.begin(), names.end(), name) != names.end();
    };
    const po::options_description options = options_of(Action::run);
    std::vector<std::string> kept;
    for (std::size_t i = 0; i < own.size(); ++i) {
        const std::size_t equals = own[i].find('=');
        const std::string name = own[i].substr(0, equals);
        const auto* option =
            name.starts_with("--") ? options.find_nothrow(name.substr(2), false) : nullptr;
        const bool has_value = option != nullptr && option->semantic()->min_tokens() > 0;
        std::string value = equals == std::string::npos ? "" : own[i].substr(equals + 1);
        std::string word = own[i];
        if (has_value && equals == std::string::npos && i + 1 < own.size()) value = own[++i];
        if (is_among(kLeftOut, name)) continue;
        if (has_value) word = name + "=" + (is_among(kPaths, name) ? absolute_path(value) : value);
        kept.push_back(std::move(word));
    }
    return kept;
}

}  // namespace

bool selects_subcommand(const std::vector<std::string>& words) {
    return selected(split_words(words)).has_value();
}

Arguments parse_arguments(const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& environment) {
    const Split split = split_words(words);
    if (const auto action = selected(split)) return parse_subcommand(split, *action, environment);
    const po::variables_map map = parse(split.own, Action::run, nullptr);
    Arguments arguments;
    if (map.contains("help")) return arguments;
    if (map.contains("version")) {
        arguments.action = Action::version;
        return arguments;
    }
    if (split.command.empty())
        throw Error("no command", {},
                    "write it after toporun's options, for example: toporun torchrun train.py; "
                    "'toporun --help' shows more");
    arguments.action = Action::run;
    arguments.command = split.command;
    arguments.own_words = words_of_run(split.own);
    read_common(map, arguments);
    read_decisions(map, environment, arguments);
    arguments.quiet = map.contains("quiet");
    arguments.dry_run = map.contains("dry-run");
    arguments.preflight_only = map.contains("preflight-only");
    arguments.strict = map.contains("strict");
    arguments.set_workers = map.contains("set-workers");
    arguments.reap = map.contains("reap");
    arguments.export_tf_config = map.contains("export-tf-config");
    arguments.parent_death_signal = !map.contains("no-pdeath");
    arguments.comm_limit = number_between(map, "comm-limit", 0, 100, 30) / 100;
    arguments.report_wait_s = number_between(map, "report-wait", 0, 3600, 2);
    const auto directory = environment.find("TOPORUN_DIR");
    arguments.run_directory = map.contains("run-dir")          ? text(map, "run-dir")
                              : directory != environment.end() ? directory->second
                                                               : std::string();
    if (!map.contains("run-dir") && !arguments.run_directory.empty())
        arguments.own_words.push_back("--run-dir=" + absolute_path(arguments.run_directory));
    if (arguments.dry_run && arguments.preflight_only)
        throw Error("--dry-run and --preflight-only contradict each other", {},
                    "--dry-run prints the findings too");
    const bool starts = !arguments.dry_run && !arguments.preflight_only;
    if (arguments.json && starts)
        throw Error("--json prints what --dry-run found: it needs --dry-run or --preflight-only",
                    {}, "report.json in the run directory holds a run's results");
    if ((!arguments.machine_files.empty() || !arguments.captures.empty() ||
         !arguments.nccl_version.empty()) &&
        starts)
        throw Error(
            "--machine, --from and --nccl-version replace this machine: they need --dry-run", {},
            "add --dry-run to see what would be chosen there");
    return arguments;
}

}  // namespace toporun::launcher
