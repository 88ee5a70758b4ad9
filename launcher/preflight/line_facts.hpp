#pragma once

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/command/command.hpp"

namespace toporun::launcher {

/// What this host says of the launch line when it is asked; nothing for what it was not asked.
struct LineFacts {
    /// Addresses of the names on the line as they resolve here; empty = a name that does not.
    std::map<std::string, std::vector<std::string>> addresses;
    /// The host's own name resolves here, as torchrun's c10d needs.
    std::optional<bool> own_name;
    std::set<int> listening;         ///< TCP ports that somebody listens on here
    std::optional<int> kill_wait_s;  ///< of slurm.conf
};

/// What is worth asking for a line. Pure.
struct LineQuestions {
    std::vector<std::string> names;  ///< where the nodes of a job of several meet
    bool own_name = false;
    bool ports = false;
    bool kill_wait = false;
};
LineQuestions questions_on_line(const Command& command, const Environment& environment);

/// KillWait in the text of slurm.conf, seconds; nothing where it is not set there.
std::optional<int> kill_wait(std::string_view slurm_conf);

}  // namespace toporun::launcher
