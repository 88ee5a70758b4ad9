// Hydra, srun, plain programs and odd words.
#include "launcher/command/command.hpp"
#include "launcher/command/program_file.hpp"

#include "rows.hpp"

using namespace toporun;
using namespace toporun::tests;
using launcher::ProgramFile;

TEST_CASE("Hydra command lines get the shim in front of each program that starts here") {
    const std::vector<Row> rows = {
        {"mpiexec.hydra -n 4 -genv A 1 -env B 2 ./train : -n 4 ./u", kIn, {9, 13}, 1, 8},
        {"mpiexec.hydra -n=4 ./train", kIn, {2}, 1, 4},
        {"mpiexec.hydra -genv A=1 -n 4 ./train", kIn, {5}, 1, 4},
        {"mpiexec.hydra -genv A=1 ./train -n 4", kIn, {3}, 1, kAny},
        {"mpiexec.hydra -genvnone -n 4 ./train", kIn, {4}, 1, 4},
        {"mpiexec.hydra -ppn 2 -hosts a,b -n 4 ./train", kIn, {7}, 2, 2},
        {"mpiexec.hydra -hosts node-a -n 4 ./train", kIn, {5}, 1, 4},
        {"mpiexec.hydra -bind-to core -n 4 ./train", kIn, {5}, 1, 4, true},
        {"mpiexec.hydra -configfile f", kNo, {}},
        {"mpiexec.hydra -f hosts -n 4 ./train", kIn, {5}},
        {"mpiexec.hydra -rmk pbs -n 4 ./train", kIn, {5}},
        {"mpiexec.hydra -- -n 4 ./train", kNo, {}},
        {"mpiexec.hydra -n 4 ./missing", kNo, {3}, 1, 4},
        {"mpiexec.hydra -n 4 ./train", kIn, {3}, kAny, kAny, false, {{"HYDRA_HOST_FILE", "/x"}}},
        {"mpiexec.hydra -n 4 ./train", kIn, {3}, kAny, kAny, false, {{"PBS_NODEFILE", "/x"}}},
    };
    for (const Row& row : rows) check(row, "hydra");
    CHECK(read("mpiexec.hydra -genvnone -n 4 ./train").drops_variables);
    CHECK(read("mpiexec.hydra -genv A 1 ./train").given.set.at("A") == "1");
}

TEST_CASE("options of srun by which each task sees other GPUs are kept as they were said") {
    const std::vector<std::pair<std::string, std::string>> rows = {
        {"srun -n 2 ./train", ""},
        {"srun -n 2 --gpus-per-task=1 ./train", "--gpus-per-task=1"},
        {"srun -n 2 --gpus-per-task 1 --gpu-bind=none ./train", ""},
        {"srun -n 2 --gpu-bind=none --gpus-per-task=1 ./train", ""},
        {"srun -n 2 --gpu-bind=single:1 ./train", "--gpu-bind=single:1"},
        {"srun -n 2 --gpu-bind=closest ./train", "--gpu-bind=closest"},
        {"srun -n 2 --gpus-per-task=1 --gpu-bind=map_gpu:1,0 ./train", "--gpu-bind=map_gpu:1,0"},
        {"srun -n 2 --ntasks-per-gpu=1 ./train", "--ntasks-per-gpu=1"},
        {"srun -n 2 --tres-per-task=gres/gpu:1 --tres-bind=gres/gpu:per_task:1 ./train",
         "--tres-bind=gres/gpu:per_task:1"},
        {"srun -n 2 --tres-per-task=gres/gpu:1 --tres-bind=gres/gpu:none ./train", ""},
        {"srun -n 2 --tres-per-task=cpu:4 ./train", ""},
        {"srun -n 2 --gpus-per-node=2 ./train", ""},
    };
    for (const auto& [line, bind] : rows) {
        CAPTURE(line);
        CHECK(read(line).job.gpu_bind == bind);
    }
}

