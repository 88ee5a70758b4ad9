// Which rank toporun-shim takes itself for, and the CPUs and memory it gives that rank.
#include <linux/mempolicy.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "shim_case.hpp"

using namespace toporun;
using namespace toporun::tests;
using launcher::RankRecord;

TEST_CASE("the rank is found in each launcher's variables") {
    struct Row {
        std::string name;
        Variables variables;
        std::string launcher;
        int rank, local_rank, world_size;
        std::optional<int> local_size;
        bool confident = true;
        int restart = 0;
    };
    const Variables inherited = {{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCAL_RANK", "0"}};
    Variables mixed = open_mpi(3, 4);
    mixed.insert(inherited.begin(), inherited.end());
    Variables nested = torchrun(5, 8);
    nested["SLURM_PROCID"] = "1";
    nested["SLURM_NTASKS"] = "2";
    nested["SLURM_STEP_ID"] = "0";
    Variables broken = torchrun(9, 8);
    Variables broken_then_good = open_mpi(1, 2);
    broken_then_good.insert(broken.begin(), broken.end());
    const std::vector<Row> rows = {
        {"torchrun", torchrun(1, 2), "torchrun", 1, 1, 2, 2, true, 2},
        {"srun then torchrun", nested, "torchrun", 5, 5, 8, 8, true, 2},
        {"plain names",
         {{"RANK", "3"}, {"WORLD_SIZE", "8"}, {"LOCAL_RANK", "1"}, {"LOCAL_SIZE", "2"}},
         "env",
         3,
         1,
         8,
         2},
        {"openmpi", open_mpi(3, 4), "openmpi", 3, 3, 4, 4},
        {"hydra",
         {{"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MPI_LOCALNRANKS", "2"}},
         "hydra",
         2,
         0,
         4,
         2},
        {"srun",
         {{"SLURM_STEP_ID", "0"},
          {"SLURM_PROCID", "9"},
          {"SLURM_NTASKS", "18"},
          {"SLURM_LOCALID", "1"},
          {"SLURM_NODEID", "1"},
          {"SLURM_STEP_TASKS_PER_NODE", "8(x2),2"}},
         "srun",
         9,
         1,
         18,
         8},
        {"batch script",
         {{"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "0"}},
         "none",
         0,
         0,
         1,
         1,
         false},
        {"flux",
         {{"FLUX_TASK_RANK", "1"}, {"FLUX_JOB_SIZE", "2"}, {"FLUX_TASK_LOCAL_ID", "1"}},
         "flux",
         1,
         1,
         2,
         std::nullopt},
        {"nothing", {}, "none", 0, 0, 1, 1, false},
        {"rank beyond the size", broken, "torchrun", 9, 9, 8, 8, false, 2},
        {"a whole set before a broken one", broken_then_good, "openmpi", 1, 1, 2, 2, true, 2},
        {"garbage",
         {{"TORCHELASTIC_RUN_ID", "x"}, {"RANK", "-1"}, {"LOCAL_RANK", "1e3"}, {"WORLD_SIZE", ""}},
         "none",
         0,
         0,
         1,
         1,
         false},
        {"huge",
         {{"RANK", "99999999999999999999"}, {"LOCAL_RANK", "0"}, {"WORLD_SIZE", "2"}},
         "none",
         0,
         0,
         1,
         1,
         false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Variables variables = row.variables;
        variables["PATH"] = kPath;
        const RankRecord record = record_of(variables);
        CHECK(record.launcher == row.launcher);
        CHECK(record.rank == row.rank);
        CHECK(record.local_rank == row.local_rank);
        CHECK(record.world_size == row.world_size);
        CHECK(record.local_size == row.local_size);
        CHECK(record.confident == row.confident);
        CHECK(record.restart == row.restart);
    }
    CHECK(record_of(mixed).launcher == "env");
    CHECK(record_of(mixed, "launcher openmpi\n").launcher == "openmpi");
    CHECK(record_of(mixed, "launcher openmpi\n").rank == 3);
}

TEST_CASE("the local rank is found behind a virtual one") {
    Variables variables = torchrun(6, 8);
    variables["LOCAL_RANK"] = "0";
    variables["LOCAL_WORLD_SIZE"] = "4";
    variables["GROUP_RANK"] = "1";
    CHECK(record_of(variables).local_rank == 2);
}

TEST_CASE("a rank is bound inside the mask that it was given") {
    const detect::CpuSet all = tests::own_mask();
    if (all.count() < 2) {
        MESSAGE("skipped: this test needs two CPUs");
        return;
    }
    const detect::CpuSet first({all.indices()[0]});
    const detect::CpuSet second({all.indices()[1]});
    const std::string plan = "launcher openmpi\nallowed " + all.text() + "\nlocal_size 2\ncpus 0 " +
                             first.text() + "\ncpus 1 " + second.text() + "\n";
    const auto bound = [&](const std::string& lines, const Variables& variables,
                           const detect::CpuSet& mask) {
        const Node node(lines);
        const Result result = run(
            shim({"grep", "Cpus_allowed_list", "/proc/self/status"}, node.with(variables), mask));
        const RankRecord record = node.record();
        const std::string cpus(trim(result.out.substr(result.out.find(':') + 1)));
        CHECK(record.cpus == detect::CpuSet::parse(cpus));
        return record;
    };
    const RankRecord zero = bound(plan, open_mpi(0, 2), all);
    CHECK(zero.bind == "bound");
    CHECK(zero.cpus == first);
    CHECK_FALSE(zero.narrowed);
    CHECK(bound(plan, open_mpi(1, 2), all).cpus == second);
    const RankRecord kept = bound(plan, open_mpi(1, 2), second);
    CHECK(kept.bind == "kept");
    CHECK(kept.narrowed);
    const RankRecord away = bound(plan, open_mpi(1, 2), first);
    CHECK(away.bind == "no-overlap");
    CHECK(away.cpus == first);
    CHECK(bound(plan, open_mpi(0, 3), all).bind == "local-size");
    CHECK(bound(plan, {{"PATH", kPath}}, all).bind == "unknown-rank");
    CHECK(bound("", open_mpi(0, 2), all).bind == "not-planned");
    CHECK(bound("local_size 2\ncpus 0 8191\n", open_mpi(0, 2), all).bind == "no-overlap");
    const std::string both = "local_size 2\ncpus 0 " + all.text() + ",8191\n";
    CHECK(bound(both, open_mpi(0, 2), all).bind == "kept");
    const RankRecord part =
        bound("local_size 2\ncpus 0 " + first.text() + ",8191\n", open_mpi(0, 2), all);
    CHECK(part.bind == "narrowed");  // what somebody gave is not cut to a part of the plan
    CHECK(part.cpus == all);
    for (const char* list : {"x", "8192", "3-1", "0-", "", "0,,1", "99999999999999999999"}) {
        CAPTURE(list);
        const std::string lines = "local_size 2\ncpus 0 " + std::string(list) + "\n";
        CHECK(bound(lines, open_mpi(0, 2), all).bind == "not-planned");
    }
}

TEST_CASE("memory near the CPUs is preferred unless somebody has set a policy") {
    const std::string bind = "local_size 2\ncpus 0 " + tests::own_mask().text() + "\n";
    int policy = MPOL_DEFAULT;
    if (syscall(SYS_get_mempolicy, &policy, nullptr, 0UL, nullptr, 0UL) != 0 ||
        !std::filesystem::exists("/proc/self/numa_maps")) {
        MESSAGE("skipped: the kernel tells no memory policies here");
        return;
    }
    REQUIRE(policy == MPOL_DEFAULT);
    const auto memory = [&](const std::string& lines) {
        const Node node(lines);
        const Result result = run(shim({"cat", "/proc/self/numa_maps"}, node.with(open_mpi(0, 2))));
        CHECK(result.status == 0);
        const RankRecord record = node.record();
        CHECK((result.out.find(" prefer:0 ") != std::string::npos) ==
              (record.memory == "preferred"));
        return record.memory;
    };
    CHECK(memory(bind + "memory 1 1\nmemory 0 0\n") == "preferred");
    CHECK(memory(bind + "memory 1 0\n") == "not-planned");
    CHECK(memory("local_size 3\ncpus 0 0\nmemory 0 0\n") == "not-planned");  // not bound
    for (const char* odd : {"memory 0 1023\n", "memory 0 99999\n", "memory 0 x\n", "memory 0\n"})
        CHECK(memory(bind + odd) == "not-planned");
    CHECK(memory(bind + "memory 0 1000\n") == "refused");  // no such node
    const unsigned long first_node = 1;
    REQUIRE(syscall(SYS_set_mempolicy, MPOL_INTERLEAVE, &first_node, 64UL) == 0);
    const std::string kept = memory(bind + "memory 0 0\n");
    REQUIRE(syscall(SYS_set_mempolicy, MPOL_DEFAULT, nullptr, 0UL) == 0);
    CHECK(kept == "user");
}
