#include "env/rank_count.hpp"

#include <algorithm>
#include <optional>
#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

env::Job word_job(const std::string& word) {
    env::Job made = job(1);
    made.ranks_per_node.reset();
    made.ranks_word = word;
    return made;
}

std::optional<env::Finding> too_many(const env::Plan& plan) {
    for (const env::Finding& finding : plan.findings)
        if (finding.id == "ranks-exceed-gpus") return finding;
    return std::nullopt;
}

TEST_CASE("the words for the number of ranks are counted as torchrun counts") {
    struct Row {
        std::string name, word;
        Machine machine;
        env::UserEnvironment environment;
        std::optional<int> ranks;
    };
    Machine mig = hgx_h100();
    mig.gpus[3].mig = true;
    Machine restricted = host(2, 8);
    restricted.cpu.allowed = CpuSet::parse("0-3");
    Machine capture;  // GPUs alone
    add_gpus(capture, 4, "", PathType::NVL);
    const auto visible = [](const char* list) { return user({{"CUDA_VISIBLE_DEVICES", list}}); };
    const std::vector<Row> rows = {
        {"all GPUs", "gpu", hgx_h100(), {}, 8},
        {"auto prefers GPUs", "auto", hgx_h100(), {}, 8},
        {"visible GPUs", "gpu", hgx_h100(), visible("0,1"), 2},
        {"visible GPUs by auto", "auto", hgx_h100(), visible("7"), 1},
        {"up to the first bad word", "gpu", hgx_h100(), visible("5,x,2"), 1},
        {"GPUs of a capture", "gpu", capture, {}, 4},
        {"no GPU for gpu", "gpu", host(1, 4), {}, std::nullopt},
        {"no visible GPU for gpu", "gpu", hgx_h100(), visible(""), std::nullopt},
        {"no visible GPU for auto", "auto", hgx_h100(), visible(""), 224},
        {"no GPU for auto", "auto", host(1, 4), {}, 8},
        {"cpu counts PUs, GPUs or not", "cpu", hgx_h100(), {}, 224},
        {"cpu counts those that are not allowed", "cpu", restricted, {}, 32},
        {"cpu of an unknown machine", "cpu", Machine{}, {}, std::nullopt},
        {"auto of an unknown machine", "auto", Machine{}, {}, std::nullopt},
        {"cpu by the user's own count", "cpu", host(1, 4), user({{"PYTHON_CPU_COUNT", "3"}}), {}},
        {"MIG mode", "gpu", mig, {}, std::nullopt},
        {"MIG mode elsewhere", "gpu", mig, visible("0,1"), 2},
        {"MIG instances", "auto", hgx_h100(), visible("MIG-1,MIG-2"), std::nullopt},
        {"another word", "xpu", hgx_h100(), {}, std::nullopt},
        {"no word", "", hgx_h100(), {}, std::nullopt},
        {"case counts", "GPU", hgx_h100(), {}, std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(env::resolve_ranks_word(row.word, row.machine, row.environment) == row.ranks);
        CHECK(plan(row.machine, word_job(row.word), row.environment).ranks_per_node == row.ranks);
    }
}

TEST_CASE("a word that is resolved gives the plan of its number") {
    const auto by_word = plan(hgx_h100(), word_job("gpu"));
    const auto by_number = plan(hgx_h100(), job(8));
    CHECK(by_word.binds);
    CHECK(exported(by_word, "OMP_NUM_THREADS") == exported(by_number, "OMP_NUM_THREADS"));
    CHECK(exported(by_word, "TOPORUN_NUM_WORKERS") == "8");
    REQUIRE(by_word.ranks.size() == by_number.ranks.size());
    for (std::size_t i = 0; i < by_word.ranks.size(); ++i)
        CHECK(by_word.ranks[i].cpus == by_number.ranks[i].cpus);
    env::Job number = word_job("gpu");
    number.ranks_per_node = 2;
    CHECK(plan(hgx_h100(), number).ranks_per_node == 2);
}

TEST_CASE("more ranks than GPUs is a fault, with the numbers") {
    struct Row {
        std::string name;
        Machine machine;
        int ranks;
        env::UserEnvironment environment;
        std::string what, fix;
    };
    Machine one_gpu = host(1, 8);
    add_gpus(one_gpu, 1, "NVIDIA L4", PathType::SYS);
    Machine mig = one_gpu;
    mig.gpus[0].mig = true;
    const auto visible = [](const char* list) { return user({{"CUDA_VISIBLE_DEVICES", list}}); };
    const std::vector<Row> rows = {
        {"as many", hgx_h100(), 8, {}, "", ""},
        {"fewer", hgx_h100(), 2, {}, "", ""},
        {"more than there are",
         hgx_h100(),
         9,
         {},
         "9 ranks share 8 GPUs",
         "start at most 8 ranks on this host"},
        {"one GPU", one_gpu, 2, {}, "2 ranks share 1 GPU", "start at most 1 rank on this host"},
        {"more than are visible", hgx_h100(), 8, visible("0,1"), "8 ranks share 2 visible GPUs",
         "start at most 2 ranks on this host, or make more GPUs visible"},
        {"one visible", hgx_h100(), 2, visible("3"), "2 ranks share 1 visible GPU",
         "start at most 1 rank on this host, or make more GPUs visible"},
        {"one visible, one rank", hgx_h100(), 1, visible("3"), "", ""},
        {"a job for CPUs", hgx_h100(), 64, visible(""), "", ""},
        {"no GPU", host(1, 4), 16, {}, "", ""},
        {"MIG instances", hgx_h100(), 8, visible("MIG-1"), "", ""},
        {"MIG mode", mig, 7, {}, "", ""},
        {"allowed by the user", one_gpu, 2, user({{"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}), "", ""},
        {"not allowed", one_gpu, 2, user({{"NCCL_MULTI_RANK_GPU_ENABLE", "0"}}),
         "2 ranks share 1 GPU", "start at most 1 rank on this host"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto found = too_many(plan(row.machine, job(row.ranks), row.environment));
        REQUIRE(found.has_value() == !row.what.empty());
        if (!found) continue;
        CHECK(found->severity == env::Severity::broken);
        CHECK(found->what == row.what + ", NCCL refuses two on one");
        CHECK(found->fix == row.fix);
        CHECK(found->effect.find("Duplicate GPU detected") != std::string::npos);
    }
    env::Job mpi = job(64);
    mpi.launcher = "openmpi";  // perhaps a program without GPUs
    REQUIRE(too_many(plan(hgx_h100(), mpi)));
    CHECK(too_many(plan(hgx_h100(), mpi))->severity == env::Severity::note);
    env::Job cpu = job(64);
    cpu.cpu_job = true;
    CHECK_FALSE(too_many(plan(hgx_h100(), cpu)));
    const auto found = too_many(plan(hgx_h100(), job(8), visible("0,1")));
    REQUIRE(found);
    CHECK(found->evidence == "CUDA_VISIBLE_DEVICES=0,1, of 8 GPUs");
}

TEST_CASE("what keeps toporun from the ranks is the reason of every setting") {
    env::Job missing = job(16);
    missing.shim = missing.same_host = false;
    missing.why_not_here = "'./train' is not an executable file here";
    const auto made = plan(hgx_h100(), missing);
    CHECK(made.bind_reason == missing.why_not_here);
    CHECK(made.log_reason.starts_with(missing.why_not_here));
    CHECK(made.measure_reason.starts_with(missing.why_not_here));
    CHECK(setting(made, "NCCL_P2P_LEVEL").reason ==
          missing.why_not_here + ": nothing of this host is exported");
    for (const env::Setting& one : made.settings) {
        CAPTURE(one.name);
        CHECK(one.reason.find("other hosts") == std::string::npos);
    }
    missing.why_not_here.clear();
    CHECK(setting(plan(hgx_h100(), missing), "NCCL_P2P_LEVEL").reason.find("other hosts") !=
          std::string::npos);
}

env::Job left_out() {
    env::Job made = job(1);
    made.ranks_left_out = true;
    return made;
}

TEST_CASE("a torchrun without a number of ranks gets one for each visible GPU") {
    const auto made = plan(hgx_h100(), left_out());
    CHECK(exported(made, "PET_NPROC_PER_NODE") == "8");
    CHECK(made.ranks_per_node == 8);
    CHECK(made.ranks.size() == 8);
    CHECK(made.binds);
    CHECK(finding_ids(made) == std::vector<std::string>{"nproc-filled-in"});
    const auto some = plan(hgx_h100(), left_out(), user({{"CUDA_VISIBLE_DEVICES", "2,5"}}));
    CHECK(exported(some, "PET_NPROC_PER_NODE") == "2");
    CHECK(some.ranks[1].gpu == 5);
}

TEST_CASE("the number of ranks is left alone wherever one was meant or may be") {
    struct Row {
        std::string name;
        std::map<std::string, std::string> variables;
        std::vector<std::string> leave;
        bool filled = false;
    };
    const std::vector<Row> rows = {
        {"nothing", {}, {}, true},
        {"one visible GPU", {{"CUDA_VISIBLE_DEVICES", "3"}}, {}},
        {"no visible GPU", {{"CUDA_VISIBLE_DEVICES", ""}}, {}},
        {"MIG", {{"CUDA_VISIBLE_DEVICES", "MIG-00000000-0000-0000-0000-000000000001"}}, {}},
        {"several torchruns by srun", {{"SLURM_STEP_TASKS_PER_NODE", "8(x2)"}}, {}},
        {"one torchrun by srun", {{"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}}, {}, true},
        {"several by mpirun", {{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}, {}},
        {"inside torchrun", {{"TORCHELASTIC_RUN_ID", "x"}}, {}},
        {"left by its name", {}, {"PET_NPROC_PER_NODE"}},
        {"left by its short name", {}, {"nproc"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        env::Options how = options();
        how.leave = row.leave;
        const auto made = plan(hgx_h100(), left_out(), user(row.variables), how);
        CHECK(exported(made, "PET_NPROC_PER_NODE").has_value() == row.filled);
        CHECK(made.ranks_per_node == (row.filled ? 8 : 1));
        CHECK(has_setting(made, "PET_NPROC_PER_NODE"));
        for (const std::string& id : finding_ids(made)) CHECK(id != "leave-unknown-name");
    }
    env::Job cpu = left_out();
    cpu.cpu_job = true;
    CHECK_FALSE(exported(plan(hgx_h100(), cpu), "PET_NPROC_PER_NODE"));
    CHECK_FALSE(has_setting(plan(hgx_h100(), job(1)), "PET_NPROC_PER_NODE"));
    Machine mig = hgx_h100();
    mig.gpus[0].mig = true;
    CHECK_FALSE(exported(plan(mig, left_out()), "PET_NPROC_PER_NODE"));
}

}  // namespace
