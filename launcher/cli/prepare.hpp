#pragma once

#include <string>
#include <vector>

#include "detect/machine.hpp"
#include "env/plan.hpp"
#include "launcher/cli/arguments.hpp"
#include "launcher/cli/inputs.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/job_place.hpp"
#include "launcher/command/launch.hpp"

namespace toporun::launcher {

/// Everything that is decided before the start.
struct Prepared {
    Command command;
    detect::Machine machine;
    env::Plan plan;
    /// The command without the shim, loader workers filled in: what is run where toporun has to
    /// step aside.
    std::vector<std::string> argv;
    Launch launch;
    std::string private_directory;  ///< "" = none
    /// Among the hosts that the launcher reaches, which report together; the first of them. Alone
    /// where they are not known.
    JobPlace place = {};
    std::vector<std::string>
        problems;  ///< what failed and what is missing therefore, one line each
};

/// Where `Prepared::private_directory` comes from: really made, or only named for --dry-run.
enum class Files { make, name_only };

/// The command starts another toporun on each node, which decides: nothing is left to do here.
bool runs_inside(const Command& command);

/// Recognises the command, looks at the machine, decides and rewrites. A part that fails becomes a
/// problem and is left out; the command as typed is always there to run. Throws Error for a named
/// machine or profile file that cannot be read.
Prepared prepare(const Arguments& arguments, const Environment& environment, const Host& host,
                 Files files);

/// What the toporun of the host that a launcher was started on has read of the command.
struct ToldToNode {
    env::Job job;
    std::string program;
    /// Where rank 0 listens; empty = nothing is filled in.
    std::string master_address;
    int master_port = 0;
    /// Instead: the ranks are Python programs of a Slurm step, which tells where they meet.
    bool places_of_step = false;
};

/// The same for the ranks of this node, which a launcher on another host has started; `directory`
/// is the node's own.
Prepared prepare_node(const Arguments& arguments, const ToldToNode& told,
                      const std::string& directory, const Environment& environment,
                      const Host& host);

}  // namespace toporun::launcher
