#pragma once

#include <string>
#include <vector>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "launcher/command/command.hpp"
#include "launcher/preflight/preflight.hpp"

namespace toporun::launcher::tests {

using env::Severity;
using toporun::tests::FakeHost;

/// Variables of a batch script on the first of `nodes` nodes.
Environment batch(int nodes, Environment more = {});

/// Variables of the only task of node `node` of a step of one task a node.
Environment task(int nodes, int node, Environment more = {});

/// Two GPUs, four cores of one PU.
detect::Machine node_machine(const char* allowed = "0-3");

std::vector<env::Finding> findings_of(const std::string& line, const Environment& environment,
                                      const detect::Machine& machine);

/// A launch line and what pre-flight says of it.
struct Row {
    std::string line;
    Environment environment;
    std::string id;  ///< "" = nothing is wrong
    Severity severity = Severity::broken;
    std::string what = {};      ///< part of it
    std::string evidence = {};  ///< part of it
};

/// The fixes that are commands are tried. Returns how many.
int check(const std::vector<Row>& rows, const detect::Machine& machine = node_machine());

/// A rendezvous that is right, and the program behind it.
extern const std::string kC10d;

}  // namespace toporun::launcher::tests
