#include "launcher/failures/kernel_line.hpp"

#include <doctest/doctest.h>

using namespace toporun::launcher::failures;

TEST_CASE("dates of the kernel, syslog and loggers") {
    struct Row {
        const char* line;
        int year, month, day, seconds;
    };
    for (const Row& row : {
             Row{"[Tue Jun  3 10:00:01 2025] NVRM: Xid", 2025, 6, 3, 36001},
             Row{"Jun 13 00:00:59 gx04 kernel: x", 0, 6, 13, 59},
             Row{"1: 2025-06-03T10:00:00.5Z INFO x", 2025, 6, 3, 36000},
             Row{"[2025-06-03 10:00:00,100] [INFO] x", 2025, 6, 3, 36000},
             Row{"time      : 2025-06-03_10:00:00", 2025, 6, 3, 36000},
             Row{"E0405 10:00:04.0 77 torch/x.py:874] x", 0, 4, 5, 36004},
             Row{"[rank0]:[E1002 18:16:40.6 ProcessGroupNCCL.cpp:756] x", 0, 10, 2, 65800},
             Row{"[rank0]:[E816 01:45:40.1 x.cpp:12] x", 0, 8, 16, 6340},
         }) {
        CAPTURE(row.line);
        const auto time = log_time(row.line);
        REQUIRE(time);
        CHECK(time->year == row.year);
        CHECK(time->month == row.month);
        CHECK(time->day == row.day);
        CHECK(time->seconds == row.seconds);
    }
    for (const char* line : {"", "step 2025 loss 1", "2025-13-03 10:00:00", "Jun 3", "E0405",
                             "[ 99.1] NVRM: Xid", "2025-06-03 25:00:00"}) {
        CAPTURE(line);
        CHECK_FALSE(log_time(line));
    }
}

TEST_CASE("hours between dates, with and without a year") {
    CHECK(hours_apart({2025, 6, 3, 0}, {2025, 6, 4, 3600}) == doctest::Approx(25));
    CHECK(hours_apart({0, 6, 3, 0}, {2025, 6, 2, 0}) == doctest::Approx(24));
    CHECK(hours_apart({0, 12, 31, 82800}, {2026, 1, 1, 3600}) < 10);  // the year before
    CHECK(hours_apart({2024, 6, 3, 0}, {2025, 6, 3, 0}) == doctest::Approx(365 * 24));
    CHECK(hours_apart({0, 2, 29, 0}, {0, 2, 31, 0}) == doctest::Approx(48));  // no such day
}

TEST_CASE("what an Xid names") {
    const auto named = kernel_line(
        "Jun  3 10:00:00 gx04 kernel: [84001.2] NVRM: Xid (PCI:0000:3B:00): 13, pid='5123', "
        "name=python3, Graphics SM Warp Exception");
    REQUIRE(named);
    CHECK(named->host == "gx04");
    CHECK(named->bus == "0000:3b:00");
    CHECK(named->pid == 5123);
    CHECK(named->program == "python3");
    const auto bare = kernel_line("[ 99.1] NVRM: Xid (00000000:1A:00.0): 79, pid='<unknown>', x");
    REQUIRE(bare);
    CHECK(bare->host.empty());
    CHECK(bare->bus == "0000:1a:00");
    CHECK_FALSE(bare->pid);
    CHECK_FALSE(kernel_line("our kernel: fast"));
    CHECK_FALSE(kernel_line("step 10 loss 2"));
}
