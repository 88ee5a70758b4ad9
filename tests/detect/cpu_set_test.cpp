#include "detect/cpu_set.hpp"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "base/error.hpp"

namespace toporun::detect {
namespace {

TEST_CASE("a list of CPUs is read whatever its order and overlaps") {
    struct Row {
        std::string list;
        std::string text;
    };
    const std::vector<Row> rows = {
        {"", ""},
        {" 3 ", "3"},
        {"0-7,64-71", "0-7,64-71"},
        {"4-5,0-1,2-3", "0-5"},
        {"0-10,2-3,5-20,20", "0-20"},
        {"7,7,7", "7"},
        {"65535", "65535"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.list);
        CHECK(CpuSet::parse(row.list).text() == row.text);
    }
}

TEST_CASE("what is no list of CPUs is refused") {
    for (const char* list :
         {"a", "1-", "-1", "3-1", "0-65536", "1;2", "1,,2", "99999999999999999999"}) {
        CAPTURE(list);
        CHECK_THROWS_AS(CpuSet::parse(list), Error);
    }
}

TEST_CASE("a range that is repeated often needs room once") {
    std::string list = "0-65535";
    for (int i = 0; i < 20000; ++i) list += ",0-65535";
    CHECK(CpuSet::parse(list).count() == 65536);
}

}  // namespace
}  // namespace toporun::detect
