#include "launcher/profiler/ring_slots.hpp"

#include <climits>
#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "launcher/profiler/record.hpp"

namespace toporun::tests {

using profiler::ring_slots;

TEST_CASE("The rings of a node share 48 MiB and one percent of the memory") {
    constexpr std::uint64_t kMiB = 1 << 20, kGiB = std::uint64_t{1} << 30;
    struct Row {
        std::string name;
        std::optional<int> ranks;
        std::optional<std::uint64_t> memory;
        unsigned slots;
    };
    const std::vector<Row> rows = {
        {"one rank gets the most", 1, {}, 262144},
        {"two ranks", 2, {}, 262144},
        {"three ranks: exactly 16 MiB each", 3, {}, 262144},
        {"four ranks", 4, {}, 131072},
        {"eight ranks", 8, 2048 * kGiB, 65536},
        {"sixteen ranks", 16, {}, 32768},
        {"unknown ranks count as sixteen", {}, {}, 32768},
        {"no ranks", 0, {}, 32768},
        {"a negative number", INT_MIN, {}, 32768},
        {"192 ranks: the floor fits", 192, {}, 4096},
        {"more ranks than the floor allows", INT_MAX, {}, 4096},
        {"exactly one percent", 1, 100 * kMiB, 16384},
        {"a byte less", 1, 100 * kMiB - 1, 8192},
        {"a small limit", 8, 4 * kGiB, 65536},
        {"a smaller limit", 8, kGiB, 16384},
        {"hardly any memory", 8, 64 * kMiB, 4096},
        {"no memory", 8, 0, 4096},
        {"no limit, as a number", 8, UINT64_MAX, 65536},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const unsigned slots = ring_slots(row.ranks, row.memory);
        CHECK(slots == row.slots);
        if (slots == 4096) continue;  // the floor
        CHECK(std::uint64_t{slots} * sizeof(profiler::Record) *
                  static_cast<std::uint64_t>(row.ranks.value_or(0) > 0 ? *row.ranks : 16) <=
              48 * kMiB);
    }
}

}  // namespace toporun::tests
