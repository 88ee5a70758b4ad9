// Launch lines whose nodes do not meet, and the lines that are right.
#include <doctest/doctest.h>

#include "launch_lines.hpp"

namespace toporun::launcher {
namespace {

using namespace tests;

TEST_CASE("torchrun that does not know the nodes, or waits for more than there are") {
    check({
        {"srun torchrun --nproc-per-node=2 t.py", batch(2), "launcher-alone-per-node",
         Severity::slow, "each of the 2 nodes", "no --nnodes"},
        {"torchrun --standalone --nproc-per-node=2 t.py", task(4, 1), "launcher-alone-per-node",
         Severity::slow, "each of the 4 nodes", "--standalone"},
        {"torchrun --nproc-per-node=2 t.py", task(1, 0), ""},
        {"srun torchrun --nproc-per-node=2 t.py", batch(1), ""},
        {"srun torchrun --nnodes=1:2" + kC10d, batch(2), ""},
        {"torchrun --nnodes=4" + kC10d, task(2, 0), "nnodes-exceed-tasks", Severity::broken,
         "waits for 4 nodes", "2 tasks"},
        {"srun -N1 -n1 torchrun --nnodes=2" + kC10d, batch(2), ""},
        {"torchrun --nnodes=2" + kC10d, batch(2), "launcher-without-srun", Severity::slow,
         "this node only", "SLURM_JOB_NUM_NODES=2"},
        {"torchrun t.py", batch(2), "launcher-without-srun", Severity::note, "one of the 2 nodes",
         ""},
        {"torchrun t.py", batch(1), ""},
        {"torchrun --nnodes=2" + kC10d, {}, ""},
    });
}

TEST_CASE("the address where the nodes meet") {
    const std::string c10d = "srun torchrun --nnodes=2 --rdzv-backend=c10d ";
    check({
        {c10d + "--rdzv-endpoint=:29500 t.py", batch(2), "rendezvous-no-host", Severity::broken,
         "has no host", "--rdzv-endpoint=:29500"},
        {"torchrun --rdzv-backend=c10d --rdzv-endpoint=:29500 t.py",
         {},
         "rendezvous-no-host",
         Severity::broken,
         "has no host",
         ""},
        {c10d + "--rdzv-endpoint= t.py", batch(2), "rendezvous-missing", Severity::broken,
         "localhost", "is empty"},
        {c10d + "t.py", batch(2), "rendezvous-missing", Severity::broken, "localhost",
         "no --rdzv-endpoint"},
        {"torchrun --nnodes=2 --node-rank=0 t.py",
         {},
         "rendezvous-missing",
         Severity::note,
         "127.0.0.1",
         "no --master-addr"},
        {"torchrun --nnodes=2 --node-rank=1 t.py",
         {{"MASTER_ADDR", "node-a"}},
         "rendezvous-missing",
         Severity::broken,
         "127.0.0.1",
         "no --master-addr"},
        {"torchrun --nnodes=2 --master-addr= t.py",
         {},
         "rendezvous-no-host",
         Severity::broken,
         "has no host",
         "--master-addr="},
        {c10d + "--rdzv-endpoint=localhost:29500 t.py", batch(2), "rendezvous-loopback",
         Severity::broken, "meet itself", "localhost"},
        {c10d + "--rdzv-endpoint=[::1]:29500 t.py", batch(2), "rendezvous-loopback",
         Severity::broken, "meet itself", "::1"},
        {c10d + "--rdzv-endpoint=node-a:0 t.py", batch(2), "rendezvous-port-zero", Severity::broken,
         "port 0", "node-a:0"},
        {"torchrun --nnodes=2 --master-addr=node-a --master-port=0 t.py",
         {},
         "rendezvous-port-zero",
         Severity::broken,
         "port 0",
         "--master-port=0"},
        {"srun python3 t.py", batch(2, {{"MASTER_ADDR", "localhost"}}), "rendezvous-loopback",
         Severity::broken, "MASTER_ADDR=localhost", ""},
        // Programs that are not known to read it; Open MPI hands on what -x names.
        {"srun ./train", batch(2, {{"MASTER_ADDR", "localhost"}}), ""},
        {"mpirun -np 4 -H node-a:2,node-b:2 python3 t.py", {{"MASTER_ADDR", "localhost"}}, ""},
        {"mpirun -np 4 -H node-a:2,node-b:2 -x MASTER_ADDR python3 t.py",
         {{"MASTER_ADDR", "localhost"}},
         "rendezvous-loopback",
         Severity::broken,
         "MASTER_ADDR=localhost",
         ""},
        // One line of several: what the others are told is not known.
        {"torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-endpoint=localhost:29500 t.py",
         {},
         "rendezvous-loopback",
         Severity::note,
         "no other node can be told the same",
         ""},
        {"torchrun --nnodes=2 --node-rank=1 --master-addr=localhost t.py",
         {},
         "rendezvous-loopback",
         Severity::broken,
         "meet itself",
         ""},
        // With a least number of one node it starts alone.
        {"torchrun --nnodes=1:4 --rdzv-backend=c10d t.py",
         {},
         "rendezvous-missing",
         Severity::note,
         "1:4 nodes",
         ""},
        {"torchrun --nnodes=1:4 --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py",
         {},
         "rendezvous-port-zero",
         Severity::note,
         "port 0",
         ""},
        {c10d + "--rdzv-endpoint=10.0.0.1,172.17.0.1:29500 t.py", batch(2), ""},
        {"srun --export=ALL,MASTER_ADDR=127.0.0.1 ./train", batch(2), "rendezvous-loopback",
         Severity::broken, "127.0.0.1", ""},
        {"mpirun -np 4 -H node-a:2,node-b:2 -x MASTER_ADDR ./train",
         {{"MASTER_ADDR", ""}},
         "rendezvous-no-host",
         Severity::broken,
         "MASTER_ADDR=",
         ""},
        {"python3 t.py", task(2, 0, {{"MASTER_PORT", "0"}}), "rendezvous-port-zero",
         Severity::broken, "MASTER_PORT=0", ""},
        {c10d + "--rdzv-endpoint=node-a:29500 t.py", batch(2), ""},
        {c10d + "--rdzv-endpoint=[fd00::1]:29500 t.py", batch(2), ""},
        {c10d + "--rdzv-endpoint=node-a t.py", batch(2), ""},
        {"torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py", {}, ""},
        {"torchrun --standalone t.py", {}, ""},
        {"srun ./train", batch(1, {{"MASTER_ADDR", "localhost"}}), ""},
        {"srun ./train", batch(2, {{"MASTER_ADDR", "node-a"}, {"MASTER_PORT", "29500"}}), ""},
        {"mpirun -np 2 ./train", {{"MASTER_ADDR", "localhost"}}, ""},
        {"./train", batch(2, {{"MASTER_ADDR", "localhost"}}), ""},
    });
}

TEST_CASE("static rendezvous without a node rank, and node ranks of no node") {
    check({
        {"srun torchrun --nnodes=2 --master-addr=node-a t.py", batch(2), "node-rank-missing",
         Severity::broken, "takes itself for node 0", "--nnodes=2"},
        {"srun torchrun --nnodes=2 --rdzv-endpoint=node-a:29500 t.py", batch(2),
         "node-rank-missing", Severity::broken, "2 nodes", "no --rdzv-backend"},
        {"torchrun --nnodes=2 --master-addr=node-a t.py", task(2, 1), ""},  // filled in
        {"torchrun --nnodes=1 --node-rank=3 --master-addr=node-a t.py",
         {},
         "node-rank-too-high",
         Severity::broken,
         "0 to 0",
         "--nnodes=1"},
        {"torchrun --nnodes=4 --node-rank=3 --master-addr=node-a t.py", {}, ""},
        {"torchrun --nnodes=2 --node-rank=3" + kC10d, {}, ""},
        {"srun torchrun --nnodes=2 --nproc-per-node=h100:8" + kC10d, batch(2), "count-not-a-number",
         Severity::broken, "h100:8", ""},
        {"srun torchrun --nnodes=2 --nproc-per-node=" + kC10d, batch(2), "count-not-a-number",
         Severity::broken, "--nproc-per-node=", ""},
    });
    FakeHost host;
    host.files["c.yaml"] = "machine_rank: 0\nnum_machines: 2\nrdzv_backend: static\n";
    const Command command =
        recognise(split("srun accelerate launch --config_file c.yaml t.py", ' '), batch(2), host);
    const auto findings = preflight(command, batch(2), {}, {});
    REQUIRE(findings.size() == 2);
    CHECK(findings[0].id == "node-rank-fixed");
    CHECK(findings[0].evidence.starts_with("machine_rank: 0"));
    CHECK(findings[1].id == "rendezvous-missing");
}

TEST_CASE("outside Slurm a fix names no variable that is not set") {
    const auto findings =
        findings_of("torchrun --rdzv-backend=c10d --rdzv-endpoint=:29500 t.py", {}, {});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].fix == "--rdzv-endpoint=HOST:29500");
    CHECK(findings[0].remark.starts_with("HOST: the name of the first node"));
}

TEST_CASE("an endpoint of several addresses") {
    const Command command = recognise({"torchrun", "--nnodes=2", "--rdzv-backend=c10d",
                                       "--rdzv-endpoint=10.0.0.1 172.17.0.1:29500", "t.py"},
                                      {}, FakeHost());
    const auto findings = preflight(command, {}, {}, {});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].id == "rendezvous-not-one-host");
}

}  // namespace
}  // namespace toporun::launcher
