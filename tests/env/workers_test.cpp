#include <map>
#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

TEST_CASE("threads and loader workers follow cores, quota and ranks") {
    struct Row {
        std::string name;
        Machine machine;
        int ranks;
        std::optional<double> quota;
        int threads, loaders;
    };
    Machine laptop = host(1, 4);
    Machine small_gpu = host(1, 4);
    add_gpus(small_gpu, 1, "NVIDIA L4", PathType::SYS);
    Machine two_each = host(2, 4);
    add_gpus(two_each, 4, "NVIDIA L4", PathType::SYS);
    Machine one_each = host(2, 4);
    add_gpus(one_each, 8, "NVIDIA L4", PathType::SYS);
    const std::vector<Row> rows = {
        {"14 cores a GPU rank", hgx_h100(), 8, {}, 8, 8},
        {"4 cores a GPU rank", small_gpu, 1, {}, 3, 3},
        {"quota of 40 for 8 GPU ranks", hgx_h100(), 8, 40.0, 4, 4},
        {"quota of 12 for 8 GPU ranks", hgx_h100(), 8, 12.0, 1, 0},
        {"quota below one", hgx_h100(), 8, 0.5, 1, 0},
        {"no quota that counts", hgx_h100(), 8, 0.0, 8, 8},
        {"CPU ranks: cores and not PUs", host(2, 8), 4, {}, 4, 3},
        {"CPU ranks of uneven shares take the smallest", host(1, 7), 2, {}, 3, 2},
        {"more ranks than cores", laptop, 8, {}, 1, 0},
        {"many cores", host(2, 64), 2, {}, 64, 8},
        {"two cores a GPU rank", two_each, 4, {}, 1, 1},
        {"one core a GPU rank", one_each, 8, {}, 1, 0},
        {"half of the GPUs: the cores near them", one_each, 4, {}, 1, 0},
        {"a quota below the cores", hgx_h100(), 8, 33.0, 3, 3},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = row.machine;
        machine.limits.cpu_quota = row.quota;
        const auto made = plan(machine, job(row.ranks));
        CHECK(exported(made, "OMP_NUM_THREADS") == std::to_string(row.threads));
        CHECK(exported(made, "TOPORUN_NUM_WORKERS") == std::to_string(row.loaders));
        CHECK(made.workers.omp_num_threads == row.threads);
        CHECK(made.workers.loader_workers == row.loaders);
    }
}

TEST_CASE("a task of a Slurm step counts its own CPUs, or its part of the node's") {
    struct Row {
        std::string name;
        std::string allowed;
        int tasks;
        std::map<std::string, std::string> variables;
        int threads, loaders;
    };
    // 2 packages of 32 cores, PUs 0-63.
    const Machine node = host(2, 32);
    const std::vector<Row> rows = {
        {"own mask",
         "0-15",
         4,
         {{"SLURM_CPUS_PER_TASK", "16"}, {"SLURM_CPUS_ON_NODE", "64"}},
         16,
         8},
        {"own mask without -c", "0-3", 8, {{"SLURM_CPUS_ON_NODE", "64"}}, 4, 3},
        {"own mask, the step's CPUs unknown", "0-7", 8, {{"SLURM_CPUS_PER_TASK", "8"}}, 8, 7},
        {"the node's mask in every task",
         "0-63",
         4,
         {{"SLURM_CPUS_PER_TASK", "16"}, {"SLURM_CPUS_ON_NODE", "64"}},
         16,
         8},
        {"one mask for tasks that ask for more than there is",
         "0-63",
         8,
         {{"SLURM_CPUS_PER_TASK", "64"}, {"SLURM_CPUS_ON_NODE", "64"}},
         8,
         7},
        {"nothing said", "0-31", 8, {}, 4, 3},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = node;
        machine.cpu.allowed = toporun::detect::CpuSet::parse(row.allowed);
        env::Job task = job(row.tasks);
        task.launcher = "plain";
        task.shim = false;
        task.task_of_step = task.gpu_job_unknown = true;
        const auto made = plan(machine, task, user(row.variables));
        CHECK(exported(made, "OMP_NUM_THREADS") == std::to_string(row.threads));
        CHECK(exported(made, "TOPORUN_NUM_WORKERS") == std::to_string(row.loaders));
        CHECK_FALSE(made.binds);
    }
}

