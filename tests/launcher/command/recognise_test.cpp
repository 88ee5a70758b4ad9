#include "launcher/command/command.hpp"

#include "rows.hpp"

using namespace toporun;
using namespace toporun::tests;

TEST_CASE("a torchrun without a number of ranks is told from one with it") {
    const FakeHost host;
    const auto left_out = [&](const std::string& line, const Environment& environment = {}) {
        return read(line, environment, host).job.ranks_left_out;
    };
    CHECK(left_out("torchrun train.py"));
    CHECK(left_out("torchrun --nnodes=2 train.py --nproc-per-node=4"));
    CHECK_FALSE(left_out("torchrun --nproc-per-node=1 train.py"));
    CHECK_FALSE(left_out("torchrun --nproc_per_node gpu train.py"));
    CHECK_FALSE(left_out("torchrun train.py", {{"PET_NPROC_PER_NODE", "1"}}));
    CHECK_FALSE(left_out("torchrun --help"));
    CHECK_FALSE(left_out("python -m torch.distributed.launch train.py"));
    CHECK(left_out("python -m torch.distributed.run train.py"));
    CHECK_FALSE(left_out("mpirun -np 2 ./train"));
}

TEST_CASE("a program that is told to run on CPUs is seen") {
    const FakeHost host;
    const auto cpu = [&](const std::string& words) {
        return read("torchrun train.py " + words, {}, host).job.cpu_job;
    };
    for (const char* words :
         {"--device cpu", "--device=cpu", "--backend gloo", "--no-cuda", "--no_cuda", "--use_cpu",
          "--dist_backend=gloo", "--lr 1 --trainer.accelerator=cpu"})
        CHECK(cpu(words));
    for (const char* words : {"--device cuda", "--backend nccl", "cpu", "--cpus 4", "--device", ""})
        CHECK_FALSE(cpu(words));
}

