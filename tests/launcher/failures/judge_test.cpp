#include <doctest/doctest.h>
#include <fmt/format.h>

#include <string>
#include <vector>

#include "read.hpp"

using namespace toporun::launcher::failures;
using namespace toporun::tests;

namespace {

struct Row {
    std::string name;
    std::string text;
    std::string cause;  ///< "" for no failure
    std::optional<int> rank;
    Confidence confidence = Confidence::certain;
    std::vector<int> suspects = {};
    bool all = false;
};

void check_rows(const std::vector<Row>& rows) {
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto verdict = read_failures_of_text(row.text).verdict();
        if (row.cause.empty()) {
            CHECK_FALSE(verdict);
            continue;
        }
        REQUIRE(verdict);
        CHECK(verdict->cause == row.cause);
        CHECK(verdict->rank == row.rank);
        CHECK(confidence_text(verdict->confidence) == confidence_text(row.confidence));
        CHECK(verdict->all_ranks == row.all);
        if (!row.suspects.empty()) CHECK(verdict->suspects == row.suspects);
        CHECK_FALSE(verdict->evidence.empty());
        CHECK_FALSE(verdict->advice.empty());
        CHECK(verdict->advice.size() <= 3);
    }
}

/// torchrun's table: rows of "rank exit code pid", the first one named as root cause.
std::string table(const std::vector<std::vector<int>>& rows) {
    const auto record = [](const std::vector<int>& row) {
        return "[9]:\n  time      : 2026-01-02_03:04:05\n  host      : node-a\n  rank      : " +
               std::to_string(row[0]) + " (local_rank: " + std::to_string(row[0]) +
               ")\n  exitcode  : " + std::to_string(row[1]) + " (pid: " + std::to_string(row[2]) +
               ")\n  error_file: <N/A>\n";
    };
    const std::string rule(60, '=');
    std::string text = rule + "\ntrain.py FAILED\nFailures:\n";
    for (std::size_t i = 1; i < rows.size(); ++i) text += record(rows[i]);
    return text + "Root Cause (first observed failure):\n" + record(rows[0]) + rule + "\n";
}

std::string lost(int rank) {
    const std::string label = "[default" + std::to_string(rank) + "]:";
    return label + "Traceback (most recent call last):\n" + label +
           "  File \"/home/user/train.py\", line 9, in step\n" + label +
           "RuntimeError: [x/pair.cc:598] Connection closed by peer [127.0.0.1]:31110\n";
}

}  // namespace

TEST_CASE("exceptions, kills and exit codes under torchrun") {
    const std::string key_error =
        "[default1]:Traceback (most recent call last):\n"
        "[default1]:  File \"/home/user/train.py\", line 24, in <module>\n"
        "[default1]:    batch['labels']\n"
        "[default1]:KeyError: 'labels'\n";
    const std::string killed = lost(0) + lost(2) + table({{0, 1, 101}, {1, -9, 102}, {2, 1, 103}});
    const std::string kernel =
        "[ 61.1] "
        "oom-kill:constraint=CONSTRAINT_MEMCG,nodemask=(null),cpuset=/"
        ",task=python3,pid=102,uid=0\n";
    check_rows({
        {"the exception before the lost connections",
         key_error + lost(0) + lost(2) + table({{0, 1, 101}, {1, 1, 102}, {2, 1, 103}}),
         "user-exception", 1},
        {"printed after them", lost(0) + key_error + lost(2), "user-exception", 1},
        {"a kill that nobody explains", killed, "unknown-kill", 1, Confidence::likely},
        {"a kill that the kernel explains", killed + kernel, "host-oom-kill", 1},
        {"an exit code without a word",
         lost(0) + lost(2) + table({{0, 1, 101}, {1, 7, 102}, {2, 1, 103}}), "silent-exit", 1,
         Confidence::likely},
        {"a crash", lost(0) + table({{0, 1, 101}, {1, -11, 102}}), "native-crash", 1,
         Confidence::likely},
        {"all ranks alike",
         "[default0]:Traceback (most recent call last):\n[default0]:  File \"/a.py\", line 1, in "
         "<module>\n[default0]:ModuleNotFoundError: No module named 'x'\n[default1]:Traceback "
         "(most recent call last):\n[default1]:  File \"/a.py\", line 1, in "
         "<module>\n[default1]:ModuleNotFoundError: No module named 'x'\n" +
             table({{0, 1, 101}, {1, 1, 102}}),
         "environment",
         std::nullopt,
         Confidence::certain,
         {},
         true},
        {"the first of a chain",
         "[default1]:Traceback (most recent call last):\n[default1]:  File \"/a.py\", line 1, in "
         "f\n[default1]:OSError: [Errno 28] No space left on device\n[default1]:During handling of "
         "the above exception, another exception occurred:\n[default1]:Traceback (most recent call "
         "last):\n[default1]:  File \"/a.py\", line 2, in g\n[default1]:ValueError: no "
         "checkpoint\n",
         "disk-full", 1},
    });
}