TEST_CASE("a task of a Slurm step that sees one GPU is a GPU rank and no finding") {
    Machine machine = hgx_h100();
    env::Job task = job(8);
    task.launcher = "plain";
    task.shim = false;
    task.task_of_step = task.gpu_job_unknown = true;
    const auto made = plan(machine, task, user({{"CUDA_VISIBLE_DEVICES", "3"}}));
    CHECK(exported(made, "OMP_NUM_THREADS") == "8");
    for (const env::Finding& finding : made.findings) CHECK(finding.id != "ranks-exceed-gpus");
}

TEST_CASE("the evidence carries the numbers") {
    Machine machine = hgx_h100();
    machine.limits.cpu_quota = 40;
    CHECK(setting(plan(machine, job(8)), "OMP_NUM_THREADS").evidence ==
          "112 cores for 8 ranks: 14 each; quota of 40 CPUs: 5 each");
}

TEST_CASE("announced loader workers are taken off the threads of a GPU rank") {
    const auto made = plan(hgx_h100(), job(8), user({{"TOPORUN_NUM_WORKERS", "10"}}));
    CHECK(exported(made, "OMP_NUM_THREADS") == "3");
    CHECK(made.workers.loader_workers == 10);
    CHECK_FALSE(exported(made, "TOPORUN_NUM_WORKERS"));
    for (const char* odd : {"-5", "99999999999999999999", "2147483647", "many", ""})
        CHECK(exported(plan(hgx_h100(), job(8), user({{"TOPORUN_NUM_WORKERS", odd}})),
                       "OMP_NUM_THREADS"));
}

TEST_CASE("threads beyond the share of a rank are counted in words that agree") {
    const auto what = [](int cores, const char* threads) {
        for (const env::Finding& finding :
             plan(host(1, cores), job(2), user({{"OMP_NUM_THREADS", threads}})).findings)
            if (finding.id == "omp-more-than-share") return finding.what;
        return std::string();
    };
    CHECK(what(2, "4") == "OMP_NUM_THREADS=4 is more than the 1 core of a rank");
    CHECK(what(4, "4") == "OMP_NUM_THREADS=4 is more than the 2 cores of a rank");
    CHECK(what(8, "4").empty());
}

TEST_CASE("an unknown number of ranks leaves the threads alone") {
    env::Job unknown;
    unknown.same_host = true;
    const auto made = plan(hgx_h100(), unknown);
    CHECK_FALSE(setting(made, "OMP_NUM_THREADS").value);
    CHECK_FALSE(setting(made, "TOPORUN_NUM_WORKERS").value);
    CHECK(made.workers.loader_workers == 8);  // as for a rank on each GPU: shown, not exported
    CHECK(setting(made, "OMP_NUM_THREADS").evidence == "112 cores");
}

TEST_CASE("a single plain process keeps its own default") {
    env::Job plain = job(1);
    plain.launcher = "plain";
    plain.gpu_job_unknown = true;
    CHECK_FALSE(exported(plan(hgx_h100(), plain), "OMP_NUM_THREADS"));
    plain.gpu_job_unknown = false;
    CHECK(exported(plan(hgx_h100(), plain), "OMP_NUM_THREADS") == "8");
    CHECK_FALSE(exported(plan(host(1, 4), plain), "OMP_NUM_THREADS"));
}