TEST_CASE("torchrun command lines are read as torchrun reads them") {
    const std::vector<Row> rows = {
        {"torchrun train.py", kEnv, {1}, 1, 1},
        {"torchrun --nproc-per-node=8 train.py --lr 0.1", kEnv, {2}, 1, 8},
        {"torchrun --nproc_per_node 8 -m pkg.train --cfg a=b", kEnv, {4}, 1, 8},
        {"torchrun --standalone -- train.py -- -x", kEnv, {3}, 1, 1},
        {"torchrun --no-python ./run.sh --a", kIn, {2}, 1, 1},
        {"torchrun --no-python nsys profile -o r%q{RANK} python t.py", kIn, {2}, 1, 1},
        {"torchrun --no-python ./missing", kNo, {2}, 1, 1},
        {"torchrun --no-python", kNo, {}, 1, 1},
        {"torchrun -t 3 -r 3 --log-dir logs train.py", kEnv, {7}, 1, 1},
        {"torchrun -t3 -r3 train.py", kEnv, {3}, 1, 1},
        {"torchrun -t=3 train.py", kEnv, {2}, 1, 1},
        {"python -u -m torch.distributed.run --nproc-per=4 train.py", kEnv, {5}, 1, 4},
        {"python -um torch.distributed.run train.py", kEnv, {3}, 1, 1},
        {"python -mtorch.distributed.run train.py", kEnv, {2}, 1, 1},
        {"python -W ignore -X dev -m torch.distributed.run train.py", kEnv, {7}, 1, 1},
        {"python -Wignore -m torch.distributed.run train.py", kEnv, {4}, 1, 1},
        {"/venv/bin/python -m torch.distributed.launch --nproc_per_node=2 --use_env train.py",
         kEnv,
         {5},
         1,
         2},
        {"torchrun --nproc-per-node=2 -", kEnv, {2}, 1, 2},
        {"torchrun --run-path /abs/train.py", kNo, {2}, 1, 1},
        {"torchrun ./train", kIn, {1}, 1, 1, false, {{"PET_NO_PYTHON", "1"}}},
        {"torchrun ./prog", kNo, {1}, 1, 1, false, {{"PET_NO_PYTHON", "1"}}},
        {"torchrun ./prog", kEnv, {1}, 1, 1, false, {{"PET_NO_PYTHON", "0"}}},
        {"torchrun train.py",
         kEnv,
         {1},
         2,
         8,
         false,
         {{"PET_NNODES", "2"}, {"PET_NPROC_PER_NODE", "8"}}},
        {"torchrun --nnodes=4 train.py", kEnv, {2}, 4, 1, false, {{"PET_NNODES", "2"}}},
        {"torchrun train.py",
         kEnv,
         {1},
         1,
         1,
         false,
         {{"PET_NNODES", "2"}, {"PET_STANDALONE", "1"}}},
        {"torchrun --nnod=2 --standal train.py", kEnv, {3}, 1, 1},
        {"torchrun --nnod=2 train.py", kEnv, {2}, 2, 1},
        {"torchrun --mod pkg.train", kEnv, {2}, 1, 1},
        {"torchrun --no-py ./run.sh", kIn, {2}, 1, 1},
        {"torchrun --nproc=8 train.py", kEnv, {2}, 1, 8},
        {"torchrun --master=h train.py", kNo, {}},
        {"torchrun --nnodes 1:4 --nproc-per-node 8 train.py", kEnv, {5}, kAny, 8},
        {"torchrun --nnodes 2:2 --nproc-per-node 8 train.py", kEnv, {5}, 2, 8},
        {"torchrun --nproc-per-node=gpu train.py", kEnv, {2}, 1, kAny},
        {"torchrun --nproc-per-node auto train.py", kEnv, {3}, 1, kAny},
        {"torchrun --nproc-per-node=99999999999999999999 train.py", kEnv, {2}, 1, kAny},
        {"torchrun --nproc-per-node=-3 train.py", kEnv, {2}, 1, kAny},
        {"torchrun --numa-binding=node train.py", kEnv, {2}, 1, 1, true},
        {"torchrun --duplicate-stdout-filters a b -t 3 train.py", kEnv, {6}, 1, 1},
        {"torchrun --new-option=3 train.py", kNo, {}},
        {"torchrun --nnodes", kNo, {}},
        {"torchrun --nnodes --standalone train.py", kNo, {}},
        {"torchrun --standalone=1 train.py", kNo, {}},
        {"torchrun --help", kNo, {}},
        {"torchrun", kEnv, {}, 1, 1},
    };
    for (const Row& row : rows) check(row, "torchrun");
}

TEST_CASE("the rendezvous is the host of the endpoint or the master address") {
    struct Case {
        std::string line;
        std::string rendezvous;
        Environment environment = {};
    };
    const std::vector<Case> cases = {
        {"torchrun --nnodes=2 --rdzv-endpoint=node-a:29500 t.py", "node-a"},
        {"torchrun --nnodes=2 --rdzv_endpoint 10.0.0.7 t.py", "10.0.0.7"},
        {"torchrun --nnodes=2 --rdzv-endpoint=[fe80::1]:29500 t.py", "fe80::1"},
        {"torchrun --nnodes=2 --rdzv-endpoint=fe80::1 t.py", "fe80::1"},
        {"torchrun --nnodes=2 --master-addr=10.0.0.9 --master-port=1 t.py", "10.0.0.9"},
        {"torchrun --standalone --rdzv-endpoint=node-a:1 t.py", ""},
        {"torchrun t.py", "node-b", {{"PET_RDZV_ENDPOINT", "node-b:1"}}},
        {"torchrun t.py", "node-c", {{"PET_MASTER_ADDR", "node-c"}}},
        {"torchrun t.py", ""},
    };
    for (const Case& c : cases) {
        CAPTURE(c.line);
        CHECK(read(c.line, c.environment).job.rendezvous == c.rendezvous);
    }
}

TEST_CASE("the word for the ranks per node is kept when it is no number") {
    CHECK(read("torchrun --nproc-per-node=gpu t.py").ranks_word == "gpu");
    CHECK(read("torchrun --nproc-per-node=gpu t.py").job.ranks_word == "gpu");
    CHECK(read("torchrun --nproc-per-node=8 t.py").job.ranks_word.empty());
    CHECK(read("torchrun t.py", {{"PET_NPROC_PER_NODE", "auto"}}).ranks_word == "auto");
    CHECK(read("torchrun --nproc-per-node=8 t.py").ranks_word.empty());
}

