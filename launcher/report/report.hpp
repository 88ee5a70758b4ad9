#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "launcher/report/run_facts.hpp"

/// What a run is told as. Pure: equal facts give equal text. Names and texts of the machine and of
/// logs are printable in lines and text, valid UTF-8 in JSON.
namespace toporun::launcher {

/// The lines for the end of a run, at most ten, without "toporun: " and line ends: how it ended,
/// the warning above the limit, who arrives last, where NCCL did otherwise than planned, next
/// steps, the report's path. One line when NCCL never started. `others`: lines of the ten that the
/// caller adds.
std::vector<std::string> closing_lines(const RunFacts& facts, std::size_t others = 0);

/// The warning of a run that still goes on: collectives above the limit over a minute at least.
std::optional<std::string> live_warning(const RunFacts& facts);

/// report.txt: machine, command, choices with reasons, what NCCL did, in-flight share with its
/// label, warnings, next steps.
std::string report_text(const RunFacts& facts);

/// What logs of a run say that toporun did not start, in the form of report_text(); one line when
/// there is nothing of NCCL's in them.
std::string log_report_text(const RunFacts& facts);

/// A text in the form of report_text() as Markdown: its headings and lists, all marks of the
/// language escaped.
std::string markdown(std::string_view text);

/// report.json, schema toporun.report/1 (docs/report.md).
std::string report_json(const RunFacts& facts);

}  // namespace toporun::launcher
