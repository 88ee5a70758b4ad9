#pragma once

#include <functional>
#include <string>
#include <vector>

#include "launcher/cli/inputs.hpp"
#include "profiles/knowledge.hpp"

/// Profiles of the site and the user, and what is compiled in.
namespace toporun::launcher {

/// A directory of profiles and what its files may replace.
struct ProfileDirectory {
    std::string path;
    profiles::Layer layer = profiles::Layer::site;
};

/// Weakest first: /etc/toporun/profiles, then toporun/profiles in $XDG_CONFIG_HOME or ~/.config.
std::vector<ProfileDirectory> profile_directories(const Environment& environment);

/// Where the user's own profiles lie; "" when there is no home directory.
std::string user_profile_directory(const Environment& environment);

/// A file that was left out, and why.
struct ProfileProblem {
    std::string what;
    std::string where;  ///< file:line:column or the file
    std::string hint;
};

/// "WHAT (WHERE)".
std::string problem_text(const ProfileProblem& problem);

struct Loaded {
    profiles::Knowledge knowledge;
    std::vector<ProfileProblem> problems;
};

/// Reads the .toml files of the directory in the order of their names. A file that is broken, that
/// somebody else may write or that bears a name twice becomes a problem, and the rest is read. A
/// directory that is not there is none.
void read_profile_directory(const ProfileDirectory& directory, Loaded& loaded);

/// What the program knows, the directories and --profile FILE. Of the built-in profiles those that
/// `wanted` wants, asked before their values are read. Throws Error for a file of --profile.
Loaded load_knowledge(const std::vector<std::string>& named, const Environment& environment,
                      const std::function<bool(const profiles::Profile&)>& wanted);

/// The same for one machine: the built-in profiles that match it; all of them when a variable is to
/// be left alone, whose name may stand in any.
Loaded load_knowledge(const Arguments& arguments, const Environment& environment,
                      const detect::Machine& machine);

}  // namespace toporun::launcher