TEST_CASE("hosts of MPI launchers are kept in the order in which they were named") {
    const std::vector<std::pair<std::string, std::vector<std::string>>> rows = {
        {"mpiexec.hydra -hosts nodeb:2,nodea:2 -n 4 ./train", {"nodeb", "nodea"}},
        {"mpiexec.hydra -hosts nodeb,nodea,nodeb -n 4 ./train", {"nodeb", "nodea"}},
        {"mpiexec.hydra -n 4 ./train", {}},
    };
    for (const auto& [line, hosts] : rows) {
        CAPTURE(line);
        CHECK(read(line).job.hosts == hosts);
    }
}

TEST_CASE("srun command lines get the shim on this node and behind the guard on others") {
    const Environment one_node = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "node-a"}};
    const std::vector<Row> rows = {
        {"srun -n 16 python train.py", kIn, {3}},
        {"srun -n16 -N2 python train.py", kIn, {3}, 2, 8},
        {"srun -N 2-4 -n 8 ./train", kIn, {5}},
        {"srun --multi-prog conf", kNo, {}},
        {"srun --container-image=X --container-mounts=/a:/b python t.py", kNo, {3}},
        {"srun --export=NONE ./train", kIn, {2}},
        {"srun --bcast=/tmp/x ./train", kNo, {}},
        {"srun -K1 --label --cpu-bind=none -c 8 bash -c x", kIn, {6}},
        {"srun -K ./train", kIn, {2}},
        {"srun -lu -n 2 ./train", kIn, {4}},
        {"srun --cpu-bind=cores -n 2 ./train", kIn, {4}, kAny, kAny, true},
        {"srun --pty bash", kNo, {}},
        {"srun -l --mpi=pmix ./train", kIn, {3}},
        {"srun --mpibind=on ./train", kIn, {2}},
        {"srun --mpibind on ./train", kNo, {}},
        {"srun --mpi pmix -n 2 ./train -N 4", kIn, {5}},
        {"srun -n 4 ./train", kIn, {3}, 1, 4, false, one_node},
        {"srun -n 4 numactl -N0 ./train", kIn, {3}, 1, 4, true, one_node},
        {"srun -n1 ./s : -n3 ./w", kIn, {2, 5}, 1, kAny, false, one_node},
        {"srun -n1 ./s : -n3 ./missing", kNo, {2, 5}, 1, kAny, false, one_node},
        {"srun -n 4 ./missing", kNo, {3}, 1, 4, false, one_node},
        {"srun -n 4 -w node-b ./train", kIn, {5}, 1, 4, false, one_node},
        {"srun -n 4 --multi-prog conf", kNo, {}, 1, 4, false, one_node},
        {"srun -n 4 --pty ./train", kNo, {}, 1, 4, false, one_node},
        {"srun -n 4 --container-name=x ./train", kNo, {4}, 1, 4, false, one_node},
        {"srun ./train",
         kIn,
         {1},
         2,
         4,
         false,
         {{"SLURM_JOB_ID", "7"}, {"SLURM_NNODES", "2"}, {"SLURM_NTASKS_PER_NODE", "4"}}},
    };
    for (const Row& row : rows) check(row, "srun");
    CHECK(read("srun -n 4 ./train", one_node).job.same_host);
    CHECK_FALSE(read("srun -n 4 ./train", one_node).job.other_hosts);
    CHECK(read("srun -n 4 -w node-b ./train", one_node).job.other_hosts);
    CHECK_FALSE(read("srun -n 4 --container-image=x ./train", one_node).job.same_host);
    CHECK(read("srun -n 4 ./train").job.other_hosts);
    CHECK(read("srun --export=ALL,A=1 ./train").given.set.at("A") == "1");
    CHECK(read("srun -n 2 --export=NONE ./train", one_node).drops_variables);
    CHECK_FALSE(read("srun -n 2 --export=ALL,A=1 ./train", one_node).drops_variables);
}

