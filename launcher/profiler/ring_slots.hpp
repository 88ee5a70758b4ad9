#pragma once

#include <cstdint>
#include <optional>

namespace toporun::profiler {

/// Records that the ring of each rank should hold: a power of two from 4096 to 262144, for the
/// variable kSlotsVariable (record.hpp). All rings of a node together keep within 48 MiB, which
/// leaves a quarter of the node's 64 MiB to NCCL's logs, and within 1 % of `memory_bytes`: the
/// smaller of the machine's memory and the memory limit, empty when neither is known. Unknown or
/// impossible numbers of ranks count as 16. Below the floor of 4096 records (256 KiB) a ring says
/// too little, so that more than 192 ranks on a node exceed the budget.
unsigned ring_slots(std::optional<int> ranks_per_node, std::optional<std::uint64_t> memory_bytes);

}  // namespace toporun::profiler
