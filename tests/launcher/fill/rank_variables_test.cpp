// What Python programs are told of their place in the job.
#include <doctest/doctest.h>

#include "steps.hpp"

namespace toporun::launcher {
namespace {

using namespace toporun::tests;

FilledIn filled(const std::string& line, const Environment& environment,
                const FillOptions& options = {},
                const detect::Machine& machine = node_with_interfaces(1)) {
    RendezvousFacts facts;
    facts.addresses = {"10.0.0.1"};
    return fill_in(gaps_of(line, environment), facts, environment, machine, {}, options);
}

constexpr const char* kSecondOfEight =
    "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 "
    "MASTER_ADDR=10.0.0.1 MASTER_PORT=23378";

TEST_CASE("Python in a task of a step") {
    struct Row {
        std::string line;
        std::string exported;
        Environment more = {};
    };
    const std::vector<Row> rows = {
        {"python train.py", kSecondOfEight},
        {"/venv/bin/python -m pkg.train", kSecondOfEight},
        {"numactl -N0 python train.py", kSecondOfEight},
        {"python train.py",
         "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_PORT=23378",
         {{"MASTER_ADDR", "n1"}}},
        {"python train.py",
         "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4",
         {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "29500"}}},
        // As pyxis sets them.
        {"python train.py",
         "WORLD_SIZE=8 LOCAL_WORLD_SIZE=4 MASTER_ADDR=10.0.0.1 MASTER_PORT=23378",
         {{"RANK", "5"}, {"LOCAL_RANK", "1"}}},
        {"python train.py", "", {{"RANK", "0"}}},
        {"python train.py", "", {{"WORLD_SIZE", "2"}}},
        {"python train.py", "", {{"SLURM_STEP_ID", ""}}},
        {"python train.py", "", {{"SLURM_PROCID", "8"}}},
        {"./train", ""},
        {"bash -c python", ""},
        {"python -m sglang.launch_server --model m", ""},
        {"ray start --block", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        CHECK(exported_text(filled(row.line, step_task(2, 4, 5, row.more))) == row.exported);
    }
    CHECK(exported_text(filled("python t.py", step_task(1, 2, 1))) ==
          "RANK=1 WORLD_SIZE=2 LOCAL_RANK=1 LOCAL_WORLD_SIZE=2 MASTER_ADDR=127.0.0.1 "
          "MASTER_PORT=23378");
    CHECK(exported_text(filled("python t.py", step_task(1, 1, 0))).empty());
    CHECK(filled("python t.py", step_task(2, 4, 5), {{"ranks"}, false}).settings.empty());
    for (const char* name : {"RANK", "WORLD_SIZE", "LOCAL_RANK", "MASTER_ADDR", "MASTER_PORT"}) {
        CAPTURE(name);
        CHECK(filled("python t.py", step_task(2, 4, 5), {{name}, false}).settings.empty());
    }
    CHECK(exported_text(filled("python t.py", step_task(2, 4, 5, {{"MASTER_ADDR", "n1"}}),
                               {{"MASTER_ADDR"}, false})) ==
          "RANK=5 WORLD_SIZE=8 LOCAL_RANK=1 LOCAL_WORLD_SIZE=4 MASTER_PORT=23378");
}

TEST_CASE("one task a node may start the ranks of its GPUs itself") {
    detect::Machine machine = node_with_interfaces(1);
    const Environment task = step_task(2, 1, 0);
    const std::string all =
        "RANK=0 WORLD_SIZE=2 LOCAL_RANK=0 LOCAL_WORLD_SIZE=1 "
        "MASTER_ADDR=10.0.0.1 MASTER_PORT=23378";
    CHECK(exported_text(filled("python t.py", task, {}, machine)) == all);
    machine.gpus.resize(1);
    CHECK(exported_text(filled("python t.py", task, {}, machine)) == all);
    machine.gpus.resize(8);
    CHECK(exported_text(filled("python t.py", task, {}, machine)).empty());
    const Environment one_gpu = step_task(2, 1, 0, {{"CUDA_VISIBLE_DEVICES", "3"}});
    CHECK(exported_text(filled("python t.py", one_gpu, {}, machine)) == all);
}

TEST_CASE("tasks that see GPUs of their own have no device LOCAL_RANK") {
    detect::Machine machine = node_with_interfaces(1);
    machine.gpus.resize(8);
    const auto exported = [&](int each, const std::string& list) {
        Environment more;
        if (!list.empty()) more["CUDA_VISIBLE_DEVICES"] = list;
        return exported_text(filled("python t.py", step_task(2, each, 1, more), {}, machine));
    };
    CHECK(exported(4, "1").empty());  // --gpus-per-task=1
    CHECK(exported(4, "2,3").empty());
    CHECK_FALSE(exported(4, "0,1,2,3").empty());
    CHECK_FALSE(exported(4, "").empty());  // all GPUs of the machine
    CHECK_FALSE(exported(1, "1").empty());
    machine.gpus.resize(1);  // a device cgroup
    CHECK(exported(4, "").empty());
    machine.gpus.clear();
    CHECK_FALSE(exported(4, "").empty());
    const Environment job = {{"SLURM_JOB_ID", "4711"},
                             {"SLURM_NNODES", "1"},
                             {"SLURM_JOB_NUM_NODES", "1"},
                             {"SLURM_JOB_NODELIST", "node-a"},
                             {"SLURMD_NODENAME", "node-a"}};
    CHECK(exported_text(filled("srun -n 4 --gpus-per-task=1 python t.py", job)).empty());
    CHECK_FALSE(exported_text(filled("srun -n 4 --gpu-bind=none python t.py", job)).empty());
}

TEST_CASE("Python behind the shim, which knows each rank's place") {
    const std::string all =
        "RANK={rank} WORLD_SIZE={world_size} LOCAL_RANK={local_rank} "
        "LOCAL_WORLD_SIZE={local_size} MASTER_ADDR=127.0.0.1 MASTER_PORT=";
    const Environment job = {{"SLURM_JOB_ID", "4711"},
                             {"SLURM_NNODES", "1"},
                             {"SLURM_JOB_NUM_NODES", "1"},
                             {"SLURM_JOB_NODELIST", "node-a"},
                             {"SLURMD_NODENAME", "node-a"}};
    CHECK(exported_text(filled("mpirun -np 4 python t.py", {})) == all + "20000");
    CHECK(exported_text(filled("mpiexec.hydra -n 4 python t.py", {})) == all + "20000");
    CHECK(exported_text(filled("srun -n 4 python t.py", job)) == all + "23376");
    CHECK(exported_text(filled("mpirun -np 4 ./train", {})).empty());
    CHECK(exported_text(filled("mpirun -np 1 python t.py", {})).empty());
    CHECK(exported_text(filled("mpirun -np 2 torchrun t.py", {})).empty());
    CHECK(exported_text(filled("mpirun -np 2 numactl -N0 torchrun t.py", {})).empty());
    CHECK(exported_text(filled("mpirun -np 2 python -m torch.distributed.run t.py", {})).empty());
    CHECK(exported_text(filled("mpirun -np 2 -H node-b:2 python t.py", {})) == all + "20000");
    CHECK(exported_text(filled("mpirun -np 1 python a.py : -np 1 python b.py", {})).empty());
    CHECK(exported_text(filled("mpirun -np 4 python t.py", {{"LOCAL_RANK", "0"}})).empty());
    for (const env::Setting& setting : filled("mpirun -np 4 python t.py", {}).settings)
        CHECK(setting.per_rank);
}

TEST_CASE("Python that a launcher starts on several hosts meets on the first") {
    const Environment job = {{"SLURM_JOB_ID", "4711"},
                             {"SLURM_NNODES", "2"},
                             {"SLURM_JOB_NODELIST", "n[1-2]"},
                             {"SLURM_TASKS_PER_NODE", "2(x2)"}};
    const auto in_job = [&](const std::string& node) {
        Environment environment = job;
        environment["SLURMD_NODENAME"] = node;
        return environment;
    };
    struct Row {
        std::string line;
        Environment environment;
        std::string address;  ///< "" = nothing is filled in
    };
    // The host is node-a (10.0.0.3), the name of the first one resolves to 10.0.0.7.
    const std::vector<Row> rows = {
        {"mpirun -np 4 -H node-b:2,node-c:2 python t.py", {}, "10.0.0.7"},
        // Open MPI starts on its own host first, Hydra keeps the order.
        {"mpirun -np 4 -H node-b:2,node-a:2 python t.py", {}, "10.0.0.3"},
        {"mpiexec.hydra -n 4 -hosts node-b,node-a python t.py", {}, "10.0.0.7"},
        {"mpiexec.hydra -n 4 -hosts node-a,node-b python t.py", {}, "10.0.0.3"},
        {"mpirun python t.py", in_job("n1"), "10.0.0.3"},
        {"mpirun python t.py", in_job("n2"), "10.0.0.3"},
        {"mpiexec.hydra python t.py", in_job("n2"), "10.0.0.7"},
        {"mpirun -np 4 -H node-b:2,node-c:2 python t.py", {{"MASTER_ADDR", "node-c"}}, "node-c"},
        {"mpirun --map-by seq -np 4 -H node-b:2,node-c:2 python t.py",
         {{"MASTER_ADDR", "node-c"}},
         "node-c"},
        {"mpirun -np 4 -H node-b:2,node-c:2 python t.py", {{"MASTER_ADDR", "localhost"}}, ""},
        {"mpirun -np 4 -H node-b:2,node-c:2 python t.py", {{"RANK", "3"}}, ""},
        {"mpirun -np 4 -H node-b:2,node-c:2 ./train", {}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        RendezvousFacts facts;
        facts.addresses = {"10.0.0.7"};
        const FilledIn filled = fill_in(gaps_of(row.line, row.environment), facts, row.environment,
                                        node_with_interfaces(3), {}, {});
        const std::string text = exported_text(filled);
        CHECK((text.find("MASTER_ADDR=" + row.address + " ") != std::string::npos) ==
              !row.address.empty());
        CHECK(text.empty() == row.address.empty());
        CHECK_FALSE(has_finding(filled, "rank-variables-unknown"));
        for (const env::Setting& setting : filled.settings) CHECK(setting.per_rank);
    }
}

TEST_CASE("where nobody can say where rank 0 starts it is said why") {
    const std::string line = "mpirun -np 4 -H node-b:2,node-c:2 python t.py";
    const auto reason_of = [&](const std::string& text, const RendezvousFacts& facts,
                               const FillOptions& options = {}) -> std::string {
        const FilledIn filled =
            fill_in(gaps_of(text, {}), facts, {}, node_with_interfaces(3), {}, options);
        CHECK(filled.settings.empty());
        return filled.findings.empty() ? "" : filled.findings.front().what;
    };
    RendezvousFacts nothing;
    nothing.source = "getent ahosts node-b";
    CHECK(reason_of(line, nothing).ends_with("first node, which does not resolve here"));
    nothing.unanswered = true;
    CHECK(reason_of(line, nothing).ends_with("no name service has told in time"));
    RendezvousFacts facts;
    facts.addresses = {"10.0.0.7"};
    CHECK(reason_of("mpirun --map-by seq -np 4 -H node-b:2,node-c:2 python t.py", facts)
              .ends_with("'map-by' says where rank 0 starts"));
    CHECK(reason_of("mpirun --mca rmaps seq -np 4 -H node-b:2,node-c:2 python t.py", facts)
              .ends_with("'rmaps' says where rank 0 starts"));
    CHECK(reason_of("mpirun --map-by node:NOLOCAL -np 4 -H node-b:2,node-c:2 python t.py", facts)
              .ends_with("'map-by' says where rank 0 starts"));
    CHECK(reason_of("mpirun --mca orte_rankfile rf -np 4 -H node-b:2,node-c:2 python t.py", facts)
              .ends_with("'orte_rankfile' says where rank 0 starts"));
    CHECK(reason_of("mpirun -np 4 --hostfile missing python t.py", facts)
              .ends_with("the hosts of the ranks are not known here"));
    CHECK(reason_of(line, facts, {{"ranks"}, false}).empty());
    CHECK(reason_of(line, facts, {{"MASTER_ADDR"}, false}).empty());
}

TEST_CASE("TF_CONFIG where it is asked for") {
    const FillOptions tf{{"ranks"}, true};
    const auto config = [&](const std::string& line, const Environment& environment) {
        return exported_text(filled(line, environment, tf));
    };
    CHECK(config("python t.py", step_task(2, 2, 2)) ==
          R"(TF_CONFIG={"cluster":{"worker":["n1:23379","n1:23380","n2:23379","n2:23380"]},)"
          R"("task":{"type":"worker","index":2}})");
    CHECK(config("python t.py", step_task(2, 1, 1, {{"SLURM_DISTRIBUTION", "cyclic"}}))
              .ends_with(R"("index":1}})"));
    CHECK(config("mpirun -np 2 python t.py", {}) ==
          R"(TF_CONFIG={"cluster":{"worker":["localhost:20001","localhost:20002"]},)"
          R"("task":{"type":"worker","index":{rank}}})");
    CHECK(config("python t.py", step_task(2, 1, 1, {{"TF_CONFIG", "{}"}})).empty());
    CHECK(
        config("python t.py", step_task(2, 1, 1, {{"SLURM_STEP_NODELIST", "n[1-2]\xff"}})).empty());
    for (const auto& [line, environment] : std::vector<std::pair<std::string, Environment>>{
             {"python t.py", step_task(2, 2, 2, {{"SLURM_DISTRIBUTION", "cyclic"}})},
             {"mpirun -np 4 -H node-b:2,node-c:2 python t.py", {}},
             {"mpirun python t.py", {}}}) {
        CAPTURE(line);
        const FilledIn unknown = filled(line, environment, tf);
        CHECK(exported_text(unknown).empty());
        CHECK(has_finding(unknown, "tf-config-unknown"));
    }
}

}  // namespace
}  // namespace toporun::launcher