TEST_CASE("srun's file of programs is written anew or left alone") {
    const ProgramFile file = launcher::read_program_file("# c\n\n 0-1,3\t./a 'b c'd \\'%t x\n");
    CHECK(file.problem.empty());
    REQUIRE(file.lines.size() == 4);  // the last one is empty
    CHECK(file.lines[2].words == std::vector<std::string>{"./a", "b cd", "'%t", "x"});
    CHECK(program_file_text(file.lines, {"/T/shim", "it's"}) ==
          "# c\n\n 0-1,3\t'/T/shim' 'it'\\''s' ./a 'b c'd \\'%t x\n\n");
    CHECK(program_file_text(file.lines, {std::string(8000, 'x')}) ==
          "");  // srun refuses such a line
    CHECK(program_file_text(file.lines, {"a\nb"}) == "");
    CHECK(program_file_text(file.lines, {"/T/%t/shim"}) == "");  // another one for each task
    for (const char* text :
         {"", "# c\n", "0\n", "0 './a'\n", "0 ./a%t\n", "0 ./a 'x\n", "0 ./a \\\n"}) {
        CAPTURE(text);
        CHECK_FALSE(launcher::read_program_file(text).problem.empty());
    }
    std::string many = "0 ./a";
    for (int i = 0; i < 60; ++i) many += " x";
    CHECK_FALSE(launcher::read_program_file(many).problem.empty());
}

TEST_CASE("toporun goes in front of a launcher that srun starts") {
    const Environment one_node = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "node-a"}};
    const Environment two_nodes = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "2"}, {"SLURM_JOB_NODELIST", "node-[a-b]"}};
    const std::vector<std::pair<std::string, Environment>> rows = {
        {"srun -N2 --ntasks-per-node=1 torchrun t.py", two_nodes},
        {"srun -N2 --ntasks-per-node=1 torchrun t.py", {}},
        {"srun -n 8 torchrun t.py", one_node},
        {"srun -n 1 --export=NONE torchrun t.py", one_node},
        {"srun -n 4 mpirun ./train", one_node}};
    for (const auto& [line, environment] : rows) {
        CAPTURE(line);
        const Command command = read(line, environment);
        CHECK(command.rewrite == kIn);
        CHECK(command.guard == launcher::Guard::toporun);
        CHECK_FALSE(command.job.shim);
        CHECK(command.notes.size() == 1);
    }
    CHECK(read("srun -n 1 torchrun t.py", one_node).rewrite == kEnv);
    CHECK(read("srun -N2 --container-image=x torchrun t.py", two_nodes).rewrite == kNo);
}

TEST_CASE("the nodes of srun that are known before it starts") {
    Environment job = {{"SLURM_JOB_ID", "7"},
                       {"SLURM_JOB_NUM_NODES", "3"},
                       {"SLURM_JOB_NODELIST", "n[1-3]"},
                       {"SLURMD_NODENAME", "n1"}};
    const Command all = read("srun -n 6 ./train", job);
    CHECK(all.job.hosts == std::vector<std::string>{"n1", "n2", "n3"});
    CHECK(all.ranks_here);
    CHECK(all.first_host.name == "n1");
    CHECK(all.first_host.here);
    CHECK(all.job.ranks_per_node == 2);
    // A part of the allocation, another one, several programs, an order of the user's.
    for (const char* line : {"srun -N2 -n 6 ./train", "srun -n 1 ./train", "srun --jobid=8 ./train",
                             "srun -n1 ./s : -n1 ./w"}) {
        CAPTURE(line);
        CHECK_FALSE(read(line, job).ranks_here);
        CHECK(read(line, job).first_host.name.empty());
    }
    CHECK(read("srun -n 1 ./train", job).job.nodes == 1);  // no more nodes than tasks
    CHECK(read("srun -n 6 -m arbitrary ./train", job).ranks_here);
    CHECK(read("srun -n 6 -m arbitrary ./train", job).first_host.name.empty());
    job["SLURMD_NODENAME"] = "";  // salloc, on a host that is none of them
    CHECK_FALSE(read("srun -n 6 ./train", job).ranks_here);
}

TEST_CASE("one task of srun on this node that is a torchrun hands its environment on") {
    const Environment one_node = {
        {"SLURM_JOB_ID", "7"}, {"SLURM_JOB_NUM_NODES", "1"}, {"SLURM_JOB_NODELIST", "node-a"}};
    check({"srun -n 1 torchrun --nproc-per-node=8 t.py", kEnv, {5}, 1, 8, false, one_node},
          "torchrun");
    check(
        {"srun -n 1 numactl -N0 torchrun --nproc-per-node=8 t.py", kEnv, {7}, 1, 8, true, one_node},
        "torchrun");
}

