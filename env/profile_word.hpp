#pragma once

#include <functional>
#include <string>
#include <vector>

#include "env/inputs.hpp"

/// The word of the matching profiles on a variable.
namespace toporun::env {

/// The matching profiles' entry for the variable that holds for this NCCL version, the strongest
/// profile's first; a value with a range does not hold when the version is unknown.
const profiles::Value* profile_value(const Inputs& inputs, const std::string& name);

/// The profile that a value of profile_value() stands in.
const profiles::Profile& profile_of(const Inputs& inputs, const profiles::Value& value);

/// Why a value cannot hold on this machine, "" when it can.
using Unfit = std::function<std::string(const std::string& value)>;

/// `wanted`, or what a profile says of its variable: a built-in one where `wanted` sets nothing,
/// one of the site, the user or the command line in any case. A value that cannot hold is a finding
/// instead. Not settled yet.
Setting with_profile(const Inputs& inputs, Setting wanted, std::vector<Finding>& findings,
                     const Unfit& unfit = {});

/// The entries of the profiles for variables that no decision of its own covers, settled. Those of
/// the network only where data goes over it (`over_network`).
std::vector<Setting> other_profile_settings(const Inputs& inputs,
                                            const std::vector<Setting>& decided, bool over_network);

}  // namespace toporun::env
