#pragma once

#include <optional>
#include <string_view>

#include "detect/topology/system_tree.hpp"

/// What one link carries by NCCL's constants, GB/s in one direction. They are estimates of what
/// arrives, not the rates that vendors print. Versions as numbers: 22809; nothing = the newest.
namespace toporun::detect {

/// One NVLink. An unknown capability counts as 80, as in NCCL.
double nvlink_gbytes_per_s(std::optional<int> compute_capability, std::optional<int> nccl_version);

/// One xGMI link of an AMD GPU ("gfx942"), by RCCL's constants (its src/graph/topo.h).
double xgmi_gbytes_per_s(std::string_view architecture);

/// Between two NUMA domains, by the kind of the first; 5000 = NCCL knows of no limit.
double cpu_link_gbytes_per_s(const TreeCpu& cpu, std::optional<int> nccl_version);

}  // namespace toporun::detect
