#pragma once

#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "env/plan.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/program_file.hpp"

namespace toporun::launcher {

/// In front of toporun's options: a toporun that nobody typed. Where it would refuse to start the
/// command, it says why and the command runs as typed. Alone: status 0.
inline constexpr const char* kStepAsideWord = "--step-aside";

/// Absolute paths of what is installed beside toporun; "" = missing.
struct Installed {
    std::string shim;          ///< toporun-shim
    std::string python;        ///< toporun-python, the shim under its interpreter name
    std::string plugin;        ///< libtoporun-nccl.so
    std::string toporun = {};  ///< this program
};

/// What this node's toporun made for its ranks; "" = it could not be made.
struct ShimFiles {
    std::string directory;  ///< private directory: records, profiler rings
    std::string shim_plan;  ///< what shim_plan_text() wrote
    /// What toporun on another host has to know (node_agent.hpp), where the ranks start there too;
    /// Guard::toporun: its options.
    std::vector<std::string> tell = {};
    unsigned ring_slots = 0;  ///< records of each profiler ring; 0 = the plugin's own number
};

/// How the command is started.
struct Launch {
    std::vector<std::string> argv;
    /// Variables to add to the environment, in this order. None of them is set in it already, but
    /// for those that are replaced: PYTHON_EXEC, TOPORUN_ACTIVE and settings that say so.
    std::vector<std::pair<std::string, std::string>> added;
    Rewrite rewrite = Rewrite::export_only;  ///< what was really done
    std::vector<std::string> notes;          ///< one line each
    /// srun's --multi-prog: the copy of the file that argv names, still to be written with
    /// `rank_words` in front of each program; "" = there is none.
    std::string programs_path = {};
    std::vector<ProgramLine> program_lines = {};
    std::vector<std::string> rank_words = {};
};

/// The word that stands for the run directory until it is made.
inline constexpr const char* kRunDirectoryWord = "--tell=run_directory=";

/// A shell takes the word as it is.
bool passes_shell(std::string_view word);

/// Where the profiler plugin of each rank writes, unless the user said so.
std::vector<std::pair<std::string, std::string>> profiler_variables(const env::Plan& plan,
                                                                    const ShimFiles& files,
                                                                    const Environment& environment);

/// The command line and the variables of the launch. Pure but for looking at a PYTHON_EXEC of the
/// user's through `host`. `environment` is what the ranks get without toporun
/// (variables_of_ranks). Of the words that the user typed none is changed; one is dropped: the
/// switch for a module where the interpreter is named (Edit::drop).
Launch prepare_launch(const Command& command, const env::Plan& plan, const Installed& installed,
                      const ShimFiles& files, const Environment& environment, const Host& host);

}  // namespace toporun::launcher
