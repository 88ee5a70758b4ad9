#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string_view>
#include <vector>

#include "detect/machine.hpp"

/// What the importers of lscpu, numactl, df and ulimit share.
namespace toporun::detect {

/// NUMA nodes as a tool lists them. A CPU belongs to one of them, a node is listed once: what says
/// otherwise is of another machine or damaged, and refused.
class PastedNodes {
  public:
    bool set_cpus(int os_index, std::string_view list);
    bool set_memory(int os_index, std::uint64_t bytes);
    const std::vector<NumaNode>& nodes() const { return nodes_; }

  private:
    NumaNode* find(int os_index);

    std::vector<NumaNode> nodes_;
    CpuSet all_;
    std::set<int> tried_;  ///< nodes whose CPUs were told: a second list is not looked at
};

/// A size: number, then K, M, G, T or P (powers of 1024, "Ki" and "KB" too), else `unit` bytes.
std::optional<std::uint64_t> pasted_size(std::string_view word, std::uint64_t unit);

}  // namespace toporun::detect