TEST_CASE("a plain program in a task of a Slurm step is one of the step's ranks") {
    struct StepRow {
        Environment environment;
        int nodes;
        int ranks;
        bool task;
    };
    const auto task = [](const char* tasks, const char* node) {
        return Environment{{"SLURM_STEP_ID", "0"},
                           {"SLURM_STEP_NUM_NODES", "2"},
                           {"SLURM_STEP_TASKS_PER_NODE", tasks},
                           {"SLURM_NODEID", node},
                           {"SLURM_PROCID", "0"}};
    };
    Environment batch = task("8(x2)", "0");
    batch.erase("SLURM_STEP_ID");
    const std::vector<StepRow> rows = {
        {task("8(x2)", "1"), 2, 8, true},   {task("3,1", "0"), 2, 3, true},
        {task("3,1", "1"), 2, kAny, false}, {task("1(x2)", "0"), 2, kAny, false},
        {task("", "0"), 2, kAny, false},    {task("8(x2)", "2"), 2, kAny, false},
        {batch, kAny, kAny, false},         {{}, kAny, kAny, false},
    };
    for (const StepRow& row : rows) {
        CAPTURE(row.ranks);
        const Command command = read("python3 t.py", row.environment);
        CHECK(command.job.launcher == "plain");
        CHECK(command.job.nodes.value_or(kAny) == row.nodes);
        CHECK(command.job.ranks_per_node.value_or(kAny) == row.ranks);
        CHECK(command.job.task_of_step == row.task);
        CHECK(command.job.same_host);
        CHECK(command.rewrite == kNo);
    }
}

TEST_CASE("everything else is a plain command that is only given variables") {
    struct Case {
        std::string line;
        std::string program;
        bool same_host;
        bool note = false;
    };
    const std::vector<Case> cases = {
        {"python train.py", "/venv/bin/python", true},
        {"python -m pkg.train", "/venv/bin/python", true},
        {"python -c import_torch.distributed.run", "/venv/bin/python", true},
        {"python t.py -m torch.distributed.run", "/venv/bin/python", true},
        {"./train", "./train", true},
        {"./tool.py", "/usr/bin/python3", true},
        {"./missing", "", true},
        {"env A=1 ./train", "./train", true},
        {"env -i -u B A=1 ./train", "./train", true},
        {"numactl -C 0-3 -m 0 ./train", "./train", true},
        {"numactl -C0-3 ./train", "./train", true},
        {"taskset -c 0-3 ./train", "./train", true},
        {"timeout -k 5 10 ./train", "./train", true},
        {"nice -n 5 env A=1 ./train", "./train", true},
        {"nsys profile -o out -t cuda ./train", "./train", true},
        {"nsys stats report", "/usr/bin/nsys", true},
        {"strace -f -o x -- ./train", "./train", true},
        {"bash no-such.sh", "", false},
        {"bash ./run.sh", "", true},
        {"bash -eo pipefail ./run.sh", "", true},
        {"bash --norc -x ./run.sh", "", true},
        {"bash ./boxed.sh", "", false},
        {"./run.sh", "./run.sh", true},
        {"./boxed.sh", "./boxed.sh", false},
        {"numactl -N0 sh ./run.sh", "", true},
        {"docker run image bash ./run.sh", "", false},
        {"ssh node-b bash ./run.sh", "", false},
        {"bash", "", false},
        {"bash -c", "", false},
        {"bash -c x", "", true},
        {"ssh node-b ./train", "", false},
        {"singularity exec --nv -B /a:/b i.sif python t.py", "", false},
        {"docker run --rm -v /a:/b image python t.py", "", false},
        {"ssh node-b torchrun t.py", "", false},
        {"docker run image torchrun t.py", "", false, true},
        {"bash -c torchrun", "", true},
        {"sbatch job.sh", "", false},
        {"torchx run t", "", false},
        {"flux submit -n 2 ./train", "", false},
        {"ray job submit -- python t.py", "", false},
        {"mpirun_rsh -np 2 ./train", "", false},
        {"accelerate config", "/venv/bin/python", true},
        {"singularity exec i.sif torchrun t.py", "", false, true},
        {"taskset -p 7", "", true},
        {"env -S ./train", "", false},
        {"env", "", true},
        {"env A=1", "", true},
        {"numactl", "", true},
    };
    for (const Case& c : cases) {
        CAPTURE(c.line);
        const Command command = read(c.line);
        CHECK(command.job.launcher == "plain");
        CHECK(command.rewrite == kNo);
        CHECK(command.program == c.program);
        CHECK(command.job.same_host == c.same_host);
        CHECK(command.notes.size() == (c.note ? 1 : 0));
        CHECK_FALSE(command.export_only_reason.empty());
    }
}