TEST_CASE("the table's own root cause is contradicted, with the reason") {
    const auto verdict =
        read_failures_of_text(lost(0) + table({{0, 1, 101}, {1, -9, 102}})).verdict();
    REQUIRE(verdict);
    CHECK(verdict->rank == 1);
    REQUIRE(verdict->remarks.size() == 2);
    CHECK(verdict->remarks[1].find("names rank 0") != std::string::npos);
}

TEST_CASE("the sleeper is the one that nobody names") {
    const auto timed_out = [](int rank) {
        const std::string label = "[default" + std::to_string(rank) + "]:";
        return label + "Traceback (most recent call last):\n" + label +
               "  File \"/t.py\", line 1, in s\n" + label +
               "RuntimeError: [x/unbound_buffer.cc:81] Timed out waiting 5000ms for recv operation "
               "to complete\n";
    };
    check_rows({{"it had to be ended",
                 timed_out(0) + timed_out(2) + "Sending process 102 closing signal SIGTERM\n" +
                     table({{0, 1, 101}, {2, 1, 103}}),
                 "slow-rank", 1, Confidence::likely}});
}

TEST_CASE("time-outs of process groups") {
    const auto watchdog = [](int rank, int work, const char* op, int size) {
        const std::string r = std::to_string(rank);
        return "[rank" + r + "]:[E816 01:45:40.183000000 ProcessGroupNCCL.cpp:607] [Rank " + r +
               "] Watchdog caught collective operation timeout: WorkNCCL(SeqNum=" +
               std::to_string(work) + ", OpType=" + op + ", NumelIn=" + std::to_string(size) +
               ", NumelOut=" + std::to_string(size) +
               ", Timeout(ms)=600000) ran for 600026 milliseconds before timing out.\n";
    };
    const auto witness = [](int rank, int enqueued) {
        const std::string r = std::to_string(rank), e = std::to_string(enqueued);
        return "[rank" + r +
               "]:[E816 01:45:40.5 ProcessGroupNCCL.cpp:1] [PG ID 0 PG GUID 0(default_pg) Rank " +
               r +
               "] Received a dump signal due to a collective timeout from  rank 1 and we will try "
               "our best to dump the debug info. Last enqueued NCCL work: " +
               e + ", last completed NCCL work: " + e + ".\n";
    };
    const auto in_group = [](std::string line) {
        const std::string mark = "] [Rank ";
        return line.replace(line.find(mark), mark.size(), "] [PG ID 0 PG GUID 0(default_pg) Rank ");
    };
    check_rows({
        {"two witnesses never called the work",
         in_group(watchdog(1, 78, "BROADCAST", 80)) + in_group(watchdog(2, 78, "BROADCAST", 80)) +
             in_group(watchdog(3, 78, "BROADCAST", 80)) + witness(0, 77) + witness(4, 77),
         "slow-rank",
         std::nullopt,
         Confidence::likely,
         {0, 4}},
        {"a witness names the group, those who waited do not",
         watchdog(1, 78, "BROADCAST", 80) + watchdog(2, 78, "BROADCAST", 80) + witness(0, 77),
         "slow-rank", 0, Confidence::likely},
        {"of two groups neither is missed by the other",
         watchdog(0, 5, "ALLREDUCE", 9) +
             "[rank1]:[E816 01:45:40.5 ProcessGroupNCCL.cpp:1] [PG ID 1 PG GUID 2(tp) Rank 1] "
             "Exception (either an error or timeout) detected by watchdog at work: 77, last "
             "enqueued "
             "NCCL work: 77, last completed NCCL work: 76.\n",
         "slow-rank", std::nullopt, Confidence::possible},
        {"sizes that must be equal",
         watchdog(0, 5, "ALLREDUCE", 9) + watchdog(1, 5, "ALLREDUCE", 18) +
             watchdog(2, 5, "ALLREDUCE", 9),
         "desync", 1, Confidence::likely},
        {"another operation at the same number",
         watchdog(0, 80078, "ALLREDUCE", 9) + watchdog(1, 80078, "ALLREDUCE", 9) +
             watchdog(7, 80078, "BROADCAST", 5),
         "desync", 7, Confidence::likely},
        {"one against one is undecided",
         watchdog(3, 80078, "ALLREDUCE", 9) + watchdog(7, 80078, "BROADCAST", 5), "desync",
         std::nullopt, Confidence::likely},
        {"the root of a broadcast may be ahead",
         watchdog(1, 39, "BROADCAST", 5) + watchdog(2, 39, "BROADCAST", 5) +
             watchdog(0, 41, "_ALLGATHER_BASE", 5),
         "desync", std::nullopt, Confidence::possible},
        {"a rank that is missing",
         watchdog(0, 5, "ALLREDUCE", 9) + "[rank1]: epoch 3\n" + watchdog(2, 5, "ALLREDUCE", 9),
         "slow-rank", 1, Confidence::possible},
        {"an exception beats time-outs",
         watchdog(0, 5, "ALLREDUCE", 9) + "[rank1]: Traceback (most recent call last):\n[rank1]:   "
                                          "File \"/t.py\", line 3, in f\n[rank1]: ValueError: x\n",
         "user-exception", 1},
    });
}

