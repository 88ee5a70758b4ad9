#pragma once

#include <string>
#include <vector>

#include "base/toml.hpp"
#include "profiles/profile.hpp"

/// The tables [match] and [expect] of a profile, and what its readers share. Each throws Error with
/// file:line:column.
namespace toporun::profiles {

Match read_match(TomlTable& table);
Expect read_expect(TomlTable& table);

/// A text that must be there and not blank.
std::string required_text(TomlTable& table, const std::string& key);

/// One of `allowed`, or "" when the key is absent.
std::string one_of(TomlTable& table, const std::string& key,
                   const std::vector<std::string>& allowed);

}  // namespace toporun::profiles