TEST_CASE("the interpreter of torchrun is found in each form of its first lines") {
    struct Case {
        std::string script;
        std::string interpreter;
    };
    const std::vector<Case> cases = {
        {"#!/venv/bin/python\n", "/venv/bin/python"},
        {"#! /venv/bin/python -s\n", "/venv/bin/python"},
        {"#!/usr/bin/env python3\n", "/usr/bin/python3"},
        {"#!/usr/bin/env -S python3 -I\n", "/usr/bin/python3"},
        {"#!/bin/sh\n'''exec' \"/venv/bin/python\" \"$0\" \"$@\"\n' '''\n", "/venv/bin/python"},
        {"#!/bin/sh\n'''exec' /venv/bin/python \"$0\" \"$@\"\n' '''\n", "/venv/bin/python"},
        {"#!/no/such/python\n", ""},
        {"#!/usr/bin/env bash\nexec pyenv\n", ""},
        {"#!/bin/sh\nexec python \"$0\"\n", ""},
        {"#!/usr/bin/env\n", ""},
        {"#!\n", ""},
        {"\177ELF", ""},
        {"", ""},
    };
    for (const Case& c : cases) {
        CAPTURE(c.script);
        FakeHost host;
        host.programs["/venv/bin/torchrun"] = c.script;
        const Command command = read("torchrun t.py", {}, host);
        CHECK(command.interpreter == c.interpreter);
        CHECK(command.program == c.interpreter);
        CHECK((command.rewrite == kEnv) == !c.interpreter.empty());
        CHECK(command.job.same_host);
    }
    CHECK(read("python -m torch.distributed.run t.py").interpreter == "/venv/bin/python");
}

TEST_CASE("behind pyenv the interpreter is found when it starts") {
    const std::string stand_in =
        "#!/usr/bin/env bash\nprogram=x\nexec \"/home/u/.pyenv/libexec/pyenv\" exec \"$program\" "
        "\"$@\"\n";
    FakeHost host;
    host.programs["/venv/bin/torchrun"] = stand_in;
    host.programs["/venv/bin/python"] = stand_in;
    for (const std::string& line :
         std::vector<std::string>{"torchrun t.py", "python -m torch.distributed.run t.py"}) {
        CAPTURE(line);
        CHECK(read(line, {}, host).rewrite == kEnv);
        CHECK(read(line, {}, host).interpreter.empty());
    }
    host.programs["/venv/bin/python"] = "#!/bin/sh\nexec singularity exec i.sif python \"$@\"\n";
    CHECK(read("python -m torch.distributed.run t.py", {}, host).rewrite == kNo);
}

TEST_CASE("a torchrun that is not installed is left to fail by itself") {
    FakeHost host;
    host.programs.erase("/venv/bin/torchrun");
    const Command command = read("torchrun t.py", {}, host);
    CHECK(command.executable.empty());
    CHECK(command.rewrite == kNo);
}

