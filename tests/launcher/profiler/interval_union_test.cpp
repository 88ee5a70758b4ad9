#include <doctest/doctest.h>

#include <string>
#include <utility>
#include <vector>

#include "launcher/profiler/interval_union.hpp"

namespace toporun::profiler {

TEST_CASE("The union of intervals counts shared time once") {
    const struct {
        const char* name;
        std::vector<std::pair<std::uint64_t, std::uint64_t>> intervals;
        double covered, window;
    } rows[] = {
        {"none", {}, 0, 0},
        {"one", {{10, 20}}, 10, 10},
        {"apart", {{10, 20}, {30, 40}}, 20, 30},
        {"out of order", {{30, 40}, {10, 20}}, 20, 30},
        {"equal", {{10, 20}, {10, 20}, {10, 20}}, 10, 10},
        {"overlapping", {{10, 20}, {15, 30}}, 20, 20},
        {"contained", {{10, 40}, {15, 20}}, 30, 30},
        {"touching", {{10, 20}, {20, 30}}, 20, 20},
        {"bridging", {{10, 20}, {30, 40}, {15, 35}}, 30, 30},
        {"bridging three", {{1, 2}, {3, 4}, {5, 6}, {0, 7}}, 7, 7},
        {"backwards", {{20, 10}, {5, 5}}, 0, 0},
        {"largest numbers", {{0, 1}, {UINT64_MAX - 1, UINT64_MAX}}, 2, 18446744073709551615.0},
    };
    for (const auto& row : rows) {
        SUBCASE(row.name) {
            IntervalUnion sum;
            for (const auto& [start, stop] : row.intervals) sum.add(start, stop);
            CHECK(sum.covered() == doctest::Approx(row.covered));
            CHECK(sum.window() == doctest::Approx(row.window));
        }
    }
}

TEST_CASE("A million intervals are added up in bounded memory") {
    IntervalUnion sum;
    for (std::uint64_t i = 0; i < 1'000'000; ++i) {
        const std::uint64_t late = i ^ 1;  // neighbours come in the wrong order
        sum.add(late * 10, late * 10 + 4);
        sum.add(late * 10 + 2, late * 10 + 5);
    }
    CHECK(sum.covered() == doctest::Approx(5e6));
    CHECK(sum.window() == doctest::Approx(1e7 - 5));
}

TEST_CASE("What reaches behind the fold counts only beyond it") {
    IntervalUnion sum;
    for (std::uint64_t i = 0; i <= IntervalUnion::kOpen; ++i) sum.add(i * 10, i * 10 + 5);
    sum.add(0, 3);  // folded already
    sum.add(0, 7);  // 5..7 are new
    CHECK(sum.covered() == doctest::Approx(5.0 * (IntervalUnion::kOpen + 1) + 2));
}

}  // namespace toporun::profiler
