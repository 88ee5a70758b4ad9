#pragma once

#include <string>
#include <vector>

#include "env/plan.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/launch.hpp"
#include "launcher/report/machine_json.hpp"
#include "launcher/report/report.hpp"

/// JSON texts for programs (docs/report.md), indented by 2, with a last line end. Unknown is null.
/// Bytes that are no UTF-8 are replaced by U+FFFD.
namespace toporun::launcher {

/// Schema toporun.settings/1.
std::string settings_json(const env::Plan& plan);

/// Schema toporun.run/1: the command as it would run and the settings it would get. Secrets in
/// command lines are masked.
std::string dry_run_json(const Command& command, const Launch& launch, const env::Plan& plan);

}  // namespace toporun::launcher
