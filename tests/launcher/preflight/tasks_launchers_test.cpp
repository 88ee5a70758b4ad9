// Launchers that srun's tasks start, and the lines that are right.
#include <doctest/doctest.h>

#include "launch_lines.hpp"

namespace toporun::launcher {
namespace {

using namespace tests;

TEST_CASE("launchers that start the ranks of a node as torchrun does") {
    const Environment eight = {
        {"SLURM_GPUS_ON_NODE", "8"}, {"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}};
    const std::string accelerate = "srun accelerate launch --num_machines 2 --num_processes 16 ";
    const std::string c10d = "--rdzv_backend c10d --main_process_ip node-a ";
    const std::string composer = "srun composer -n 8 --world_size 16 ";
    const std::string fabric = "srun fabric run --devices=8 --num-nodes=2 ";
    const std::string deepspeed = "srun deepspeed --hostfile hf --no_ssh ";
    check({
        {accelerate + c10d + "t.py", batch(2, eight), "workers-multiplied", Severity::broken,
         "accelerate launch 8 times on a node, each time 8 ranks, for 8 GPUs",
         "--num_processes 16, --num_machines 2"},
        {"srun deepspeed --num_gpus 8 t.py", batch(2, eight), "workers-multiplied",
         Severity::broken, "deepspeed 8 times", "--num_gpus 8"},
        {"srun deepspeed t.py", batch(2, eight), "workers-multiplied", Severity::broken,
         "a rank for every GPU", "no --num_gpus"},
        {"srun deepspeed --include localhost:0 t.py", batch(2, eight), "workers-multiplied",
         Severity::slow, "several ranks", "--include localhost:0"},
        {"srun composer -n 8 t.py", batch(2, eight), "workers-multiplied", Severity::broken,
         "composer 8 times", "-n 8"},
        {"srun fabric run --devices=2,3 t.py", batch(2, eight), "workers-multiplied",
         Severity::broken, "each time 2 ranks", "--devices=2,3"},
        {"srun mpirun -np 16 ./train", batch(2, eight), "workers-multiplied", Severity::slow,
         "mpirun 16 times", "16 tasks"},
        {"srun deepspeed --hostfile hf t.py", batch(2), "workers-multiplied", Severity::slow,
         "deepspeed with --hostfile hf 2 times", "2 tasks"},
        {"srun -n1 mpirun -np 16 ./train", batch(2), ""},
        {"srun -n1 deepspeed --hostfile hf t.py", batch(2), ""},
        {"deepspeed --hostfile hf t.py", batch(2), ""},
        {accelerate + c10d + "t.py", batch(2), ""},
        {"srun --gpus-per-task=1 accelerate launch --num_machines 2 --num_processes 16 " + c10d +
             "t.py",
         batch(2), "ranks-exceed-gpus", Severity::broken, "8 ranks", "--gpus-per-task=1"},
        // One job for each node, or on the first alone.
        {"srun accelerate launch t.py", batch(2), "launcher-alone-per-node", Severity::slow,
         "accelerate launch is told of one node", "no --num_machines"},
        {"srun deepspeed t.py", batch(2), "launcher-alone-per-node", Severity::slow, "deepspeed",
         "no --hostfile"},
        {"srun composer -n 8 t.py", batch(2), "launcher-alone-per-node", Severity::slow, "composer",
         "no --world_size"},
        {"srun fabric run t.py", batch(2), "launcher-alone-per-node", Severity::slow, "fabric run",
         "no --num-nodes"},
        {"accelerate launch --num_machines 2 --main_process_ip node-a t.py", batch(2),
         "launcher-without-srun", Severity::slow, "waits for --num_machines 2", "no SLURM_STEP_ID"},
        {"deepspeed t.py", batch(2), "launcher-without-srun", Severity::note, "one of the 2 nodes",
         ""},
        {"composer -n 8 t.py", batch(1), ""},
        {"accelerate launch --num_machines 4 --main_process_ip node-a --rdzv_backend c10d t.py",
         task(2, 0), "nnodes-exceed-tasks", Severity::broken, "accelerate launch waits for 4 nodes",
         "--num_machines 4"},
        // The place of each node, and where they meet.
        {composer + "--node_rank 0 --master_addr node-a --master_port 7 t.py", batch(2),
         "node-rank-fixed", Severity::broken, "--node_rank 0 ", "SLURM_NNODES=2"},
        {composer + "--base_rank 8 --master_addr node-a --master_port 7 t.py", batch(2),
         "node-rank-fixed", Severity::broken, "--base_rank 8 ", ""},
        {composer + "--master_addr node-a --master_port 7 t.py", batch(2), "node-rank-missing",
         Severity::broken, "no --node_rank", "--world_size 16, -n 8"},
        {composer + "--node_rank 0 t.py", batch(2), "rendezvous-missing", Severity::broken,
         "composer is told of 2 nodes", "no --master_addr"},
        {composer + "--node_rank 0 --master_addr localhost t.py", batch(2), "rendezvous-loopback",
         Severity::broken, "--master_addr localhost", ""},
        {"composer -n 8 --world_size 16 --node_rank 0 --master_addr 0.0.0.0 t.py",
         {},
         "rendezvous-loopback",
         Severity::note,
         "0.0.0.0",
         ""},
        {"composer -n 8 --world_size 16 --node_rank 1 --master_addr node-a t.py", task(2, 1), ""},
        // The first global rank is no node.
        {"composer -n 8 --world_size 16 --base_rank 8 --master_addr node-a t.py", task(2, 1), ""},
        {"composer -n 8 --world_size 16 --node_rank 1 --base_rank 8 --master_addr node-a t.py",
         task(2, 1), ""},
        {"composer -n 8 --world_size 16 --base_rank 12 --master_addr node-a t.py", task(2, 1), ""},
        {"composer -n 8 --world_size 16 --base_rank 16 --master_addr node-a t.py", task(2, 1),
         "node-rank-fixed", Severity::broken, "--base_rank 16", "SLURM_NODEID=1"},
        {fabric + "--node-rank=0 --main-address=node-a t.py", batch(2), "node-rank-fixed",
         Severity::broken, "--node-rank=0", ""},
        {fabric + "--main-address=node-a t.py", batch(2), "node-rank-missing", Severity::broken,
         "no --node-rank", "--num-nodes=2"},
        {fabric + "t.py", batch(2), "rendezvous-missing", Severity::broken, "127.0.0.1",
         "no --main-address"},
        {"fabric run --num-nodes=2 --node-rank=2 --main-address=node-a t.py",
         {},
         "node-rank-too-high",
         Severity::broken,
         "0 to 1",
         "--num-nodes=2"},
        {deepspeed + "--node_rank 0 --master_addr node-a t.py", batch(2), "node-rank-fixed",
         Severity::broken, "--node_rank 0 ", ""},
        {accelerate + "--machine_rank 0 --main_process_ip 127.0.0.1 t.py", batch(2),
         "rendezvous-loopback", Severity::broken, "--main_process_ip 127.0.0.1", ""},
        {accelerate + "--rdzv_backend c10d --main_process_ip localhost t.py", batch(2),
         "rendezvous-loopback", Severity::broken, "--main_process_ip localhost", ""},
        {accelerate + "--rdzv_backend c10d t.py", batch(2), "rendezvous-missing", Severity::broken,
         "none by itself", "no --main_process_ip"},
        // deepspeed reaches the other nodes, and what is for CPUs alone.
        {accelerate + "--use_deepspeed --main_process_ip localhost t.py", batch(2), ""},
        {"srun -n 2 accelerate launch --cpu t.py", batch(1, {{"SLURM_GPUS_ON_NODE", "2"}}), ""},
    });
    const auto fix_of = [](const std::string& line, const Environment& variables) {
        const auto findings = findings_of(line, variables, {});
        return findings.empty() ? "" : findings.front().fix;
    };
    CHECK(fix_of(composer + "--master_addr node-a t.py", batch(2)).find("--nproc=8 ") !=
          std::string::npos);
    const std::string too_high = "--node_rank 7 --master_addr node-a t.py";
    CHECK(fix_of("composer -n 8 --world_size 16 " + too_high, {}) == "--node_rank=0");
    CHECK(fix_of("torchrun --nnodes=2 " + too_high, {}) == "--nnodes=8");
    const auto findings = findings_of(accelerate + "--machine_rank 0 t.py", batch(2), {});
    REQUIRE_FALSE(findings.empty());
    CHECK(findings[0].fix ==
          "srun --ntasks=2 --ntasks-per-node=1 bash -c 'accelerate launch --num_machines=2 "
          "--machine_rank=$SLURM_NODEID --main_process_ip=$MASTER_ADDR ...'");
}

std::vector<env::Finding> shell_findings(const std::string& srun, const std::string& text,
                                         const Environment& environment) {
    std::vector<std::string> words = split(srun, ' ');
    words.insert(words.end(), {"bash", "-c", text});
    const Command command = recognise(words, environment, FakeHost());
    return preflight(command, variables_of_ranks(command, environment), node_machine(), {});
}

TEST_CASE("a launcher in the shell text of srun's tasks") {
    const std::string several = "torchrun --nnodes=2 --nproc_per_node=8 ";
    const std::string place = "--node_rank=$SLURM_PROCID --master_addr=$MASTER_ADDR ";
    const Environment eight = {
        {"SLURM_GPUS_ON_NODE", "8"}, {"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}};
    struct Text {
        std::string srun;
        std::string text;
        Environment environment;
        std::string id;  ///< of the first finding; "" = nothing is wrong
    };
    const std::vector<Text> rows = {
        {"srun", several + place + "t.py", batch(2, eight), "workers-multiplied"},
        {"srun", "torchrun --nproc_per_node=$SLURM_GPUS_ON_NODE t.py", batch(2, eight),
         "workers-multiplied"},
        {"srun", several + place + "t.py", batch(2, {{"MASTER_ADDR", "localhost"}}),
         "rendezvous-loopback"},
        {"srun", several + "--node_rank=0 --master_addr=node-a t.py", batch(2), "node-rank-fixed"},
        {"srun", several + "--master_addr=${MASTER_ADDR} t.py", batch(2), "node-rank-missing"},
        {"srun", "cd x; exec torchrun --nproc_per_node=8 t.py \"$@\"", batch(2),
         "launcher-alone-per-node"},
        {"srun", "accelerate launch --num_machines 2 --machine_rank 0 --main_process_ip a t.py",
         batch(2), "node-rank-fixed"},
        {"srun -n 4", "mpirun -np 4 ./train", batch(1), "workers-multiplied"},
        {"srun", several + place + "t.py", batch(2), ""},
        {"srun", several + place + "t.py", batch(2, {{"MASTER_ADDR", "node-a"}}), ""},
        // The text may know better, and what it hands over is not known.
        {"srun", "MASTER_ADDR=$(head -n1 hosts); " + several + place + "t.py",
         batch(2, {{"MASTER_ADDR", "localhost"}}), ""},
        {"srun", "torchrun --nnodes=$SLURM_NNODES --nproc_per_node=$N " + place + "t.py", batch(2),
         ""},
        {"srun", several + "--node_rank=$R --master_addr=node-a t.py", batch(2, {{"R", "1"}}),
         "node-rank-fixed"},
        {"srun", several + "--master_addr=node-a --node_rank=$R x.y z", batch(2, {{"R", "1"}}),
         "node-rank-fixed"},
        {"srun --export=ALL,A=1", several + "--node_rank=$R --master_addr=node-a t.py",
         batch(2, {{"R", "1"}}), "node-rank-fixed"},
        {"srun --export=PATH", several + "--node_rank=$R --master_addr=node-a t.py",
         batch(2, {{"R", "1"}}), ""},
        {"srun --export=ALL,R=", several + "--node_rank=$R --master_addr=node-a t.py",
         batch(2, {{"R", "1"}}), ""},
        {"srun", "torchrun $ARGS t.py", batch(2), ""},
        {"srun", "torchrun --nproc_per_node 8 ${ARGS[@]} t.py", batch(2), ""},
        {"srun", "torchrun --nproc_per_node=8 --rdzv_endpoint=$(hostname):1 --nnodes=2 t.py",
         batch(2), ""},
        {"srun", "if a; then torchrun t.py; else " + several + place + "t.py; fi", batch(2), ""},
        {"srun", "python t.py", batch(2), ""},
        {"srun", several + "--node_rank=${SLURM_PROCID:-0} --master_addr=node-a t.py", batch(2),
         ""},
        {"srun", "export PET_NNODES=2; torchrun --nproc_per_node=8 t.py", batch(2), ""},
        {"srun singularity exec --nv i.sif", several + "--node_rank=0 --master_addr=node-a t.py",
         batch(2), "node-rank-fixed"},
        {"srun -N1 -n1", "torchrun --nproc_per_node=8 t.py", batch(2), ""},
    };
    for (const Text& row : rows) {
        CAPTURE(row.text);
        const auto findings = shell_findings(row.srun, row.text, row.environment);
        CHECK((findings.empty() ? "" : findings.front().id) == row.id);
    }
    for (const char* sets :
         {". ./env.sh", "set -e; . ./env.sh", "for R in $SLURM_NODEID; do :; done", "read R <x",
          "mapfile -t R <x", "eval $(./env.sh)", "printf -v R 0", "getopts n: R", "source env.sh",
          "R=$SLURM_NODEID"}) {
        CAPTURE(sets);
        const std::string text =
            std::string(sets) + "; " + several + "--node_rank=$R --master_addr=node-a t.py";
        CHECK(shell_findings("srun", text, batch(2, {{"R", "1"}})).empty());
    }
    FakeHost host;
    host.programs["./job.sh"] = "#!/bin/bash\nsource env.sh\n" + several + "t.py\n";
    const Command command = recognise({"srun", "./job.sh"}, batch(2), host);
    const auto findings = preflight(command, batch(2), {}, {});
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].id == "rendezvous-missing");
}

TEST_CASE("lines of several programs and lines that are not understood are not judged") {
    check({
        {"srun -N 2 torchrun --node-rank=0 t.py : -N 1 ./train", batch(2), ""},
        {"srun --no-such-option torchrun --node-rank=0 t.py", batch(2), ""},
        {"srun --help", batch(2), ""},
    });
}

}  // namespace
}  // namespace toporun::launcher
