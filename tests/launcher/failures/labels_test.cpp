#include <doctest/doctest.h>

#include "read.hpp"

using namespace toporun::launcher::failures;
using namespace toporun::tests;

TEST_CASE("labels that nobody has described are learned from a traceback") {
    struct Row {
        const char* first;   ///< before the traceback's first line
        const char* second;  ///< before the others: times differ
        std::optional<int> rank;
        const char* node;
    };
    const std::vector<Row> rows = {
        {"stderr: ", "stderr: ", {}, ""},
        {"10.0.0.9: ", "10.0.0.9: ", {}, "10.0.0.9"},
        {"cn12: ", "cn12: ", {}, "cn12"},
        {"worker-1  | ", "worker-1  | ", {}, "worker-1"},
        {"Feb 14 05:03:41 cn12 python[12]: ", "Feb 14 05:03:42 cn12 python[12]: ", {}, ""},
        {"  | 2025-11-28T07:42:11.527Z | ", "  | 2025-11-28T07:42:11.528Z | ", {}, ""},
        {"[2025-01-14T17:41:37.6Z] 1a2b3c4d || [rank=3] ",
         "[2025-01-14T17:41:37.6Z] 1a2b3c4d || [rank=3] ", 3, ""},
        {"Fri Sep 25 16:52:53 2025[3]<stderr>:", "Fri Sep 25 16:52:54 2025[3]<stderr>:", 3, ""},
        {"[1,mpirank:3,algo-1]<stderr>:", "[1,mpirank:3,algo-1]<stderr>:", 3, ""},
        {"train-worker-2 pytorch ", "train-worker-2 pytorch ", {}, ""},
        {"[pod/train-worker-2/pytorch] ", "[pod/train-worker-2/pytorch] ", {}, ""},
        {"ERROR 11-19 06:08:46 x.py:229] ", "ERROR 11-19 06:08:46 x.py:230] ", {}, ""},
        {" 10%|#  | 3/30 [00:01<00:12]", "", {}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.first);
        const std::string second = row.second;
        const auto verdict =
            read_failures_of_text(std::string(row.first) + "Traceback (most recent call last):\n" +
                                  second + "  File \"/home/u/fit.py\", line 9, in main\n" + second +
                                  "    x = f(x)\n" + second + "ValueError: bad shard 17\n")
                .verdict();
        REQUIRE(verdict);
        CHECK(verdict->cause == "user-exception");
        CHECK(verdict->frame == "/home/u/fit.py line 9");
        CHECK(verdict->rank == row.rank);
        CHECK(verdict->node == row.node);
    }
}

TEST_CASE("a word before a traceback is no label where the next line lacks it") {
    const auto verdict = read_failures_of_text(
                             "RuntimeError: Traceback (most recent call last):\n"
                             "Traceback (most recent call last):\n"
                             "  File \"/home/u/fit.py\", line 9, in main\n"
                             "RuntimeError: CUDA error: out of memory\n")
                             .verdict();
    REQUIRE(verdict);
    CHECK(verdict->cause == "cuda-oom");
}

TEST_CASE("what one stream prints on shows only its own errors to be dealt with") {
    const std::string failed =
        "[default1]:Traceback (most recent call last):\n[default1]:  File \"/t.py\", line 3, in "
        "f\n[default1]:KeyError: 'a'\n";
    const std::string other = "[default0]:step 10 loss 4.1\n[default0]:step 11 loss 4.0\n";
    const std::string same = "[default1]:step 10 loss 4.1\n[default1]:step 11 loss 4.0\n";
    const auto after = read_failures_of_text(failed + other).verdict();
    REQUIRE(after);
    CHECK(after->rank == 1);
    CHECK_FALSE(read_failures_of_text(failed + same).verdict());
    // Met again, and nothing after it.
    CHECK(read_failures_of_text(failed + same + failed).verdict());
    // The same line twice is no progress.
    CHECK(read_failures_of_text(failed + "[default1]:step 1\n[default1]:step 1\n").verdict());
}

TEST_CASE("NCCL gives up right after a warning that is not known") {
    const std::string warning =
        "a:1:7 [0] graph/x.cc:9 NCCL WARN Could not find real path of /sys/class/pci_bus\n";
    const auto verdict =
        read_failures_of_text(warning + "a:1:7 [0] NCCL INFO graph/x.cc:20 -> 2\n").verdict();
    REQUIRE(verdict);
    CHECK(verdict->cause == "nccl-system");
    CHECK(confidence_text(verdict->confidence) == "possible");
    CHECK_FALSE(read_failures_of_text(warning).verdict());
    CHECK_FALSE(
        read_failures_of_text(warning + "a:1:8 [0] NCCL INFO graph/x.cc:20 -> 2\n").verdict());
}