TEST_CASE("mismatched collectives: the minority is at fault") {
    const auto print = [](int mine, const char* op, int other, const char* other_op) {
        const std::string label = "[default" + std::to_string(mine) + "]:";
        return label + "RuntimeError: Detected mismatch between collectives on ranks. Rank " +
               std::to_string(mine) + " is running collective: CollectiveFingerPrint(OpType=" + op +
               ", TensorShape=[4]), but Rank " + std::to_string(other) +
               " is running collective: CollectiveFingerPrint(OpType=" + other_op +
               ", TensorShape=[4]).\n";
    };
    check_rows({
        {"two against one",
         print(0, "ALLREDUCE", 1, "BROADCAST") + print(1, "BROADCAST", 0, "ALLREDUCE") +
             print(2, "ALLREDUCE", 1, "BROADCAST"),
         "desync", 1},
        {"one against one", print(0, "ALLREDUCE", 1, "BROADCAST"), "desync", std::nullopt},
    });
}

TEST_CASE("GPU memory that is exhausted, and memory in pieces") {
    const auto raised = [](const std::string& message) {
        return "[rank1]: Traceback (most recent call last):\n[rank1]:   File \"/t.py\", line 3, in "
               "f\n[rank1]: torch.OutOfMemoryError: CUDA out of memory. " +
               message + "\n";
    };
    const std::string newer =
        "Tried to allocate 2.00 GiB. GPU 1 has a total capacity of 79.15 GiB of which 1.20 GiB is "
        "free. Of the allocated memory ";
    const std::string older = "Tried to allocate 512.00 MiB (GPU 1; 15.78 GiB total capacity; ";
    check_rows({
        {"used",
         raised(newer + "74.00 GiB is allocated by PyTorch, and 512.00 MiB is reserved by PyTorch "
                        "but unallocated."),
         "cuda-oom", 1},
        {"reserved",
         raised(newer + "40.00 GiB is allocated by PyTorch, and 35.00 GiB is reserved by PyTorch "
                        "but unallocated."),
         "allocator-fragmentation", 1},
        {"used, older",
         raised(older + "14.10 GiB already allocated; 30.00 MiB free; 14.20 GiB reserved in total "
                        "by PyTorch)"),
         "cuda-oom", 1},
        {"reserved, older",
         raised(
             older +
             "9.10 GiB already allocated; 30.00 MiB free; 14.20 GiB reserved in total by PyTorch)"),
         "allocator-fragmentation", 1},
        {"no figures", raised("Tried to allocate"), "cuda-oom", 1},
    });
}

