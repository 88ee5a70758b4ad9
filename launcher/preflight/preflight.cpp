#include "launcher/preflight/preflight.hpp"

#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {

std::vector<env::Finding> preflight(const Command& command, const Environment& environment,
                                    const detect::Machine& machine) {
    std::vector<env::Finding> findings;
    const LaunchLine line = read_launch_line(command, environment);
    task_findings(line, machine, findings);
    rendezvous_findings(line, findings);
    return findings;
}

}  // namespace toporun::launcher
