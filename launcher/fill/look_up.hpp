#pragma once

#include "launcher/command/host.hpp"
#include "launcher/command/node_share.hpp"
#include "launcher/fill/rendezvous.hpp"
#include "launcher/preflight/line_facts.hpp"

namespace toporun::launcher {

/// Asks this host for what choose_rendezvous() needs. No connection is made: names are looked up as
/// programs do it (`getent ahosts`), then by SLURM_NODE_ALIASES, then Slurm is asked for the node's
/// address; ports are read from /proc. Each helper has 2 s. What fails leaves its part empty; only
/// what getent has not found (its status 2) is a name that does not resolve. Of ranks that `share`
/// one asks for all.
RendezvousFacts look_up_rendezvous(const Gaps& gaps, const Environment& environment,
                                   const Host& host, const NodeShare& share = {});

/// Likewise what preflight() needs for a line.
LineFacts look_up_line(const LineQuestions& questions, const Environment& environment,
                       const Host& host, const NodeShare& share = {});

}  // namespace toporun::launcher