TEST_CASE("endings from outside") {
    const std::string limit =
        "slurmstepd-n1: error: *** JOB 10 ON n1 CANCELLED AT 2026-11-30T07:34:24 DUE TO TIME LIMIT "
        "***\n";
    check_rows({
        {"the time limit", "0: step\n" + limit + "srun: error: n1: task 0: Terminated\n",
         "time-limit", std::nullopt},
        {"after a failure it is its end only",
         lost(1) +
             "[default0]:Traceback (most recent call last):\n[default0]:  File \"/t.py\", line 3, "
             "in f\n[default0]:ValueError: x\n" +
             limit,
         "user-exception", 0},
        {"preemption",
         "slurmstepd: error: *** STEP 1.0 ON n1 CANCELLED AT 2026 DUE TO PREEMPTION ***\n",
         "preempted", std::nullopt},
        {"Ctrl-C",
         "WARNING:torch.distributed.elastic.agent.server.api:Received 2 death signal, shutting "
         "down workers\nSending process 12 closing signal SIGINT\n[default0]:Traceback (most "
         "recent call last):\n[default0]:  File \"/t.py\", line 3, in "
         "f\n[default0]:KeyboardInterrupt\n",
         "signal-external", std::nullopt},
        {"a lost node",
         "srun: error: Node failure on n2\n0: slurmstepd-n1: error: *** STEP 18.0 ON n1 CANCELLED "
         "AT 2026 DUE TO NODE FAILURE, SEE SLURMCTLD LOG FOR DETAILS ***\nsrun: error: n3: task 2: "
         "Terminated\n",
         "node-lost", std::nullopt},
        {"a step that nobody gives a reason for",
         "srun: Job step aborted: Waiting up to 7 seconds for job step to finish.\n0: "
         "slurmstepd-n1: error: *** STEP 13.0 ON n1 CANCELLED AT 2026-11-30T07:33:49 ***\nsrun: "
         "error: n1: task 0: Killed\n",
         "cancelled", std::nullopt, Confidence::likely},
        {"a kill before it is a kill",
         "srun: error: n1: task 1: Killed\nsrun: launch/slurm: _step_signal: Terminating "
         "StepId=3.0\nslurmstepd-n1: error: *** STEP 3.0 ON n1 CANCELLED AT 2026-11-30T07:32:42 "
         "***\nsrun: error: n1: task 0: Terminated\n",
         "unknown-kill", 1, Confidence::likely},
    });
}

TEST_CASE("MPI launchers") {
    check_rows({
        {"the crash and its rank",
         "[node-a:26504] *** Process received signal ***\n[node-a:26504] Signal: Segmentation "
         "fault (11)\nmpirun noticed that process rank 1 with PID 0 on node node-a exited on "
         "signal 11 (Segmentation fault).\n",
         "native-crash", 1},
        {"Hydra's block names a victim",
         "[node-a:27024:0:27024] Caught signal 11 (Segmentation fault: address not mapped to "
         "object at address (nil))\n=   PID 27023 RUNNING AT node-a\n=   EXIT CODE: 9\nYOUR "
         "APPLICATION TERMINATED WITH THE EXIT STRING: Segmentation fault (signal 11)\n",
         "native-crash", std::nullopt},
        {"a lost daemon",
         "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[27252,0],0] on "
         "node node-a\n  Remote daemon: [[27252,0],1] on node node-b\n",
         "node-lost", std::nullopt},
    });
    const auto lost_node =
        read_failures_of_text(
            "ORTE has lost communication with a remote daemon.\n\n  HNP daemon   : [[27252,0],0] "
            "on node node-a\n  Remote daemon: [[27252,0],1] on node node-b\n")
            .verdict();
    REQUIRE(lost_node);
    CHECK(lost_node->node == "node-b");
}

