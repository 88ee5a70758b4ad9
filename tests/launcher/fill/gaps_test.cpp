// What torchrun is told in a step of several nodes, and what it is never told.
#include <doctest/doctest.h>

#include "steps.hpp"

namespace toporun::launcher {
namespace {

using namespace toporun::tests;

constexpr const char* kAll =
    "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=10.0.0.1 "
    "PET_MASTER_PORT=23378";

RendezvousFacts first_resolves() {
    RendezvousFacts facts;
    facts.addresses = {"10.0.0.1"};
    facts.source = "getent ahosts n1";
    return facts;
}

FilledIn filled(const std::string& line, const Environment& environment,
                const FillOptions& options = {}, const RendezvousFacts& facts = first_resolves(),
                const detect::Machine& machine = node_with_interfaces(2)) {
    return fill_in(gaps_of(line, environment), facts, environment, machine, {}, options);
}

TEST_CASE("torchrun in each node's task is told the nodes and where they meet") {
    struct Row {
        std::string line;
        std::string exported;
        Environment more = {};
    };
    const std::string own =
        " PET_RDZV_ENDPOINT=10.0.0.1:23378 PET_RDZV_ID=4711.2 "
        "PET_RDZV_CONF=is_host=0";
    const std::vector<Row> rows = {
        {"torchrun --nproc-per-node=2 t.py", kAll},
        {"python -m torch.distributed.run t.py", kAll},
        {"python -m torch.distributed.launch t.py", ""},
        {"torchrun --nnodes=2 t.py",
         "PET_NODE_RANK=1 PET_MASTER_ADDR=10.0.0.1 PET_MASTER_PORT=23378"},
        {"torchrun t.py",
         "PET_NODE_RANK=1 PET_MASTER_ADDR=10.0.0.1 PET_MASTER_PORT=23378",
         {{"PET_NNODES", "2"}}},
        {"torchrun --nnodes=2 --node-rank=1 t.py",
         "PET_MASTER_ADDR=10.0.0.1 PET_MASTER_PORT=23378"},
        {"torchrun --nnodes=2 --master-addr=n1 t.py", "PET_NODE_RANK=1 PET_MASTER_PORT=23378"},
        {"torchrun --master-addr=n1 --master-port=29500 t.py", "PET_NNODES=2 PET_NODE_RANK=1"},
        {"torchrun --rdzv-endpoint=n1:29500 t.py", "PET_NNODES=2 PET_NODE_RANK=1"},
        {"torchrun --rdzv-backend=static --rdzv-endpoint=n1:29500 t.py",
         "PET_NNODES=2 PET_NODE_RANK=1"},
        // What may start again.
        {"torchrun --max-restarts=3 t.py", "PET_NNODES=2 PET_RDZV_BACKEND=c10d" + own},
        {"torchrun --nnodes=1:2 t.py", "PET_RDZV_BACKEND=c10d" + own},
        {"torchrun --nnodes=1:2 --rdzv-id=a --rdzv-backend=c10d t.py",
         "PET_RDZV_ENDPOINT=10.0.0.1:23378 PET_RDZV_CONF=is_host=0"},
        {"torchrun --rdzv-backend=c10d t.py", "PET_NNODES=2" + own},
        {"torchrun --rdzv-backend=c10d --rdzv-conf=timeout=9 t.py",
         "PET_NNODES=2 PET_RDZV_ENDPOINT=10.0.0.1:23378 PET_RDZV_ID=4711.2"},
        {"torchrun --rdzv-backend=c10d --rdzv-endpoint=n1:29500 t.py",
         "PET_NNODES=2 PET_RDZV_ID=4711.2"},
        // The job script's own, which torchrun does not read by itself.
        {"torchrun t.py",
         "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=n1 PET_MASTER_PORT=12345",
         {{"MASTER_ADDR", "n1"}, {"MASTER_PORT", "12345"}}},
        {"torchrun t.py", kAll, {{"MASTER_ADDR", "localhost"}}},
        // Nothing was left out, or another thing is meant.
        {"torchrun --standalone t.py", ""},
        {"torchrun t.py", "", {{"PET_STANDALONE", "1"}}},
        {"torchrun --nnodes=1 t.py", ""},
        {"torchrun --nnodes=4 t.py", ""},
        {"torchrun --nnodes=2 --node-rank=1 --master-addr=n1 --master-port=29500 t.py", ""},
        {"torchrun --rdzv-backend=c10d --rdzv-endpoint=localhost:0 t.py", ""},
        {"torchrun --rdzv-endpoint=n1:0 t.py", ""},
        {"torchrun --master-addr=127.0.0.1 t.py", ""},
        {"torchrun --rdzv-backend=etcd-v2 t.py", ""},
        {"torchrun --no-such-option t.py", ""},
        {"torchrun t.py", "", {{"SLURM_STEP_NODELIST", "n[1-3]"}}},
        {"torchrun t.py", "", {{"SLURM_STEP_NODELIST", "n[1-"}}},
        {"torchrun t.py", "", {{"SLURM_LOCALID", ""}}},
        {"torchrun t.py", "", {{"SLURM_PTY_PORT", "43923"}}},
        {"torchrun t.py", "", {{"SLURM_HET_SIZE", "2"}}},
        {"torchrun t.py", "", {{"SLURM_DISTRIBUTION", "arbitrary"}}},
        {"srun torchrun t.py", ""},  // inside a step
        {"accelerate launch t.py", ""},
        {"./train", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.line);
        CAPTURE(join(split(row.exported, ' '), "|"));
        CHECK(exported_text(filled(row.line, step_task(2, 1, 1, row.more))) == row.exported);
    }
    CHECK(exported_text(filled("torchrun t.py", step_task(1, 1, 0))).empty());
    CHECK(exported_text(filled("torchrun t.py", step_task(2, 2, 1))).empty());
    Environment batch = step_task(2, 1, 0);
    batch.erase("SLURM_STEP_ID");
    CHECK(exported_text(filled("torchrun t.py", batch)).empty());
}

TEST_CASE("the first node tells the address of its own interface") {
    const FilledIn first =
        filled("torchrun t.py", step_task(2, 1, 0), {}, {}, node_with_interfaces(1));
    CHECK(exported_text(first) ==
          "PET_NNODES=2 PET_NODE_RANK=0 PET_MASTER_ADDR=10.0.0.1 PET_MASTER_PORT=23378");
    CHECK(first.settings[2].reason.find("eth0") != std::string::npos);
    CHECK(has_finding(first, "rendezvous-filled-in"));
    for (const env::Setting& setting : first.settings) {
        CHECK_FALSE(setting.reason.empty());
        CHECK_FALSE(setting.evidence.empty());
        CHECK_FALSE(setting.nccl_default.empty());
    }
    detect::Machine v6 = node_with_interfaces(1);
    v6.nics.resize(3);
    v6.nics[2].addresses = {"2001:db8::7/64"};
    CHECK(exported_text(filled("torchrun t.py", step_task(2, 1, 0), {}, {}, v6))
              .find("PET_MASTER_ADDR=[2001:db8::7] ") != std::string::npos);
    const FilledIn c10d = filled("torchrun --rdzv-backend=c10d t.py", step_task(2, 1, 0), {}, {},
                                 node_with_interfaces(1));
    CHECK(exported_text(c10d).ends_with("PET_RDZV_CONF=is_host=1"));
}

TEST_CASE("in front of srun all nodes are told the same") {
    Environment batch = step_task(2, 1, 0);
    for (const char* name : {"SLURM_STEP_ID", "SLURM_STEP_NUM_NODES", "SLURM_STEP_NUM_TASKS",
                             "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NODELIST"})
        batch.erase(name);
    batch.insert({{"SLURM_NNODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}});
    CHECK(gaps_of("srun torchrun t.py", batch).gap == Gap::rendezvous);
    CHECK(gaps_of("srun singularity exec i.sif torchrun t.py", batch).gap == Gap::none);
    const Command text = recognise({"srun", "bash", "-c", "torchrun t.py"}, batch, FakeHost());
    CHECK(find_gaps(text, batch).gap == Gap::none);  // it may know better
    RendezvousFacts facts = first_resolves();
    facts.process = 8;
    facts.listening = {23376};
    const auto exported = [&](const std::string& line) {
        return exported_text(filled(line, batch, {}, facts));
    };
    const std::string all =
        "PET_NNODES=2 PET_RDZV_BACKEND=c10d PET_RDZV_ENDPOINT=n1:23377 "
        "PET_RDZV_ID=4711.p8";
    CHECK(exported("srun torchrun --nproc-per-node=2 t.py") == all);
    CHECK(exported("srun --ntasks-per-node=1 -l torchrun t.py") == all);
    CHECK(exported("srun -N 2 -n 2 torchrun t.py") == all);
    CHECK(exported("srun torchrun --nnodes=2 --rdzv-backend=c10d --rdzv-id=1 t.py") ==
          "PET_RDZV_ENDPOINT=n1:23377");
    for (const char* line :
         {"srun -N 1 torchrun t.py", "srun -n 4 torchrun t.py", "srun --export=NONE torchrun t.py",
          "srun torchrun --standalone t.py", "srun torchrun --node-rank=1 t.py",
          "srun torchrun --rdzv-backend=static t.py", "srun torchrun --nnodes=1 t.py",
          "srun torchrun t.py : ./train"}) {
        CAPTURE(line);
        CHECK(exported(line) == "");
    }
    facts.addresses = {"10.0.0.7"};
    facts.from_slurm = true;
    CHECK(exported("srun torchrun t.py").find("=10.0.0.7:23377 ") != std::string::npos);
    facts = {};
    CHECK(has_finding(filled("srun torchrun t.py", batch, {}, facts), "rendezvous-unresolved"));
    CHECK(exported("srun python t.py").starts_with("RANK={rank} WORLD_SIZE={world_size} "));
    batch["SLURM_JOB_NODELIST"] = "n[1-4]";
    CHECK(exported("srun torchrun t.py") == "");
    // Nodes that are not known before the start: each reads it of its step.
    CHECK(exported("srun python t.py") == "");
}

TEST_CASE("what the toporuns of srun's nodes fill in for torchrun") {
    const auto fills = [](const std::string& line) {
        const Environment none;
        return filled_in_on_nodes(launcher::recognise(split(line, ' '), none, tests::FakeHost()),
                                  none);
    };
    CHECK(fills("srun -N2 --ntasks-per-node=1 torchrun t.py"));
    CHECK(fills("srun -N2 --ntasks-per-node=1 torchrun --master-addr=n1 t.py"));
    CHECK_FALSE(fills("srun -N2 --ntasks-per-node=1 torchrun --standalone t.py"));
    CHECK_FALSE(fills("srun -N2 --ntasks-per-node=1 torchrun --nnodes=3 t.py"));
    CHECK_FALSE(fills("srun -N2 --ntasks-per-node=2 torchrun t.py"));
    CHECK_FALSE(fills("srun -N1 torchrun t.py"));
    CHECK_FALSE(fills("srun -N2 python t.py"));
}

TEST_CASE("with a host file ranks follow the file") {
    const Environment environment = step_task(
        2, 1, 0, {{"SLURM_NODEID", "1"}, {"SLURMD_NODENAME", "n2"}, {"SLURM_HOSTFILE", "hosts"}});
    RendezvousFacts facts;
    facts.first_host = "n2";
    CHECK(exported_text(filled("torchrun t.py", environment, {}, facts)) ==
          "PET_NNODES=2 PET_NODE_RANK=0 PET_MASTER_ADDR=10.0.0.2 PET_MASTER_PORT=23378");
    CHECK(exported_text(filled("torchrun t.py", environment, {}, {})).empty());
}

TEST_CASE("torchrun on one node gets another port where its own is in use") {
    const auto exported = [](const std::string& line, std::set<int> listening,
                             const FillOptions& options = {}) {
        RendezvousFacts facts;
        facts.listening = std::move(listening);
        facts.process = 5;
        return exported_text(filled(line, {}, options, facts));
    };
    CHECK(exported("torchrun t.py", {29500}) == "PET_MASTER_PORT=20005");
    CHECK(exported("torchrun t.py", {29500, 20005}) == "PET_MASTER_PORT=20006");
    CHECK(exported("torchrun t.py", {29501}) == "");
    CHECK(exported("torchrun --nnodes=1 --nproc-per-node=8 t.py", {29500}) != "");
    for (const char* line :
         {"torchrun --standalone t.py", "torchrun --master-port=29500 t.py",
          "torchrun --master-addr=node-a t.py", "torchrun --nnodes=2 t.py",
          "torchrun --rdzv-backend=c10d t.py", "torchrun --rdzv-endpoint=localhost:29500 t.py"}) {
        CAPTURE(line);
        CHECK(exported(line, {29500}) == "");
    }
    CHECK(exported("torchrun t.py", {29500}, {{"rendezvous"}, false}) == "");
}

TEST_CASE("--leave keeps toporun out of it") {
    const Environment environment = step_task(2, 1, 1);
    CHECK(filled("torchrun t.py", environment, {{"rendezvous"}, false}).settings.empty());
    const FilledIn one = filled("torchrun t.py", environment, {{"PET_MASTER_PORT"}, false});
    CHECK(exported_text(one) == "PET_NNODES=2 PET_NODE_RANK=1 PET_MASTER_ADDR=10.0.0.1");
    CHECK(one.settings.back().reason.find("--leave") != std::string::npos);
    // Without one of these the others start no job.
    for (const char* name : {"PET_NNODES", "PET_NODE_RANK", "PET_MASTER_ADDR"}) {
        CAPTURE(name);
        CHECK(filled("torchrun t.py", environment, {{name}, false}).settings.empty());
    }
    for (const char* name : {"PET_RDZV_BACKEND", "PET_RDZV_ENDPOINT"}) {
        CAPTURE(name);
        CHECK(filled("torchrun --max-restarts=2 t.py", environment, {{name}, false})
                  .settings.empty());
    }
    CHECK_FALSE(filled("torchrun --max-restarts=2 t.py", environment, {{"PET_RDZV_CONF"}, false})
                    .settings.empty());
}

TEST_CASE("a name that does not resolve and a port in use are said") {
    RendezvousFacts nothing;
    nothing.source = "getent ahosts n1";
    const FilledIn unresolved = filled("torchrun t.py", step_task(2, 1, 1), {}, nothing);
    CHECK(exported_text(unresolved).find("PET_MASTER_ADDR=n1 ") != std::string::npos);
    CHECK(has_finding(unresolved, "rendezvous-unresolved"));
    RendezvousFacts taken = first_resolves();
    taken.listening = {23378};
    CHECK_FALSE(has_finding(filled("torchrun t.py", step_task(2, 1, 1), {}, taken),
                            "rendezvous-port-taken"));
    const FilledIn first =
        filled("torchrun t.py", step_task(2, 1, 0), {}, taken, node_with_interfaces(1));
    CHECK(has_finding(first, "rendezvous-port-taken"));
    CHECK(exported_text(first).ends_with("=23378"));  // the others do not know of another
}

}  // namespace
}  // namespace toporun::launcher
