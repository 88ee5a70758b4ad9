#include "launcher/log/test_table.hpp"

#include <doctest/doctest.h>

#include <string>

#include "launcher/log/stream.hpp"

using namespace toporun::launcher;

namespace {

const std::string kOld =
    "     8388608       2097152   float     sum   3597.6    2.33    4.52  1e-06   3955.7    2.12   "
    " "
    "4.11  1e-06";
const std::string kNew =
    "  1073741824      67108864     float    none      -1    97803   10.98    8.23      0    97391 "
    " "
    " 11.03    8.27      0";

}  // namespace

TEST_CASE("rows of old and new versions are read, behind prefixes of launchers too") {
    const auto old = parse_test_row(kOld);
    REQUIRE(old);
    CHECK(old->bytes == 8388608);
    CHECK(old->type == "float");
    CHECK(old->op == "sum");
    CHECK(old->busbw_gbytes_per_s == 4.52);
    CHECK(old->algbw_gbytes_per_s == 2.33);
    CHECK(old->wrong == 0);
    for (const char* prefix : {"", "[1,0]<stdout>:", "0: "}) {
        const auto row = parse_test_row(prefix + kNew + "\r");
        REQUIRE(row);
        CHECK(row->busbw_gbytes_per_s == 8.27);
        CHECK(row->op == "none");
    }
    const auto wrong = parse_test_row(
        "     8388608       2097152     float     sum      -1   3597.6    2.33    4.52    12  "
        "3955.7  "
        "  2.12    4.11    N/A");
    REQUIRE(wrong);
    CHECK(wrong->wrong == 12);
    const auto many = parse_test_row(
        "     8388608       2097152     float     sum      -1   3597.6    2.33    4.52  1e+06  "
        "3955.7    2.12    4.11  1.34218e+08");
    REQUIRE(many);
    CHECK(many->wrong == 135218000);
    const auto one_side = parse_test_row(
        "     8388608         32768     float    none      -1   3597.6    2.33    2.04      0      "
        "N/A     N/A     N/A    N/A");
    REQUIRE(one_side);
    CHECK(one_side->busbw_gbytes_per_s == 2.04);
}

TEST_CASE("what only looks like a row is none") {
    CHECK_FALSE(parse_test_row(""));
    CHECK_FALSE(parse_test_row(std::string(200, ' ')));
    CHECK_FALSE(parse_test_row(
        "     8388608       2097152   float     sumnode-a:4336:43 [5] NCCL INFO x  0"));
    // Time and bandwidth do not fit: a table of another program, or torn.
    CHECK_FALSE(
        parse_test_row("     8388608       2097152   float     sum   3597.6    7.33    4.52  "
                       "1e-06   3955.7    2.12    4.11  1e-06"));
    CHECK_FALSE(
        parse_test_row("     8388608       2097152   apple     sum   3597.6    2.33    4.52  "
                       "1e-06   3955.7    2.12    4.11  1e-06"));
    CHECK_FALSE(parse_test_row(kOld.substr(0, kOld.size() - 14)));
    CHECK_FALSE(
        parse_test_row("     8388608       2097152   float     sum   nan      nan     nan  "
                       "1e-06   inf       inf     inf  1e-06"));
}

TEST_CASE("a row may end in any number behind two blanks") {
    const std::string begin(60, 'x');
    for (const char* end : {"  1", "  N/A", "  1.34218e+08", "  0 ", "  0  ", "  123456789012  "})
        CHECK(may_be_test_row(begin + end));
    for (const char* end : {" 1", " 1 2", "  12345678901234", "  !", " !x", " lr 1.0e-4", "  "}) {
        CAPTURE(end);
        CHECK(may_be_test_row(begin + end) == (std::string_view(end) == "  !"));
    }
    CHECK_FALSE(may_be_test_row("  1"));
}

TEST_CASE("rows make tables with their peak, what follows it and wrong values") {
    TestTables tables;
    const auto add = [&](std::uint64_t bytes, double busbw, std::uint64_t wrong) {
        TestRow row;
        row.bytes = bytes;
        row.type = "float";
        row.op = "sum";
        row.busbw_gbytes_per_s = busbw;
        row.algbw_gbytes_per_s = busbw / 1.75;
        row.wrong = wrong;
        tables.add(row);
    };
    add(8, 0.01, 0);
    CHECK(tables.tables().back().function.empty());  // too slow to tell
    add(1024, 2, 0);
    add(2048, 9, 3);
    add(4096, 4, 1);
    add(8192, 3, 0);
    add(8, 0.01, 0);
    REQUIRE(tables.tables().size() == 2);
    const LogTest& test = tables.tables().front();
    CHECK(test.function == "AllReduce");
    CHECK(test.rows == 5);
    CHECK(test.peak_bytes == 2048);
    CHECK(test.last_gbytes_per_s == 4);
    CHECK(test.wrong == 4);
    CHECK(test.wrong_bytes == 2048);
    CHECK(test.most_bytes == 8192);
}

TEST_CASE("a stream of lines finds the table between NCCL's lines") {
    LogModel model;
    {
        LogStream stream(model);
        stream.add(
            "#       size         count      type   redop    root     time   algbw   busbw #wrong");
        stream.add("node-a:1:1 [0] NCCL INFO Using network IB");
        stream.add(kNew);
        stream.add(kNew, true);  // cut: its end is not known
    }
    REQUIRE(model.summary().tests.size() == 1);
    CHECK(model.summary().tests[0].rows == 1);
}