TEST_CASE("NCCL's own log names the dead by its local rank") {
    const auto init = [](const char* host, int pid, int rank) {
        return std::string(host) + ":" + std::to_string(pid) + ":" + std::to_string(pid) +
               " [0] NCCL INFO ncclCommInitRank comm 0x1 rank " + std::to_string(rank) +
               " nranks 4 cudaDev 0 nvmlDev 0 busId 10000 commId 0x9 - Init COMPLETE\n";
    };
    const std::string start = init("a", 1, 0) + init("a", 2, 1) + init("b", 3, 2) + init("b", 4, 3);
    const std::string victim =
        "a:1:9 [0] misc/socket.cc:72 NCCL WARN socketProgress: Connection closed by remote peer "
        "\na:1:1 [0] NCCL INFO enqueue.cc:2637 -> 6\na:2:8 [1] NCCL INFO [Service thread] "
        "Connection closed by localRank 0\n";
    const std::string named =
        "b:3:8 [0] NCCL INFO [Service thread] Connection closed by localRank 1\n";
    check_rows({
        {"along the edges", start + victim + named, "unknown-kill", 3, Confidence::likely},
        {"a normal end",
         start + named + "b:3:3 [0] NCCL INFO comm 0x1 rank 2 nranks 4 - Destroy COMPLETE\n", "",
         std::nullopt},
        {"only consequences", victim, "unknown-kill", std::nullopt, Confidence::unknown},
        {"the network in mid-run",
         start + "a:1:1338 [0] NCCL WARN NET/IB : Got completion from peer 192.0.2.50<55921> with "
                 "status=12 opcode=1 len=0 vendor err 129\nb:3:3 [0] NCCL WARN NET/IB : Got "
                 "completion from peer 192.0.2.5<1> with status=5 opcode=0\n",
         "net-transient", 0, Confidence::likely},
        {"a word of NCCL's is no failure",
         start + "a:1:1 [0] NCCL INFO dlvsym failed on ibv_x - libibverbs: undefined symbol: "
                 "ibv_x, version IBVERBS_1.8\n",
         "", std::nullopt},
    });
}

TEST_CASE("what is no failure") {
    check_rows({
        {"nothing", "", "", std::nullopt},
        {"a training that ended",
         "epoch 1 loss nan\nUserWarning: an error occurred earlier\n[W socket.cpp:1] Failed to "
         "check the \"should dump\" flag on TCPStore\n",
         "", std::nullopt},
        {"loss of a value in a progress bar", "10%|#\r20%|##\rloss: nan\n", "", std::nullopt},
    });
}

TEST_CASE("a watchdog's line inside a progress bar is found") {
    const auto verdict = read_failures_of_text(
                             "10%|#\r[rank2]: Traceback (most recent call last):\n[rank2]:   File "
                             "\"/t.py\", line 3, in f\n[rank2]: ValueError: x\n")
                             .verdict();
    REQUIRE(verdict);
    CHECK(verdict->rank == 2);
    CHECK(verdict->frame == "/t.py line 3");
    CHECK(verdict->where == "job.log:3");
}

TEST_CASE("a restarted run is judged by its first attempt") {
    const auto verdict =
        read_failures_of_text(
            "[default1]:Traceback (most recent call last):\n[default1]:  File \"/t.py\", line 3, "
            "in f\n[default1]:KeyError: 'a'\n[default] Worker group FAILED. 3/3 attempts left; "
            "will restart worker group\n[default0]:Traceback (most recent call last):\n[default0]: "
            " File \"/t.py\", line 4, in f\n[default0]:OSError: [Errno 28] No space left on "
            "device\n")
            .verdict();
    REQUIRE(verdict);
    CHECK(verdict->cause == "user-exception");
    CHECK(verdict->rank == 1);
    REQUIRE(verdict->remarks.size() == 2);
    CHECK(verdict->remarks[0].find("restarted once") != std::string::npos);
    CHECK(verdict->remarks[1].find("attempt 2 failed: rank 0") != std::string::npos);
    CHECK(verdict->remarks[1].find("disk-full") != std::string::npos);
}

