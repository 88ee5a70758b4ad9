#include "launcher/preflight/preflight.hpp"

#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {

std::vector<env::Finding> preflight(const Command& command, const Environment& environment,
                                    const detect::Machine& machine, const LineFacts& facts) {
    std::vector<env::Finding> findings;
    const LaunchLine line = read_launch_line(command, environment);
    task_findings(line, machine, findings);
    rendezvous_findings(line, findings);
    reach_findings(line, facts, machine, findings);
    script_findings(line, facts, findings);
    return findings;
}

}  // namespace toporun::launcher
