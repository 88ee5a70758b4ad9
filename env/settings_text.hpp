#pragma once

#include <string>
#include <vector>

#include "env/plan.hpp"

/// The plan's exported settings as text for users who do not want a wrapper (docs/settings.md).
/// Settings that are filled in per rank need the shim and are left out.
namespace toporun::env {

/// For `eval`: lines `export NAME=VALUE;` quoted for POSIX sh, one a setting. The semicolons and
/// the lack of anything else let `eval $(...)` without quotes read the same. With `comments`, for
/// people, the reasons follow, one a setting.
std::string settings_sh(const Plan& plan, bool comments);

/// For srun and sbatch: one line `--export=ALL,NAME=VALUE,...`. Slurm splits at each comma and the
/// shell at each blank: values that hold one of them, or a quote, are not in it.
std::string settings_slurm(const Plan& plan);

/// The settings that settings_slurm() has to leave out, each as `export NAME=VALUE` to be run
/// before srun, whose ALL takes it along.
std::vector<std::string> settings_before_slurm(const Plan& plan);

/// A table `[settings]` of NAME = "VALUE", each below its reason as a comment, then what is left
/// alone as comments only. Comments are printable whatever the evidence holds.
std::string settings_toml(const Plan& plan);

}  // namespace toporun::env
