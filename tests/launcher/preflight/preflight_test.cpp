// Each mistake of a launch line against the allocation, and the lines that are right.
#include "launcher/preflight/preflight.hpp"

#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <tuple>
#include <vector>

#include "base/text.hpp"
#include "fake_host.hpp"
#include "launcher/command/command.hpp"
#include "launcher/command/step.hpp"

namespace toporun::launcher {
namespace {

using env::Severity;
using tests::FakeHost;

/// Variables of a batch script on the first of `nodes` nodes.
Environment batch(int nodes, Environment more = {}) {
    more.insert({{"SLURM_JOB_ID", "7"},
                 {"SLURM_NNODES", std::to_string(nodes)},
                 {"SLURM_JOB_NUM_NODES", std::to_string(nodes)},
                 {"SLURM_PROCID", "0"},
                 {"SLURM_NODEID", "0"}});
    return more;
}

/// Variables of the only task of node `node` of a step of one task a node.
Environment task(int nodes, int node, Environment more = {}) {
    more.insert({{"SLURM_STEP_ID", "0"},
                 {"SLURM_STEP_NUM_NODES", std::to_string(nodes)},
                 {"SLURM_STEP_NUM_TASKS", std::to_string(nodes)},
                 {"SLURM_STEP_TASKS_PER_NODE", "1(x" + std::to_string(nodes) + ")"},
                 {"SLURM_PROCID", std::to_string(node)},
                 {"SLURM_NODEID", std::to_string(node)}});
    return batch(nodes, more);
}

/// Two GPUs, four cores of one PU.
detect::Machine node_machine(const char* allowed = "0-3") {
    detect::Machine machine;
    machine.gpus.resize(2);
    for (const char* pu : {"0", "1", "2", "3"}) {
        detect::Core core;
        core.pus = detect::CpuSet::parse(pu);
        machine.cpu.cores.push_back(core);
    }
    machine.cpu.allowed = detect::CpuSet::parse(allowed);
    return machine;
}

std::vector<env::Finding> findings_of(const std::string& line, const Environment& environment,
                                      const detect::Machine& machine) {
    const Command command = recognise(split(line, ' '), environment, FakeHost());
    return preflight(command, variables_of_ranks(command, environment), machine);
}

/// The line as the fix makes it, and its variables: words for srun stand before its program, a
/// launch line with `...` takes what torchrun was given beside it, options of torchrun's stand
/// before its program. Nothing for other texts.
struct Fixed {
    std::vector<std::string> words;
    Environment environment;
};

std::optional<Fixed> apply_fix(const std::string& line, Environment environment,
                               const std::string& fix) {
    const Command command = recognise(split(line, ' '), environment, FakeHost());
    std::vector<std::string> typed = command.argv;
    std::vector<std::string> fixed = split(fix, ' ');
    for (std::string& word : fixed)
        if (const auto at = word.find("$MASTER_ADDR"); at != std::string::npos)
            word.replace(at, 12, "node-a");
    if (fixed.front() == "unset") {
        for (const std::string& name : fixed) environment.erase(name);
        return Fixed{typed, environment};
    }
    const auto insert = [&](std::size_t at, std::size_t from) {
        typed.insert(typed.begin() + static_cast<std::ptrdiff_t>(at),
                     fixed.begin() + static_cast<std::ptrdiff_t>(from), fixed.end());
        return Fixed{typed, environment};
    };
    if (fix.find("bash -c") != std::string::npos || fix.find("toporun") != std::string::npos)
        return std::nullopt;
    if (fixed.back() == "...") {
        fixed.pop_back();
        const auto torchrun = std::find(typed.begin(), typed.end(), "torchrun");
        if (torchrun == typed.end()) return std::nullopt;
        for (const std::string& word : std::vector<std::string>(torchrun + 1, typed.end())) {
            const std::string name = word.substr(0, word.find('='));
            const bool given = std::any_of(fixed.begin(), fixed.end(), [&](const std::string& own) {
                return own.substr(0, own.find('=')) == name;
            });
            if (!given && name != "--standalone") fixed.push_back(word);
        }
        return Fixed{fixed, environment};
    }
    if (fixed.front() == "srun" && typed.front() == "srun" && !command.program_at.empty())
        return insert(command.program_at.front(), 1);
    if (fixed.front().starts_with("--") && fixed.size() == 1 && !command.program_at.empty())
        return insert(command.program_at.front(), 0);
    return std::nullopt;
}

struct Row {
    std::string line;
    Environment environment;
    std::string id;  ///< "" = nothing is wrong
    Severity severity = Severity::broken;
    std::string what = {};      ///< part of it
    std::string evidence = {};  ///< part of it
};

/// The fixes that are commands are tried. Returns how many.
int check(const std::vector<Row>& rows, const detect::Machine& machine = node_machine()) {
    int fixes_tried = 0;
    for (const Row& row : rows) {
        CAPTURE(row.line);
        const std::vector<env::Finding> findings = findings_of(row.line, row.environment, machine);
        const auto found =
            std::find_if(findings.begin(), findings.end(),
                         [&](const env::Finding& finding) { return finding.id == row.id; });
        if (row.id.empty()) {
            for (const env::Finding& finding : findings) FAIL_CHECK(finding.id, ": ", finding.what);
            continue;
        }
        REQUIRE(found != findings.end());
        CHECK(severity_text(found->severity) == severity_text(row.severity));
        CHECK(found->what.find(row.what) != std::string::npos);
        CHECK(found->evidence.find(row.evidence) != std::string::npos);
        CHECK_FALSE(found->effect.empty());
        CHECK_FALSE(found->fix.empty());
        const auto fixed = apply_fix(row.line, row.environment, found->fix);
        if (!fixed) continue;
        CAPTURE(join(fixed->words, " "));
        const Command again = recognise(fixed->words, fixed->environment, FakeHost());
        REQUIRE_FALSE(again.launchers.empty());
        for (const env::Finding& left :
             preflight(again, variables_of_ranks(again, fixed->environment), machine, LineFacts()))
            if (left.id == row.id || left.severity == Severity::broken)
                FAIL_CHECK("left: ", left.id, ": ", left.what);
        ++fixes_tried;
    }
    return fixes_tried;
}

const std::string kC10d = " --rdzv-backend=c10d --rdzv-endpoint=node-a:29500 t.py";

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

TEST_CASE("lines of several programs and lines that are not understood are not judged") {
    check({
        {"srun -N 2 torchrun --node-rank=0 t.py : -N 1 ./train", batch(2), ""},
        {"srun --no-such-option torchrun --node-rank=0 t.py", batch(2), ""},
        {"srun --help", batch(2), ""},
    });
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
