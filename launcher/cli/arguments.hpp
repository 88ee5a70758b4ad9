#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "env/plan.hpp"

namespace toporun::launcher {

enum class Action { help, version, run, detect, env, doctor, report, profiles };

/// What the command line asks for. Members that an action does not use keep their defaults.
struct Arguments {
    Action action = Action::help;
    std::vector<std::string> command;     ///< run: the user's command, as typed
    std::vector<std::string> own_words;   ///< run: the options in front of it that choose a run
    std::vector<std::string> positional;  ///< of a subcommand
    env::Options options;                 ///< measure, bind, log, take_log, leave
    bool quiet = false;
    bool explain = false;
    bool dry_run = false;
    bool preflight_only = false;  ///< print the findings and end
    bool json = false;
    bool strict = false;
    bool export_tf_config = false;
    bool set_workers = false;  ///< rewrite the number of loader workers on the command line
    bool reap = false;         ///< end what of the command is left after its end
    bool parent_death_signal = true;
    double comm_limit = 0.30;  ///< fraction 0 to 1
    double report_wait_s = 2;
    std::string run_directory;
    std::vector<std::string> machine_files;  ///< --machine
    std::vector<std::string> captures;       ///< --from: files, directories, "-"
    std::vector<std::string> profile_files;  ///< --profile
    std::string nccl_version;
    std::string host_order;    ///< --host-order: a file
    std::string save;          ///< detect --save
    std::string graph;         ///< detect --graph: "", "auto", "text", "dot"
    bool list = false;         ///< doctor --list
    bool force = false;        ///< profiles save --force
    std::string format;        ///< env --format: sh, json, toml, slurm; report: text, json, md
    std::optional<int> nodes;  ///< env
    std::optional<int> ranks_per_node;  ///< env
};

/// Reads the words after the program name. TOPORUN_LEAVE and TOPORUN_DIR of `environment` are
/// weaker than the words. Pure. Throws Error for wrong usage, with a suggestion where there is one.
Arguments parse_arguments(const std::vector<std::string>& words,
                          const std::map<std::string, std::string>& environment);

/// The words select a subcommand: then wrong usage is status 2, in the prefix form 125.
bool selects_subcommand(const std::vector<std::string>& words);

/// Help of an action, ready to print.
std::string help_text(Action action);

/// The subcommand of that name, nothing when there is none.
std::optional<Action> subcommand(const std::string& name);

/// Every option that the parser knows for an action, as `--name`; the help names each of them.
std::vector<std::string> option_names(Action action);

}  // namespace toporun::launcher
