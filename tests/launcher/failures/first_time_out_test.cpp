#include "launcher/failures/first_time_out.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "launcher/failures/catalogue.hpp"
#include "read.hpp"

using namespace toporun::launcher::failures;
using namespace toporun::tests;

namespace {

/// A group whose first work began at that time of the day; `ranks`: whom it names.
GroupTimeOut group(std::uint64_t order, Role role, std::optional<double> began_s,
                   std::vector<int> ranks = {}) {
    GroupTimeOut made;
    made.event.role = role;
    made.event.ranks = std::move(ranks);
    made.event.place.order = order;
    made.began_s = began_s;
    return made;
}

constexpr double kNoon = 43200, kMidnight = 86400;
constexpr Role kLag = Role::lag, kOpen = Role::ambiguous;

TEST_CASE("of three groups' time-outs one is the first, in whatever order they are listed") {
    struct Row {
        std::string name;
        std::uint64_t first;  ///< order of the place
        GroupTimeOut a, b, c;
    };
    const std::vector<Row> rows = {
        {"who lags", 3, group(1, kOpen, 10), group(2, kOpen, 20), group(3, kLag, 99)},
        {"who began", 2, group(1, kOpen, 30, {4}), group(2, kOpen, 10), group(3, kOpen, 20, {5})},
        {"a time between two that are apart", 1, group(1, kOpen, 101.5, {1}), group(2, kOpen, 103),
         group(3, kOpen, 100, {2})},
        {"each near to the next alone", 2, group(1, kOpen, 103.2, {1}), group(2, kOpen, 101.6, {2}),
         group(3, kOpen, 100)},
        {"at the same time who tells", 3, group(1, kOpen, 100), group(2, kOpen, 101),
         group(3, kOpen, 101.9, {7})},
        {"one without a time may be first", 2, group(1, kOpen, 100), group(2, kOpen, {}, {3}),
         group(3, kOpen, 110, {4})},
        {"one without a time is no bridge to a late one", 1, group(1, kOpen, 100),
         group(2, kOpen, {}), group(3, kOpen, 110, {4})},
        {"no times", 2, group(1, kOpen, {}), group(2, kOpen, {}, {1}), group(3, kOpen, {}, {2})},
        {"alike", 1, group(1, kOpen, 100), group(2, kOpen, 100), group(3, kOpen, 100)},
        {"across midnight", 3, group(1, kOpen, 30), group(2, kOpen, 60),
         group(3, kOpen, kMidnight - 20)},
        {"before the midnight of the line", 3, group(1, kOpen, 30), group(2, kOpen, 60),
         group(3, kOpen, -20)},
        {"thirds of a day, each before the next", 2, group(1, kOpen, 0.9 * kNoon),
         group(2, kOpen, 0.2 * kNoon), group(3, kOpen, 1.5 * kNoon)},
        {"the time of another role is of no effect", 2, group(1, kLag, 200), group(2, kLag, 190),
         group(3, kOpen, 10)},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const std::vector<GroupTimeOut> three = {row.a, row.b, row.c};
        std::vector<std::size_t> way = {0, 1, 2};
        do {
            const std::vector<GroupTimeOut> listed = {three[way[0]], three[way[1]], three[way[2]]};
            CHECK(listed[first_time_out(listed)].event.place.order == row.first);
        } while (std::next_permutation(way.begin(), way.end()));
    }
}

TEST_CASE("the group that names somebody or tells of a mismatch tells more") {
    const Catalogue& catalogue = Catalogue::builtin();
    GroupTimeOut mismatch = group(2, kOpen, 100);
    mismatch.event.of = catalogue.find_class("desync");
    REQUIRE(mismatch.event.of != nullptr);
    CHECK(first_time_out({group(1, kOpen, 100), mismatch}) == 1);
    CHECK(first_time_out({group(1, kOpen, 100), group(2, kOpen, 101, {3})}) == 1);
    CHECK(first_time_out({group(1, kOpen, 100)}) == 0);
}

TEST_CASE("clocks of a day") {
    CHECK(clock_of("2026-01-02T00:00:01.5") == 1.5);
    CHECK(clock_of("2026-01-02 01:02:03,250") == 3723.25);
    CHECK_FALSE(clock_of("yesterday"));
    CHECK(clock_difference(10, kMidnight - 10) == 20);
    CHECK(clock_difference(kMidnight - 10, 10) == -20);
}

/// Failures are looked at by attempt: the starts of the ranks that have none cost nothing.
TEST_CASE("a job that was restarted a billion times is judged") {
    const FailureLog log = read_failures_of_text(
        "[rank1]: Traceback (most recent call last):\n"
        "[rank1]:   File \"/job/train.py\", line 7, in <module>\n"
        "[rank1]: ValueError: bad batch\n");
    Evidence evidence = log.evidence();
    REQUIRE_FALSE(evidence.events.empty());
    const auto once = judge(evidence, Catalogue::builtin());
    evidence.attempts = 1000000000;
    for (Event& event : evidence.events) event.attempt = evidence.attempts;
    const auto verdict = judge(evidence, Catalogue::builtin());
    REQUIRE(once);
    REQUIRE(verdict);
    CHECK(verdict->cause == once->cause);
    CHECK(verdict->rank == 1);
}

}  // namespace