TEST_CASE("unknown CPUs leave both alone") {
    Machine machine;
    const auto made = plan(machine, job(4));
    CHECK_FALSE(exported(made, "OMP_NUM_THREADS"));
    CHECK_FALSE(made.workers.omp_num_threads);
    CHECK_FALSE(made.workers.loader_workers);
    CHECK(setting(made, "OMP_NUM_THREADS").evidence.empty());
    machine.limits.cpu_quota = 8;
    CHECK(setting(plan(machine, job(4)), "OMP_NUM_THREADS").evidence == "quota of 8 CPUs: 2 each");
}

TEST_CASE("too many threads and thread binding by the user are said") {
    const auto many = plan(hgx_h100(), job(8), user({{"OMP_NUM_THREADS", "64"}}));
    CHECK(finding_ids(many) == std::vector<std::string>{"omp-more-than-share"});
    CHECK(many.workers.omp_num_threads == 64);
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"OMP_NUM_THREADS", "14"}}))).empty());
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"OMP_PROC_BIND", "true"}}))) ==
          std::vector<std::string>{"omp-affinity"});
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"OMP_PROC_BIND", "false"}}))).empty());
}

/// The findings on loader workers: "id: what (fix)".
std::vector<std::string> loader_texts(const Machine& machine, const env::Job& how) {
    std::vector<std::string> texts;
    for (const env::Finding& finding : plan(machine, how).findings)
        if (finding.id.starts_with("loader-") || finding.id == "shm-too-small")
            texts.push_back(finding.id + ": " + finding.what);
    return texts;
}

TEST_CASE("loader workers of the command line are compared with the share of a rank") {
    using Texts = std::vector<std::string>;
    const auto texts = [](const Machine& machine, int ranks, int workers) {
        env::Job how = job(ranks);
        how.loader_workers = workers;
        how.loader_words = "--num-workers " + std::to_string(workers);
        return loader_texts(machine, how);
    };
    CHECK(texts(hgx_h100(), 8, 2) ==
          Texts{"loader-workers-few: --num-workers 2 given: up to 8 possible"});
    CHECK(texts(hgx_h100(), 8, 7).empty());
    CHECK(texts(hgx_h100(), 8, 14).empty());
    CHECK(
        texts(hgx_h100(), 8, 15) ==
        Texts{"loader-workers-exceed-cores: --num-workers 15 given: 15 loader workers a rank on 14 "
              "cores"});
    CHECK(texts(host(2, 64), 2, 40).empty());  // within the cores though more than is advised
    Machine quota = hgx_h100();
    quota.limits.cpu_quota = 16;
    CHECK(texts(quota, 8, 3) ==
          Texts{"loader-workers-exceed-cores: --num-workers 3 given: 3 loader workers a rank on 2 "
                "cores"});
    CHECK(texts(host(1, 1), 1, 0).empty());
}

TEST_CASE("an unknown number of ranks compares loader workers with all cores") {
    Machine machine = host(1, 4, false);
    add_gpus(machine, 1, "NVIDIA L4", PathType::SYS);
    env::Job plain;
    plain.same_host = true;
    plain.gpu_job_unknown = true;
    plain.loader_workers = 8;
    plain.loader_words = "--num_workers 8";
    CHECK(loader_texts(machine, plain) ==
          std::vector<std::string>{
              "loader-workers-exceed-cores: --num_workers 8 given: 8 loader workers on 4 cores"});
    CHECK(plan(machine, plain).findings[0].fix == "3 at most, or more cores for the job");
    plain.loader_workers = 4;
    CHECK(loader_texts(machine, plain).empty());
    CHECK(loader_texts(Machine{}, plain).empty());
}

