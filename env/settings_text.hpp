#pragma once

#include <string>

#include "env/plan.hpp"

/// The plan's exported settings as text for users who do not want a wrapper. Every comment is one
/// line, printable whatever the evidence holds. Settings that are filled in per rank need the shim
/// and are left out with a comment.
namespace toporun::env {

/// For `eval`: a comment with the reason, then `export NAME=VALUE` quoted for POSIX sh.
std::string settings_sh(const Plan& plan);

/// For srun: one line `--export=ALL,NAME=VALUE,...`, the last line of the text.
/// Slurm splits at each comma and has no escape: a value with a comma, a blank or a quote cannot be
/// written there. Those come before that line as `# NAME: ...` comments with the `export` to use.
std::string settings_slurm(const Plan& plan);

/// A table `[settings]` of NAME = "VALUE", each with the reason as comment, and what is left to
/// NCCL as comments only.
std::string settings_toml(const Plan& plan);

}  // namespace toporun::env
