// Launch lines against the allocation: node ranks, tasks, slots, and the lines that are right.
#include <doctest/doctest.h>

#include <tuple>

#include "launch_lines.hpp"
#include "launcher/command/step.hpp"
#include "launcher/preflight/launch_line.hpp"

namespace toporun::launcher {
namespace {

using namespace tests;

TEST_CASE("a literal node rank on a line that every node runs") {
    const std::string id = "node-rank-fixed";
    const std::string old = "srun python3 -m torch.distributed.launch --nproc_per_node=4 ";
    check({
        {old + "--nnodes=2 --node_rank=0 --master_addr=node-a t.py", batch(2), id, Severity::broken,
         "--node_rank=0 ", "SLURM_NNODES=2"},
        {"srun -N 2 torchrun --nnodes=2 --node-rank 1 --master-addr=node-a t.py",
         {},
         id,
         Severity::broken,
         "--node-rank 1 ",
         "-N 2"},
        {"srun torchrun --nnodes=2 --master-addr=node-a t.py", batch(2, {{"PET_NODE_RANK", "0"}}),
         id, Severity::broken, "PET_NODE_RANK=0", "SLURM_NNODES=2"},
        {"srun accelerate launch --num_machines 2 --machine_rank 0 t.py", batch(2), id,
         Severity::broken, "--machine_rank 0 ", "SLURM_NNODES=2"},
        {"torchrun --nnodes=2 --node-rank=0 --master-addr=node-a t.py", task(2, 1), id,
         Severity::broken, "--node-rank=0", "SLURM_NODEID=1"},
        {"srun singularity exec --nv i.sif torchrun --nnodes=2 --node-rank=0 --master-addr=a t.py",
         batch(2), id, Severity::broken, "--node-rank=0", ""},
        // Each task's own number, one node each, and a backend that ignores it.
        {"torchrun --nnodes=2 --node-rank=1 --master-addr=node-a t.py", task(2, 1), ""},
        {"srun -N1 -n1 torchrun --nnodes=2 --node-rank=1 --master-addr=node-a t.py", batch(2), ""},
        {"srun -n1 torchrun --nnodes=2 --node-rank=1 --master-addr=node-a t.py", batch(2), ""},
        {"srun -w node-b torchrun --nnodes=2 --node-rank=1 --master-addr=node-a t.py", batch(2),
         ""},
        {"srun torchrun --nnodes=2 --node-rank=0" + kC10d, batch(2), ""},
        {"srun accelerate launch --num_machines 2 --machine_rank 0 --rdzv_backend c10d "
         "--main_process_ip node-a t.py",
         batch(2), ""},
        {"srun -N1 -n1 accelerate launch --num_machines 1 --machine_rank 0 t.py", batch(2), ""},
        // No shell takes the variable for its value.
        {"srun torchrun --nnodes=2 --node-rank=$SLURM_NODEID --master-addr=node-a t.py", batch(2),
         "count-not-a-number", Severity::broken, "$SLURM_NODEID", ""},
    });
    const auto findings = findings_of(old + "--nnodes=2 --node_rank=0 t.py", batch(2), {});
    REQUIRE(findings.size() >= 1);
    CHECK(findings[0].fix ==
          "srun --ntasks=2 --ntasks-per-node=1 bash -c 'torchrun --nnodes=2 "
          "--node-rank=$SLURM_NODEID ...'");
    CHECK(findings[0].remark.find("SLURM_PROCID=0") != std::string::npos);
}

TEST_CASE("numbers of tasks that do not agree") {
    const std::string id = "task-counts-differ";
    check({
        {"srun ./train", batch(2, {{"SLURM_NTASKS", "32"}, {"SLURM_NTASKS_PER_NODE", "8"}}), id,
         Severity::broken, "2 nodes x 8 tasks is 16", "SLURM_NTASKS=32"},
        {"srun --ntasks-per-node=1 ./train", batch(2, {{"SLURM_NTASKS", "16"}}), id,
         Severity::broken, "SLURM_NTASKS=16", "--ntasks-per-node=1"},
        {"srun -N 2 -n 6 --ntasks-per-node=4 ./train",
         {},
         id,
         Severity::slow,
         "-n 6",
         "--ntasks-per-node=4"},
        {"srun ./train", batch(4, {{"SLURM_NTASKS", "32"}, {"SLURM_NTASKS_PER_NODE", "8"}}), ""},
        {"srun -n 2 ./train", batch(2, {{"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
         ""},
        {"srun -N 1 ./train", batch(2, {{"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
         ""},
        {"srun ./train", batch(2, {{"SLURM_NTASKS_PER_NODE", "8"}}), ""},
    });
}

TEST_CASE("what each task gets: GPUs, torchruns, CPUs, variables") {
    const int fixes_tried = check({
        {"srun -n 2 --tres-per-task=gres/gpu:1 --tres-bind=gres/gpu:per_task:1 ./train", batch(2),
         "one-gpu-per-task", Severity::note, "device 0", "per_task"},
        {"srun -N 2 -n 2 --gpus-per-task=1 ./train", batch(2), ""},
        {"srun -n 2 --tres-per-task=gres/gpu:1 --tres-bind=gres/gpu:none ./train", batch(2), ""},
        {"srun --ntasks-per-node=8 torchrun --nnodes=2 --nproc-per-node=8" + kC10d,
         batch(2, {{"SLURM_GPUS_ON_NODE", "8"}}), "workers-multiplied", Severity::broken,
         "srun starts torchrun 8 times on a node, each time 8 ranks, for 8 GPUs",
         "--nproc-per-node=8"},
        {"srun --ntasks-per-node=8 torchrun --nnodes=2 --nproc-per-node=gpu" + kC10d, batch(2),
         "workers-multiplied", Severity::slow, "a rank for every GPU", "8 tasks"},
        {"torchrun --nnodes=2 --nproc-per-node=2" + kC10d,
         task(2, 0, {{"SLURM_STEP_TASKS_PER_NODE", "2,2"}, {"SLURM_STEP_NUM_TASKS", "4"}}),
         "workers-multiplied", Severity::broken, "2 times", "2 tasks"},
        {"srun --ntasks-per-node=2 torchrun --nnodes=4 --nproc-per-node=4" + kC10d,
         batch(2, {{"SLURM_GPUS_ON_NODE", "8"}}), "workers-multiplied", Severity::slow,
         "2 times on a node, each time 4 ranks, for 8 GPUs", "--nproc-per-node=4"},
        {"srun --ntasks-per-node=8 torchrun --nnodes=16" + kC10d,
         batch(2, {{"SLURM_GPUS_ON_NODE", "8"}}), "workers-multiplied", Severity::slow,
         "each time 1 rank", "no --nproc-per-node"},
        {"srun --ntasks-per-node=8 --gpus-per-task=1 torchrun --nnodes=16" + kC10d,
         batch(2, {{"SLURM_GPUS_ON_NODE", "8"}}), ""},
        {"srun torchrun --nnodes=2 --nproc-per-node=8" + kC10d,
         batch(
             2,
             {{"SLURM_GPUS_ON_NODE", "8"}, {"SLURM_NTASKS", "16"}, {"SLURM_NTASKS_PER_NODE", "8"}}),
         "workers-multiplied", Severity::broken, "8 times", "8 tasks a node"},
        {"srun torchrun --nnodes=2 --nproc-per-node=4" + kC10d,
         batch(2, {{"SLURM_GPUS_PER_TASK", "1"}}), "ranks-exceed-gpus", Severity::broken,
         "sees 1 GPU", "SLURM_GPUS_PER_TASK=1"},
        {"srun -n 2 python3 t.py", batch(2, {{"SLURM_GPUS_PER_TASK", "1"}}), "one-gpu-per-task",
         Severity::note, "device 0", "SLURM_GPUS_PER_TASK=1"},
        {"srun -n 2 --gpu-bind=map_gpu:1,0 python3 t.py", batch(2), "one-gpu-per-task",
         Severity::note, "device 0", "map_gpu"},
        {"srun -n 2 --gpus-per-task=1 --gpu-bind=closest python3 t.py", batch(2),
         "one-gpu-per-task", Severity::note, "device 0", "closest"},
        {"srun -n 2 --gpus-per-task=1 --gpu-bind=none python3 t.py", batch(2), ""},
        {"srun --ntasks-per-node=1 torchrun --nnodes=2 --nproc-per-node=8" + kC10d,
         batch(2, {{"SLURM_GPUS_ON_NODE", "8"}}), ""},
        {"srun --gpus-per-task=1 torchrun --nnodes=2 --nproc-per-node=8" + kC10d, batch(2),
         "ranks-exceed-gpus", Severity::broken, "sees 1 GPU", "--gpus-per-task=1"},
        {"srun --gpus-per-task=8 torchrun --nnodes=2 --nproc-per-node=8" + kC10d, batch(2), ""},
        {"srun -c 1 torchrun --nnodes=2 --nproc-per-node=8" + kC10d, batch(2), "task-one-cpu",
         Severity::slow, "8 ranks", "-c 1"},
        {"srun -c 64 torchrun --nnodes=2 --nproc-per-node=8" + kC10d,
         batch(2, {{"SLURM_CPUS_PER_TASK", "1"}}), ""},
        {"srun --export=NONE ./train", batch(1), "export-drops-path", Severity::slow,
         "--export=NONE", ""},
        {"srun ./train", batch(1, {{"SLURM_EXPORT_ENV", "NONE"}}), "export-drops-path",
         Severity::slow, "SLURM_EXPORT_ENV=NONE", ""},
        {"srun --export=ALL,A=1 ./train", batch(1), ""},
        {"srun --container-image=a --export=A=1 ./train", batch(1), "export-drops-path",
         Severity::slow, "does not hand over the job script's variables", "--export=A=1"},
    });
    CHECK(fixes_tried > 3);
    const std::string one_cpu = "torchrun --nnodes=2 --nproc-per-node=2" + kC10d;
    check({{one_cpu, task(2, 0), "task-one-cpu", Severity::slow, "one CPU core", "mask 2"}},
          node_machine("2"));
    check({{one_cpu, task(2, 0), ""}}, node_machine("1-2"));
    const auto lost =
        findings_of(one_cpu, task(2, 0, {{"SLURM_CPUS_PER_TASK", "64"}}), node_machine("2"));
    REQUIRE(lost.size() == 1);
    CHECK(lost[0].fix == "export SRUN_CPUS_PER_TASK=$SLURM_CPUS_PER_TASK");
}

TEST_CASE("more ranks than Open MPI has slots") {
    const std::string id = "ranks-exceed-slots";
    const Environment tasks = {{"SLURM_TASKS_PER_NODE", "8(x2)"}};
    check({
        {"mpirun -np 17 ./train", batch(2, tasks), id, Severity::broken, "16 slots",
         "SLURM_TASKS_PER_NODE=8(x2)"},
        {"mpirun -np 4 -H node-a:1,node-b:2 ./train", {}, id, Severity::broken, "-np 4", "hosts"},
        {"mpirun -np 2 -H node-a ./train", {}, id, Severity::broken, "1 slot", ""},
        {"mpirun -np 5 ./train", {}, id, Severity::broken, "each of the 4 cores", "no hosts"},
        {"mpirun -np 16 ./train", batch(2, tasks), ""},
        {"mpirun -np 17 ./train", batch(2), ""},
        {"mpirun -np 17 -H node-a:1 ./train", batch(2, tasks), ""},
        {"mpirun -np 4 ./train", {}, ""},
        {"mpirun -np 2 -H node-a,node-a ./train", {}, ""},
        {"mpirun -np 5 --oversubscribe ./train", {}, ""},
        {"mpirun -np 5 --map-by :OVERSUBSCRIBE ./train", {}, ""},
        {"mpirun -np 5 --use-hwthread-cpus ./train", {}, ""},
        {"mpirun -np 5 --mca rmaps_base_oversubscribe 1 ./train", {}, ""},
        {"mpirun -np 5 ./train", {{"OMPI_MCA_rmaps_base_oversubscribe", "1"}}, ""},
        {"mpirun -np 5 ./train", {{"PBS_NODEFILE", "nodes"}}, ""},
        {"mpirun -np 4 ./train : -np 4 ./w", {}, ""},
        {"mpiexec.hydra -n 5 ./train", {}, ""},
    });
    CHECK(tasks_on_all_nodes("2(x3),1") == 7);
    CHECK_FALSE(tasks_on_all_nodes("x"));
}

TEST_CASE("the script's number of tasks and an option for nodes") {
    const auto tasks_of = [](const std::string& line, const std::string& tasks) {
        const Environment environment = batch(2, {{"SLURM_NTASKS", tasks}});
        const Command command = recognise(split(line, ' '), environment, FakeHost());
        return read_launch_line(command, environment).tasks.value_or(-1);
    };
    CHECK(tasks_of("srun -N2 torchrun t.py", "2") == 2);
    CHECK(tasks_of("srun -N2 --ntasks-per-node=4 torchrun t.py", "8") == 8);
    CHECK(tasks_of("srun -N2 torchrun t.py", "8") == -1);  // which of them wins is not certain
    CHECK(tasks_of("srun -N2 --ntasks-per-node=1 torchrun t.py", "8") == -1);
    CHECK(tasks_of("srun torchrun t.py", "8") == 8);
}

TEST_CASE("tasks of a node in Slurm's run-length form") {
    const std::vector<std::tuple<std::string, int, int>> rows = {
        {"8(x4)", 0, 8},   {"8(x4)", 3, 8},   {"8(x4)", 4, -1}, {"3,1", 1, 1},
        {"2(x3),1", 2, 2}, {"2(x3),1", 3, 1}, {"", 0, -1},      {"2(x", 0, -1},
        {"x", 0, -1},      {"2(x0)", 0, -1},  {"-1", 0, -1},
    };
    for (const auto& [text, node, tasks] : rows) {
        CAPTURE(text);
        CHECK(tasks_on_node(text, node).value_or(-1) == tasks);
    }
}

}  // namespace
}  // namespace toporun::launcher
