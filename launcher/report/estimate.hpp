#pragma once

#include "launcher/log/call_times.hpp"
#include "launcher/report/run_facts.hpp"

namespace toporun::launcher {

/// Fills in the in-flight share of a log with COLL lines that have times, as *estimated* from
/// NCCL's own model of the links, the band as smallest and largest, and says in a note what it
/// rests on. Leaves it unknown where the log lacks times or the model's bandwidth, or something was
/// measured.
void estimate_in_flight(const CallTimes& times, RunFacts& facts);

}  // namespace toporun::launcher