TEST_CASE("odd words neither crash nor reach a message as they are") {
    const std::vector<std::vector<std::string>> odd = {
        {},
        {""},
        {"", ""},
        {"-"},
        {"--"},
        {"/"},
        {"mpirun", ""},
        {"mpirun", ":", ":"},
        {"mpirun", "-np", "2", ""},
        {"mpirun", "-np", "2", "\x1b[31m\xff"},
        {"mpirun", "-np", "2", "-H", "\x1b[31m\n", "./train"},
        {"mpirun", "-H", ",,:,", "./train"},
        {"mpirun", "-\xff\n", "./train"},
        {"torchrun", "--\x1b[31m=\n"},
        {"torchrun", "-"},
        {"torchrun", "--rdzv-endpoint", "[", "t.py"},
        {"srun", "--export=\x1b[31m\n", "./train"},
        {"python", "-m"},
        {"python", "-"},
        {"env", "\x1b[31m=", "torchrun"},
        std::vector<std::string>(10'000, "-x"),
        std::vector<std::string>(10'000, "env"),
    };
    for (const std::vector<std::string>& argv : odd) {
        const Command command = launcher::recognise(argv, {}, FakeHost());
        CHECK(command.argv == argv);
        CHECK(printable(command.export_only_reason) == command.export_only_reason);
        for (const std::string& note : command.notes) CHECK(printable(note) == note);
        for (const std::size_t at : command.program_at) CHECK(at < argv.size());
    }
}

TEST_CASE("a shell text starts its ranks here unless it says otherwise") {
    struct Case {
        std::string text;
        bool same_host;
        Environment environment = {};
    };
    const Environment one_node = {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "1"}};
    const Environment two_nodes = {{"SLURM_JOB_ID", "1"}, {"SLURM_JOB_NUM_NODES", "2"}};
    const std::vector<Case> cases = {
        {"cd x && exec ./train", true},
        {"torchrun --nproc-per-node=8 t.py", true},
        {"for h in a b; do ssh $h ./train & done", false},
        {"srun ./train", false},
        {"singularity exec i.sif ./train", false},
        {"deepspeed --hostfile h t.py", false},
        {"mpirun -np 2 ./train", true},
        {"mpirun -np 2 ./train", true, one_node},
        {"mpirun -np 2 ./train", false, two_nodes},
        {"mpirun -np 2 ./train", false, {{"PBS_NODEFILE", "/x"}}},
        {"mpirun -np 2 -H a,b ./train", false},
        {"mpiexec --hostfile h ./train", false},
        {"./train", true, two_nodes},
        {"", true},
    };
    for (const Case& c : cases) {
        CAPTURE(c.text);
        for (const char* option : {"-c", "-lc", "-ec"}) {
            const Command command =
                launcher::recognise({"bash", option, c.text, "name"}, c.environment, FakeHost());
            CHECK(command.job.same_host == c.same_host);
            CHECK(command.rewrite == kNo);
            CHECK_FALSE(command.export_only_reason.empty());
            CHECK(command.export_only_reason.find("shim") == std::string::npos);
        }
    }
}

TEST_CASE("a shim can be withdrawn from a command") {
    const Command command = launcher::without_shim(read("mpirun -np 2 ./train"), "no shim here");
    CHECK(command.rewrite == kNo);
    CHECK_FALSE(command.job.shim);
    CHECK(command.export_only_reason == "no shim here");
    CHECK(command.job.why_not_here.empty());
}