TEST_CASE("Open MPI 4 command lines get the shim in front of each program") {
    const std::vector<Row> rows = {
        {"mpirun -np 16 ./train", kIn, {3}, 1, 16},
        {"mpirun --np 16 ./train", kIn, {3}, 1, 16},
        {"mpirun -n 2 ./train -np 9", kIn, {3}, 1, 2},
        {"mpiexec -c 3 ./train", kIn, {3}, 1, 3},
        {"orterun -np 2 ./train", kIn, {3}, 1, 2},
        {"mpirun.openmpi -np 2 ./train", kIn, {3}, 1, 2},
        {"mpirun --np=16 ./train", kNo, {}},
        {"mpirun -np 4 -H a:2,b:2 -x LD_LIBRARY_PATH python -u t.py", kIn, {7}, 2, 2},
        {"mpirun -np 4 -H node-a:4 python -u t.py", kIn, {5}, 1, 4},
        {"mpirun -H localhost:3 ./train", kIn, {3}, 1, 3},
        {"mpirun -host node-a,node-a ./train", kIn, {3}, 1, 2},
        {"mpirun -np 2 --host 10.0.0.1:2 ./train", kIn, {5}, 1, 2},
        {"mpirun -np 2 --host 127.0.0.2:2 ./train", kIn, {5}, 1, 2},
        {"mpirun -np 2 --host NODE-A.example.org:2 ./train", kIn, {5}, 1, 2},
        {"mpirun -np 2 --host 10.0.0.12 ./train", kIn, {5}, 1, 2},
        {"mpirun -np 2 -H +n1 ./train", kIn, {5}},
        {"mpirun -np 1 -x R=s ./s : -np 3 ./w --k=v", kIn, {5, 9}, 1, 4},
        {"mpirun -np 1 ./s : -np 3 ./missing", kNo, {3, 7}, 1, 4},
        {"mpirun -np 1 ./s :", kNo, {}},
        {"mpirun -np 1 ./s : ./w", kIn, {3, 5}, 1, kAny},
        {"mpirun --mca mca_base_env_list A;B=1 -np 8 ./train", kIn, {6}, 1, 8},
        {"mpirun --mca btl tcp,self -np 8 numactl -N0 python t.py", kIn, {6}, 1, 8, true},
        {"mpirun --app apps.txt", kNo, {}},
        {"mpirun -s -np 2 ./train", kNo, {}},
        {"mpirun --preload-binary -np 2 ./train", kNo, {}},
        {"mpirun -tv -np 2 ./train", kNo, {}},
        {"mpirun --debug -np 2 ./train", kNo, {}},
        {"mpirun -tune f -np 2 ./train", kNo, {}},
        {"mpirun -path /x -np 2 train", kNo, {}},
        {"mpirun -np 1 -- ./train -n", kIn, {4}, 1, 1},
        {"mpirun -np 8 --bind-to core --report-bindings ./train", kIn, {6}, 1, 8, true},
        {"mpirun -np 8 --bind-to none ./train", kIn, {5}, 1, 8},
        {"mpirun -np 8 -bind-to-core ./train", kIn, {4}, 1, 8, true},
        {"mpirun -np 8 --cpu-set 0-3 ./train", kIn, {5}, 1, 8, true},
        {"mpirun -np 8 --map-by slot:PE=4 ./train", kIn, {5}, 1, 8, true},
        {"mpirun -np 8 --map-by node ./train", kIn, {5}, 1, 8},
        {"mpirun --map-by ppr:4:node ./train", kIn, {3}, 1, 4},
        {"mpirun -N 4 ./train", kIn, {3}, 1, 4},
        {"mpirun -npernode 4 ./train", kIn, {3}, 1, 4},
        {"mpirun -pernode ./train", kIn, {2}, 1, 1},
        {"mpirun ./train", kIn, {1}, 1, kAny},
        {"mpirun -np x ./train", kIn, {3}, 1, kAny},
        {"mpirun --oversubscribe --allow-run-as-root --tag-output -q -np 4 ./train",
         kIn,
         {7},
         1,
         4},
        {"mpirun -nolocal -np 2 ./train", kIn, {4}},
        {"mpirun -mca btl", kNo, {}},
        {"mpirun -np", kNo, {}},
        {"mpirun --new-thing -np 2 ./train", kNo, {}},
        {"mpirun", kNo, {}},
        {"mpirun --version", kNo, {}},
        {"mpirun --help", kNo, {}},
        {"mpirun -np 2 ./missing", kNo, {3}, 1, 2},
        {"mpirun -np 2 ./plain.txt", kNo, {3}, 1, 2},
        {"mpirun -np 2 ./lost.sh", kNo, {3}, 1, 2},
        {"mpirun -np 2 ./tool.py", kIn, {3}, 1, 2},
        {"mpirun -np 2 ./run.sh", kIn, {3}, 1, 2},
        {"mpirun -np 2 ./boxed.sh", kNo, {3}, 1, 2},
        {"mpirun -np 2 bash ./run.sh", kIn, {3}, 1, 2},
        {"mpirun -np 2 bash ./boxed.sh", kNo, {3}, 1, 2},
        {"mpirun -np 2 singularity exec i.sif ./train", kNo, {3}, 1, 2},
        {"mpirun -np 2 numactl -N 0 singularity exec i.sif ./train", kNo, {3}, 1, 2},
        {"mpirun -np 2 torchrun t.py", kNo, {3}, 1, 2},
        {"mpirun -np 2 -wdir /data/run ./train", kNo, {5}, 1, 2},
        {"mpirun -np 2 -wdir data/run ./train", kIn, {5}, 1, 2},
        {"mpirun -np 2 ./train",
         kIn,
         {3},
         1,
         2,
         true,
         {{"OMPI_MCA_hwloc_base_binding_policy", "core"}}},
        {"mpirun -np 2 ./train",
         kIn,
         {3},
         1,
         2,
         false,
         {{"OMPI_MCA_hwloc_base_binding_policy", "none"}}},
        {"mpirun -np 2 -mca hwloc_base_binding_policy numa ./train", kIn, {6}, 1, 2, true},
        {"mpirun -np 2 ./train",
         kIn,
         {3},
         1,
         2,
         true,
         {{"OMPI_MCA_rmaps_base_mapping_policy", "slot:pe=2"}}},
        {"mpirun -np 4 ./train",
         kIn,
         {3},
         kAny,
         kAny,
         false,
         {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "n[1-2]"}}},
        {"mpirun -np 4 ./train",
         kIn,
         {3},
         1,
         4,
         false,
         {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "node-a"}}},
        {"mpirun -np 4 ./train",
         kIn,
         {3},
         1,
         4,
         false,
         {{"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "gpu7"}}},
        {"mpirun -np 4 ./train",
         kIn,
         {3},
         1,
         4,
         false,
         {{"SLURM_JOB_ID", "7"},
          {"SLURM_JOB_NUM_NODES", "1"},
          {"SLURM_JOB_NODELIST", "gpu7"},
          {"SLURMD_NODENAME", "gpu7"}}},
        {"mpirun -np 4 ./train", kIn, {3}, kAny, kAny, false, {{"PBS_NODEFILE", "/no/file"}}},
        {"mpirun -np 4 ./train",
         kIn,
         {3},
         kAny,
         kAny,
         false,
         {{"OMPI_MCA_orte_default_hostfile", "/no/file"}}},
    };
    for (const Row& row : rows) check(row, "openmpi");
}

TEST_CASE("a word of mpirun that only holds a colon separates contexts") {
    const std::vector<std::string> argv = {"mpirun", "-np", "2", "bash", "-c", "cd d && ./t : x"};
    const Command command = launcher::recognise(argv, {}, FakeHost());
    CHECK(command.program_at == std::vector<std::size_t>{3});
    CHECK(command.rewrite == kIn);
    const Command boxed = launcher::recognise(
        {"mpirun", "-np", "2", "bash", "-lc", "apptainer exec i.sif ./t"}, {}, FakeHost());
    CHECK(boxed.rewrite == kNo);
    CHECK_FALSE(boxed.job.same_host);
}

TEST_CASE("host files and rank files decide whether ranks stay on this host") {
    FakeHost host;
    host.files["here"] = "# the only one\nnode-a slots=4\nnode-a.example.org slots=4 # again\n\n";
    host.files["there"] = "node-a slots=4\nnode-b slots=4\n";
    host.files["ranks-here"] = "rank 0=node-a slot=0:0\nrank 1=localhost slot=1\n";
    host.files["ranks-there"] = "rank 0=node-a slot=0\nrank 1=node-b slot=0\n";
    host.files["ranks-relative"] = "rank 0=+n0 slot=0\n";
    check({"mpirun --hostfile there -np 8 ./train", kIn, {5}, 2, 4}, "openmpi", host);
    check({"mpirun -machinefile missing -np 8 ./train", kIn, {5}}, "openmpi", host);
    check({"mpirun -rf ranks-here -np 2 ./train", kIn, {5}, 1, 2, true}, "openmpi", host);
    check({"mpirun -rf ranks-there -np 2 ./train", kIn, {5}, 2, 1, true}, "openmpi", host);
    check({"mpirun -rf ranks-relative -np 2 ./train", kIn, {5}, kAny, kAny, true}, "openmpi", host);
    const Command here = read("mpirun --hostfile here -np 8 ./train", {}, host);
    CHECK(here.job.same_host);
    CHECK(here.rewrite == kIn);
    CHECK_FALSE(here.job.other_hosts);
    CHECK(read("mpirun --hostfile there -np 8 ./train", {}, host).job.other_hosts);
}

TEST_CASE("parameter files of the user count like variables") {
    FakeHost host;
    host.files["/home/u/.openmpi/mca-params.conf"] =
        "# site\n hwloc_base_binding_policy = core\nno equals sign\n";
    const Environment environment = {{"HOME", "/home/u"}};
    CHECK(read("mpirun -np 2 ./train", environment, host).job.user_binds);
    CHECK_FALSE(read("mpirun -np 2 --bind-to none ./train", environment, host).job.user_binds);
    host.files["/home/u/.openmpi/mca-params.conf"] = "orte_default_hostfile=/h\n";
    host.files["/h"] = "node-b\n";
    CHECK(read("mpirun -np 2 ./train", environment, host).job.other_hosts);
}

TEST_CASE("Open MPI 5 command lines follow GNU rules") {
    const std::string mpirun = "/opt/ompi5/bin/mpirun ";
    const std::vector<Row> rows = {
        {mpirun + "-np 4 ./train", kIn, {3}, 1, 4},
        {mpirun + "--np=4 ./train", kIn, {2}, 1, 4},
        {mpirun + "-n4 ./train", kIn, {2}, 1, 4},
        {mpirun + "--bind-to=core -n 4 ./train", kIn, {4}, 1, 4, true},
        {mpirun + "--output tag --display map -n 4 ./train", kIn, {7}, 1, 4},
        {mpirun + "--prtemca hwloc_default_binding_policy core -n 2 ./train", kIn, {6}, 1, 2, true},
        {mpirun + "--map-by ppr:2:node:PE=4 ./train", kIn, {3}, 1, 2, true},
        {mpirun + "--append-env A b -n 2 ./train", kNo, {}},
        {mpirun + "-n 2 --host node-b ./train", kIn, {5}, 1, 2},
        {mpirun + "-n 2 ./train",
         kIn,
         {3},
         1,
         2,
         true,
         {{"PRTE_MCA_hwloc_default_binding_policy", "core"}}},
    };
    for (const Row& row : rows) check(row, "openmpi");
    CHECK(read(mpirun + "-n 2 ./train").family == "openmpi5");
    CHECK(read("mpirun -n 2 ./train").family == "openmpi4");
}

TEST_CASE("the MPI family is asked for only when the file's name does not tell") {
    struct Case {
        std::string version;
        std::string family;
    };
    const std::vector<Case> cases = {
        {"mpirun (Open MPI) 4.1.4\n", "openmpi4"},
        {"mpiexec (OpenRTE) 4.0.3\n", "openmpi4"},
        {"mpirun (Open MPI) 5.0.3\n", "openmpi5"},
        {"mpirun (Open MPI) 10.1\n", "openmpi5"},
        {"prterun (PRRTE) 3.0.5\n", "openmpi5"},
        {"HYDRA build details:\n", "hydra"},
        {"Intel(R) MPI Library for Linux\n", "hydra"},
        {"mpirun (Open MPI) 1.10\n", ""},
        {"IBM Spectrum MPI 10.4\n", ""},
        {"\x1b[31m\xff garbage", ""},
        {"", ""},
    };
    for (const Case& c : cases) {
        CAPTURE(c.version);
        FakeHost host;
        host.versions["/opt/odd/bin/mpirun"] = c.version;
        const Command command = read("/opt/odd/bin/mpirun -n 2 ./train", {}, host);
        CHECK(command.family == c.family);
        CHECK(host.version_calls == 1);
        if (c.family.empty()) CHECK(command.rewrite == kNo);
    }
    const FakeHost host;
    CHECK(read("mpirun -n 2 ./train", {}, host).family == "openmpi4");
    CHECK(read("mpiexec.hydra -n 2 ./train", {}, host).family == "hydra");
    CHECK(host.version_calls == 0);
}
