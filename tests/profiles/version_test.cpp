#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "profiles/profile.hpp"

namespace {

using toporun::profiles::compare_versions;
using toporun::profiles::version_in_range;

TEST_CASE("versions compare by number and not by text") {
    struct Row {
        std::string a, b;
        int sign;
    };
    const std::vector<Row> rows = {
        {"2.9", "2.28.9", -1}, {"2.28.9", "2.28.9", 0}, {"2.28", "2.28.0", 0},
        {"2.30.7", "2.30", 1}, {"3.0", "2.99.99", 1},   {"2.27.7-HEAD:0d2c4fd", "2.27.7", 0},
        {"", "2.8", -1},       {"garbage", "0.0", 0},   {"2.8.3", "2.10", -1},
    };
    for (const Row& row : rows) {
        CAPTURE(row.a);
        CAPTURE(row.b);
        const int forward = compare_versions(row.a, row.b), back = compare_versions(row.b, row.a);
        CHECK((forward > 0) - (forward < 0) == row.sign);
        CHECK((back > 0) - (back < 0) == -row.sign);
    }
}

TEST_CASE("a range is inclusive and its end covers all releases below it") {
    struct Row {
        std::string version, since, until;
        bool inside;
    };
    const std::vector<Row> rows = {
        {"2.30.7", "", "2.30", true},    {"2.31.2", "", "2.30", false},
        {"2.30.7", "", "2.30.6", false}, {"2.30.7", "2.30.7", "2.30.7", true},
        {"2.28.9", "2.30", "", false},   {"2.28.9", "", "", true},
        {"2.28.9", "2.8", "2.28", true}, {"2.9.9", "2.28", "2.30", false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.version);
        CAPTURE(row.until);
        CHECK(version_in_range(row.version, row.since, row.until) == row.inside);
    }
}

}  // namespace
