#include "launcher/profiler/ring_slots.hpp"

#include <algorithm>
#include <bit>

#include "launcher/profiler/record.hpp"

namespace toporun::profiler {
namespace {

constexpr std::uint64_t kRingsBytes = std::uint64_t{48} << 20;
constexpr std::uint64_t kShareOfMemory = 100;  // 1 %
constexpr int kRanksWhenUnknown = 16;
constexpr std::uint64_t kFewest = 4096;
/// 2.6 s of a collective each 10 us. More would only make the start longer.
constexpr std::uint64_t kMost = 262144;
static_assert(kFewest >= kMinimumSlots && kMost <= kMaximumSlots);

}  // namespace

unsigned ring_slots(std::optional<int> ranks_per_node, std::optional<std::uint64_t> memory_bytes) {
    const int known = ranks_per_node.value_or(0);
    const std::uint64_t ranks = static_cast<std::uint64_t>(known > 0 ? known : kRanksWhenUnknown);
    std::uint64_t bytes = kRingsBytes;
    if (memory_bytes) bytes = std::min(bytes, *memory_bytes / kShareOfMemory);
    const std::uint64_t slots = std::bit_floor(bytes / ranks / sizeof(Record));
    return static_cast<unsigned>(std::clamp(slots, kFewest, kMost));
}

}  // namespace toporun::profiler
