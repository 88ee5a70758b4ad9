#pragma once

#include <string>
#include <vector>

#include "env/plan.hpp"

/// The plan in words. Lines carry no "toporun: " prefix and no line end; they are printable
/// whatever the machine's names hold.
namespace toporun::env {

/// Lines for the start of a run: P2P and interface; threads and loader workers; the binding behind
/// one of them or, with a long reason, between them. Each is shorter than 160 columns.
std::vector<std::string> plan_lines(const Job& job, const detect::Machine& machine,
                                    const Plan& plan);

}  // namespace toporun::env
