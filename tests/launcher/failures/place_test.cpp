#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "read.hpp"

/// Node, rank and GPU of a failure that another line of its block names.
namespace {

using toporun::tests::read_failures_of_text;

const std::string kPod =
    "Name:             worker-3\nNamespace:        ml\nNode:             node-k/10.1.2.3\n";
const std::string kEnded =
    "Containers:\n  trainer:\n    Last State:     Terminated\n      Reason:       OOMKilled\n"
    "      Exit Code:    137\n";
const std::string kHydra = "=   BAD TERMINATION OF ONE OF YOUR APPLICATION PROCESSES\n";

std::string intel(int rank, const std::string& node, const std::string& signal) {
    return kHydra + "=   RANK " + std::to_string(rank) + " PID " + std::to_string(100 + rank) +
           " RUNNING AT " + node + "\n=   KILLED BY SIGNAL: " + signal + "\n====\n\n";
}

TEST_CASE("node and rank of a failure out of the lines before it") {
    struct Row {
        std::string name, text, cause, node;
        std::optional<int> rank;
    };
    const std::vector<Row> rows = {
        {"a pod's container", kPod + kEnded, "host-oom-kill", "node-k", {}},
        {"a container without its pod", kEnded, "host-oom-kill", "", {}},
        {"the second of two pods",
         "Name:             worker-2\nNode:             node-j/10.1.2.2\n" + kPod + kEnded,
         "host-oom-kill",
         "node-k",
         {}},
        {"an evicted pod",
         kPod + "Status:           Failed\nMessage:          The node was low on resource: "
                "ephemeral-storage. Threshold quantity: 1Gi\n",
         "disk-full",
         "node-k",
         {}},
        {"MPICH tells the node",
         kHydra +
             "=   PID 77 RUNNING AT node-a\n=   EXIT CODE: 9\nYOUR APPLICATION TERMINATED WITH "
             "THE EXIT STRING: Killed (signal 9)\n",
         "unknown-kill",
         "node-a",
         {}},
        {"Intel MPI: the rank that crashed among those that were ended",
         intel(0, "node-a", "9 (Killed)") + intel(1, "node-b", "11 (Segmentation fault)") +
             intel(2, "node-b", "9 (Killed)"),
         "native-crash", "node-b", 1},
        {"Intel MPI: all were killed",
         intel(0, "node-a", "9 (Killed)") + intel(1, "node-b", "9 (Killed)"),
         "unknown-kill",
         "",
         {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto verdict = read_failures_of_text(row.text).verdict();
        REQUIRE(verdict);
        CHECK(verdict->cause == row.cause);
        CHECK(verdict->node == row.node);
        CHECK(verdict->rank == row.rank);
    }
}

TEST_CASE("the device of NCCL's prefix is told where the rank is not known") {
    const std::string warning =
        " [3] enqueue.cc:123 NCCL WARN Cuda failure 719 'unspecified "
        "launch failure'\n";
    const auto what = [](const std::string& text) {
        return read_failures_of_text(text).verdict().value().what;
    };
    CHECK(what("node-a:55:55" + warning).starts_with("a rank on CUDA device 3 (node-a): "));
    // Another thread may have no device.
    CHECK(what("node-a:55:77" + warning).starts_with("node-a: "));
    CHECK(what("node-a:55:55 [3] NCCL INFO comm 0x1 rank 5 nranks 8 cudaDev 3 busId 1a000 - Init "
               "COMPLETE\nnode-a:55:55" +
               warning)
              .starts_with("rank 5 (node-a, GPU 3): "));
}

}  // namespace
