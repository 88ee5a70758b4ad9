#pragma once

#include <optional>
#include <string>
#include <vector>

#include "env/plan.hpp"
#include "launcher/report/run_facts.hpp"

/// What a table of nccl-tests means. Pure.
namespace toporun::launcher {

/// Bus bandwidth of a ring in GB/s as NCCL's own model has it (estimated), nothing where the log
/// lacks the pattern (NCCL_DEBUG_SUBSYS=GRAPH).
std::optional<double> ring_model_gbytes_per_s(const LogSummary& log);
/// What the model gives for a table, GB/s of bus bandwidth; nothing where it does not apply.
std::optional<double> model_gbytes_per_s(const LogSummary& log, const LogTest& test);

/// Wrong values, bandwidth that falls with the size or is far below the model.
std::vector<env::Finding> test_findings(const RunFacts& facts);

/// A line for each table: sizes, peak, part of the model.
std::vector<std::string> test_lines(const LogSummary& log);

}  // namespace toporun::launcher
