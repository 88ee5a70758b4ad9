#pragma once

#include <string>
#include <vector>

#include "base/error.hpp"
#include "env/match_profile.hpp"
#include "env/plan.hpp"

/// What `toporun profiles` prints: text for people, JSON of schema toporun.profiles/1.
namespace toporun::launcher {

/// A profile held against the machine.
struct MatchedProfile {
    const profiles::Profile* profile = nullptr;
    std::vector<env::Feature> features;
    bool used = false;  ///< it fits and is the one that counts at its place
};

struct MatchResult {
    std::vector<MatchedProfile> matched;  ///< all that fit, those used first
    std::vector<MatchedProfile> nearest;  ///< that fail by little
    /// The plan's decisions on the variables that the used profiles name.
    std::vector<env::Setting> settings;
};

/// One file of `profiles check`.
struct CheckedFile {
    std::string file;
    std::string name;   ///< of the profile, "" when broken
    std::string what;   ///< of the fault, "" when it is right
    std::string where;  ///< file:line:column
    std::string hint;
    bool fits = false;  ///< this machine
};

/// "built-in", "site", "user", "command-line".
std::string_view layer_text(profiles::Layer layer);

std::string profile_list_text(const std::vector<profiles::Profile>& known);
std::string profile_list_json(const std::vector<profiles::Profile>& known);
std::string profile_match_text(const MatchResult& result);
std::string profile_match_json(const MatchResult& result);
std::string profile_check_text(const std::vector<CheckedFile>& files);
std::string profile_check_json(const std::vector<CheckedFile>& files);
/// `text` is the file.
std::string profile_show_json(const profiles::Profile& profile, const std::string& text);
std::string profile_saved_json(const std::string& name, const std::string& file);

}  // namespace toporun::launcher
