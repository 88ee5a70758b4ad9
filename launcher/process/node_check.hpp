#pragma once

#include <chrono>
#include <cstdint>
#include <set>
#include <string>
#include <vector>

#include "env/plan.hpp"
#include "launcher/process/node_files.hpp"
#include "launcher/report/node_facts.hpp"

namespace toporun::launcher {

/// The comparison of the nodes while the job runs, by the observer of the leader alone. It reads
/// what each node left at its start, 10 s after the start and then at growing intervals, until all
/// nodes have been seen. Above 256 nodes the first lines are read and one file of each kind. No
/// rank and no node waits for it.
class NodeCheck {
  public:
    using Clock = std::chrono::steady_clock;

    NodeCheck(const RunFiles& files, const NodeFiles& nodes, int expected, Clock::time_point start);

    /// A part of the work where some is due, some milliseconds of it. Returns differences that were
    /// not known before.
    std::vector<env::Finding> poll(Clock::time_point now);

  private:
    void begin();
    void read_some();
    void read(const std::string& name);
    std::vector<env::Finding> compare();

    const RunFiles& files_;
    const NodeFiles& nodes_;
    int expected_;
    bool done_ = false;
    bool reading_ = false;
    Clock::time_point next_;
    Clock::duration interval_;
    std::vector<std::string> queue_;  ///< names still to be read, the next one last
    std::set<std::string> seen_;      ///< files that were read whole or by their first line
    std::vector<NodeHead> heads_;
    std::vector<NodeFacts> facts_;
    std::set<std::uint64_t> kinds_;  ///< hashes of which one file was read whole
    std::set<std::string> told_;
};

}  // namespace toporun::launcher