TEST_CASE("three later attempts are named, the others counted") {
    const auto last_remark = [](int attempts) {
        std::string text;
        for (int i = 0; i < attempts; ++i)
            text +=
                "[default1]:Traceback (most recent call last):\n[default1]:  File \"/t.py\", "
                "line 3, in f\n[default1]:KeyError: 'a'\n[default] Worker group FAILED. 9/9 "
                "attempts left; will restart worker group\n";
        const auto verdict = read_failures_of_text(text).verdict();
        REQUIRE(verdict);
        CHECK(verdict->remarks.size() <= 5);
        return verdict->remarks.back();
    };
    CHECK(last_remark(4).starts_with("attempt 4 failed in the same way"));
    CHECK(last_remark(5) == "1 more attempt failed");
    CHECK(last_remark(9) == "5 more attempts failed");
    const std::string many = last_remark(20'000);  // more events than are kept
    CHECK(many.starts_with("at least "));
    CHECK(many.ends_with(" more attempts failed"));
}

TEST_CASE("a child that a signal ended is no failure of a run that goes on") {
    std::string text = "step 1 loss 2.1\nstep 2 loss 2.0\n";
    for (const char* line : {"Killed\n", "Segmentation fault\n"}) {
        CAPTURE(line);
        CHECK(read_failures_of_text(text + line).verdict());
        std::string more = text + line;
        for (int i = 3; i < 9; ++i) more += fmt::format("step {} loss 1.{}\n", i, 9 - i);
        CHECK_FALSE(read_failures_of_text(more).verdict());
        CHECK_FALSE(read_failures_of_text(text + line + "Training finished\n").verdict());
    }
}

TEST_CASE("a date within a message is not the time of its line") {
    const std::string xid =
        "[Tue Jun  3 10:00:00 2025] NVRM: Xid (PCI:0000:3b:00): 79, pid=77, name=python3, GPU has "
        "fallen off the bus.\n";
    const auto dated = read_failures_of_text(
        xid +
        "[rank3]: Traceback (most recent call last):\n[rank3]:   File \"/t.py\", line 3, in f\n"
        "[rank3]: torch.AcceleratorError: CUDA error: unspecified launch failure while reading the "
        "shard of 2023-01-01 00:00:00\n");
    REQUIRE(dated.verdict());
    CHECK(dated.verdict()->cause == "gpu-hardware");
    const auto limit = read_failures_of_text(
        xid +
        "slurmstepd: error: *** JOB 7 ON gx01 CANCELLED AT 2025-06-05T10:00:00 DUE TO TIME LIMIT "
        "***\n");
    REQUIRE(limit.verdict());
    CHECK(limit.verdict()->cause == "gpu-hardware");
}

TEST_CASE("lines that tell of something slow are findings, counted") {
    const std::string line =
        "a:1:1 [0] NCCL INFO GPU Direct RDMA Disabled for GPU ca000 / HCA 0 (distance 7 > 4)\n";
    const Evidence evidence = read_failures_of_text(line + line).evidence();
    REQUIRE(evidence.findings.size() == 1);
    CHECK(evidence.findings[0].known->id == "gdr-too-far");
    CHECK(evidence.findings[0].count == 2);
    CHECK(evidence.findings[0].what ==
          "GPUDirect RDMA is off between GPU ca000 and adapter 0: they are 7 apart and NCCL allows "
          "4");
    CHECK(
        read_failures_of_text("Call to connect returned never mind\n").evidence().findings.empty());
}

TEST_CASE("interfaces as NCCL announced them") {
    const Evidence evidence = read_failures_of_text(
                                  "a:1:1 [0] NCCL INFO Bootstrap : Using eno1:10.0.0.1<0>\n"
                                  "a:1:1 [0] INFO NET : Using interface eth1:fe80::1%eth1<0>\n")
                                  .evidence();
    CHECK(evidence.interfaces.at("eno1") == "10.0.0.1");
}
