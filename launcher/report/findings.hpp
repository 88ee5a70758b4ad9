#pragma once

#include <string>

#include "env/doctor/doctor.hpp"

/// What `toporun doctor` prints.
namespace toporun::launcher {

/// Schema toporun.findings/1 (docs/doctor.md), indented by 2, with a last line end. Bytes that are
/// no UTF-8 are replaced by U+FFFD.
std::string findings_json(const env::Diagnosis& diagnosis);

/// For people: a block a finding and a last line that counts; one line when there is nothing. Safe
/// for a terminal. `colour`: severities in colour. `notes_command`: what shows the notes of the
/// captures, for a line that counts them; "" for none, as for the machine itself.
std::string findings_text(const env::Diagnosis& diagnosis, bool colour,
                          const std::string& notes_command = "");

/// `toporun --preflight-only`: the findings in their order, and a last line that counts them.
std::string preflight_text(const std::vector<env::Finding>& findings, bool colour);
/// Schema toporun.findings/1 without "checks".
std::string preflight_json(const std::vector<env::Finding>& findings);

/// `toporun doctor --list`: each kind of fault by family.
std::string check_list_text();
std::string check_list_json();

}  // namespace toporun::launcher