TEST_CASE("a small shared memory breaks loader workers") {
    Machine machine = hgx_h100();
    machine.limits.shm_bytes = std::uint64_t{64} << 20;
    env::Job how = job(8);
    how.loader_workers = 8;
    CHECK(
        loader_texts(machine, how) ==
        std::vector<std::string>{"shm-too-small: /dev/shm has 64 MiB for 8 loader workers a rank"});
    how.loader_workers = 0;
    how.loader_words = "--num-workers 0";
    CHECK(loader_texts(machine, how).size() == 1);  // only that there could be some
    how.loader_workers.reset();
    CHECK(loader_texts(machine, how).empty());
    how.loader_workers = 8;
    machine.limits.shm_bytes.reset();
    CHECK(loader_texts(machine, how).empty());
}

TEST_CASE("the option of a known framework is named when it is not there") {
    env::Job how = job(8);
    how.loader_framework = "Hugging Face Trainer";
    how.loader_add = "--dataloader_num_workers {workers}";
    const auto made = plan(hgx_h100(), how);
    REQUIRE(finding_ids(made) == std::vector<std::string>{"loader-workers-few"});
    CHECK(made.findings[0].what ==
          "Hugging Face Trainer takes 0 loader workers by itself: up to 8 possible");
    CHECK(made.findings[0].fix == "add --dataloader_num_workers 8");
    how.loader_default = 5;
    CHECK(finding_ids(plan(hgx_h100(), how)).empty());
}

TEST_CASE("a bound that is cut says so") {
    CHECK(setting(plan(host(2, 64), job(2)), "TOPORUN_NUM_WORKERS").reason.find("more than 8") !=
          std::string::npos);
    CHECK(setting(plan(host(2, 4), job(2)), "TOPORUN_NUM_WORKERS").reason.find("more than") ==
          std::string::npos);
}

TEST_CASE("a number that toporun writes takes cores as the same number of the user's does") {
    for (const int ranks : {2, 8}) {
        env::Job typed = job(ranks), filled = job(ranks);
        filled.loader_filled_in = true;
        const auto made = plan(host(2, 32), filled);
        REQUIRE(made.workers.loader_workers);
        typed.loader_workers = made.workers.loader_workers;
        CHECK(exported(made, "OMP_NUM_THREADS") ==
              exported(plan(host(2, 32), typed), "OMP_NUM_THREADS"));
    }
}

TEST_CASE("cores far from every GPU count where ranks are not bound") {
    Machine machine = hgx_h100();  // 112 cores
    for (auto& gpu : machine.gpus) {
        gpu.numa_node = 0;
        gpu.cpus = machine.cpu.numa_nodes[0].cpus;
    }
    const auto near = plan(machine, job(8));
    CHECK(setting(near, "OMP_NUM_THREADS").evidence ==
          "112 cores for 8 ranks: 7 each, as near to the GPUs as there are");
    env::Options how = options();
    how.bind = env::Bind::none;
    env::Job many = job(8);
    many.loader_workers = 12;
    many.loader_words = "--num-workers 12";
    const auto busy = plan(machine, many);
    REQUIRE(has_finding(busy, "loader-workers-exceed-cores"));
    for (const auto& finding : busy.findings)
        CHECK(finding.fix.find("--bind=none, which leaves each rank 14 cores") !=
              std::string::npos);
    const auto all = plan(machine, job(8), {}, how);
    CHECK(setting(all, "OMP_NUM_THREADS").evidence == "112 cores for 8 ranks: 14 each");
}

TEST_CASE("variables that bind no thread are no finding") {
    for (const auto& [name, value, binds] : std::vector<std::tuple<const char*, const char*, bool>>{
             {"KMP_AFFINITY", "disabled", false},
             {"KMP_AFFINITY", "none", false},
             {"OMP_PROC_BIND", "False", false},
             {"OMP_PROC_BIND", "", false},
             {"OMP_PROC_BIND", "close", true},
             {"OMP_PLACES", "cores", true}}) {
        CAPTURE(name);
        CAPTURE(value);
        CHECK(has_finding(plan(hgx_h100(), job(8), user({{name, value}})), "omp-affinity") ==
              binds);
    }
}

}  // namespace
