// What toporun-shim makes of its own options and of variables that a launcher lost, changed or left
// over from an outer one.
#include "shim_case.hpp"

using namespace toporun;
using namespace toporun::tests;
using launcher::RankRecord;
using Names = std::vector<std::string>;

TEST_CASE("what was exported and did not arrive is set and recorded") {
    const std::string lines = "expect NCCL_P2P_LEVEL NVL\nexpect OMP_NUM_THREADS 4\n";
    const Node node(lines);
    Variables variables = open_mpi(0, 1);
    variables["OMP_NUM_THREADS"] = "1";
    const Result result = run(shim({"env"}, node.with(variables)));
    CHECK(env_line(result, "NCCL_P2P_LEVEL") == "NVL");
    CHECK(env_line(result, "OMP_NUM_THREADS") == "1");
    CHECK(node.record().missing == Names{"NCCL_P2P_LEVEL"});
    CHECK(node.record().differs == Names{"OMP_NUM_THREADS"});
    CHECK(node.record().set == Names{"NCCL_P2P_LEVEL"});
}

TEST_CASE("what arrived as it was exported is not recorded") {
    Variables variables = open_mpi(0, 1);
    variables["NCCL_P2P_LEVEL"] = "NVL";
    variables["NCCL_ODD"] = "a\\b\nc";
    const RankRecord record =
        record_of(variables, "expect NCCL_P2P_LEVEL NVL\nexpect NCCL_ODD a\\\\b\\nc\nexpect \n");
    CHECK(record.missing.empty());
    CHECK(record.differs.empty());
    CHECK(record.set.empty());
}

TEST_CASE("the plan is taken from the option where the environment is empty") {
    const Node node("expect NCCL_P2P_LEVEL NVL\nset OMP_NUM_THREADS {local_rank}\n");
    const Result result = run(shim({"--plan=" + node.plan(), "--", "/usr/bin/env"}, {}));
    CHECK(result.status == 0);
    CHECK(env_line(result, "NCCL_P2P_LEVEL") == "NVL");
    CHECK(env_line(result, "TOPORUN_SHIM_PLAN") == "(unset)");
    CHECK(
        run(shim({"--plan=/no/such/file", "--", "sh", "-c", "exit 3"}, {{"PATH", kPath}})).status ==
        3);
    CHECK(run(shim({"--plan=" + node.plan(), "--"}, {})).status == 125);
    CHECK(run(shim({"--plan=" + node.plan()}, {})).status == 125);
}

TEST_CASE("a local rank behind the shim's word goes where the script would have got it") {
    struct Case {
        Names words;
        std::string arguments;  ///< of the stand-in for Python, each in brackets
    };
    const TemporaryDirectory directory;
    const std::string python =
        directory.write("bin/python3", "#!/bin/sh\nprintf '[%s]' \"$@\"\n").string();
    std::filesystem::permissions(python, std::filesystem::perms::owner_all);
    const std::string program =
        directory.write("bin/program", "#!/bin/sh\nprintf '[%s]' \"$@\"\n").string();
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    const std::vector<Case> cases = {
        {{"--local_rank=3", python, "-u", "train.py", "--x", "1"},
         "[-u][train.py][--local_rank=3][--x][1]"},
        {{"--local-rank=3", python, "-u", "-m", "pkg.train", "--x"},
         "[-u][-m][pkg.train][--local-rank=3][--x]"},
        {{"--local_rank=0", python, "-W", "ignore", "-um", "pkg"},
         "[-W][ignore][-um][pkg][--local_rank=0]"},
        {{"--local_rank=0", python, "-u", "-", "a"}, "[-u][-][--local_rank=0][a]"},
        {{"--local_rank=3", program, "-u", "a"}, "[--local_rank=3][-u][a]"},
        {{"--local_rank=3", "--", program, "--", "a"}, "[--local_rank=3][--][a]"},
        {{program, "--local_rank=3"}, "[--local_rank=3]"},
        {{python, "train.py", "--local_rank=3"}, "[train.py][--local_rank=3]"},
        {{"--local_rank=1", program}, "[--local_rank=1]"},
    };
    for (const Case& c : cases) {
        CAPTURE(join(c.words, " "));
        CHECK(run(shim(c.words, {{"PATH", kPath}})).out == c.arguments);
    }
    CHECK(run(shim({"--local_rank=1"}, {{"PATH", kPath}})).status == 125);
}

TEST_CASE("rank variables of an outer launcher do not count") {
    Variables inner = open_mpi(1, 2);
    inner["LOCAL_RANK"] = "0";
    inner["RANK"] = "0";
    inner["WORLD_SIZE"] = "1";
    CHECK(record_of(inner).launcher == "env");
    CHECK(record_of(inner, "inherited LOCAL_RANK 0\n").launcher == "openmpi");
    CHECK(record_of(inner, "inherited LOCAL_RANK 0\n").rank == 1);
    CHECK(record_of(inner, "inherited LOCAL_RANK 1\n").launcher == "env");
    Variables only_outer = {{"PATH", kPath},
                            {"SLURM_STEP_ID", "0"},
                            {"SLURM_PROCID", "0"},
                            {"SLURM_NTASKS", "1"},
                            {"SLURM_LOCALID", "0"}};
    CHECK(record_of(only_outer).launcher == "srun");
    CHECK(record_of(only_outer, "inherited SLURM_STEP_ID 0\n").launcher == "none");
    CHECK(record_of(only_outer, "launcher srun\ninherited SLURM_STEP_ID 0\n").launcher == "srun");
}

TEST_CASE("horovodrun's own launcher names the ranks by its variables") {
    const RankRecord record = record_of({{"PATH", kPath},
                                         {"HOROVOD_RANK", "3"},
                                         {"HOROVOD_SIZE", "4"},
                                         {"HOROVOD_LOCAL_RANK", "1"},
                                         {"HOROVOD_LOCAL_SIZE", "2"}});
    CHECK(record.launcher == "horovod");
    CHECK(record.rank == 3);
    CHECK(record.local_rank == 1);
    CHECK(record.confident);
}
