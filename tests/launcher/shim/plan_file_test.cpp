#include "launcher/shim/plan_file.hpp"

#include <doctest/doctest.h>
#include <unistd.h>

#include "files.hpp"

using namespace toporun;
using launcher::parse_rank_record;
using launcher::parse_rank_records;
using launcher::shim_plan_text;

namespace {

env::Setting per_rank(const std::string& name, const std::string& value) {
    env::Setting setting;
    setting.name = name;
    setting.value = value;
    setting.exported = true;
    setting.per_rank = true;
    return setting;
}

env::Plan full_plan() {
    env::Plan plan;
    plan.binds = true;
    plan.ranks = {{0, 0, detect::CpuSet::parse("0-3,64-67"), 0, 0, {}},
                  {1, 1, detect::CpuSet::parse("32-35"), 1, {}, {}},
                  {2, 2, {}, 1, 1, {}}};
    plan.settings = {per_rank("NCCL_DEBUG", "INFO"),
                     per_rank("NCCL_DEBUG_SUBSYS", "INIT,ENV,GRAPH,NET"),
                     per_rank("NCCL_DEBUG_FILE", "/tmp/t/log/nccl.{rank}.{restart}.%h.%p.log"),
                     per_rank("OMP_NUM_THREADS", "3"),
                     per_rank("NCCL_ODD", "a\\b\nset LD_PRELOAD /evil"),
                     per_rank("BAD NAME", "x")};
    env::Setting for_all = per_rank("NCCL_P2P_LEVEL", "NVL");
    for_all.per_rank = false;
    plan.settings.push_back(for_all);
    return plan;
}

}  // namespace

TEST_CASE("the plan file holds binding and per rank variables") {
    env::Job job;
    job.launcher = "openmpi";
    tests::check_golden(
        shim_plan_text(job, full_plan(), detect::CpuSet::parse("0-127"), "/tmp/t/ranks"),
        "launcher/shim/plan.txt");
}

TEST_CASE("the plan names whose variables tell the rank, and those that were there before") {
    env::Plan plan;
    const auto text = [&](const std::string& launcher) {
        env::Job job;
        job.launcher = launcher;
        return shim_plan_text(job, plan, {}, "", {{"SLURM_STEP_ID", "0"}, {"RANK", "1"}});
    };
    for (const auto& [launcher, source] :
         std::vector<std::pair<std::string, std::string>>{{"accelerate", "torchrun"},
                                                          {"deepspeed", "env"},
                                                          {"horovodrun", "horovod"},
                                                          {"srun", "srun"}})
        CHECK(text(launcher) ==
              "toporun-shim 1\nlauncher " + source + "\ninherited SLURM_STEP_ID 0\n");
    env::Setting policy = per_rank("OMPI_MCA_hwloc_base_binding_policy", "none");
    policy.per_rank = false;
    plan.settings = {policy};
    CHECK(text("srun").find("expect") == std::string::npos);
    env::Setting nodes = per_rank("PET_NNODES", "2");
    nodes.per_rank = false;
    plan.settings = {nodes, per_rank("RANK", "{rank}")};
    CHECK(text("torchrun").ends_with("unset PET_NNODES 2\nrank RANK {rank}\n"));
}

TEST_CASE("where ranks start on other hosts a plan names its own and sets what is for every rank") {
    env::Job job;
    job.other_hosts = true;
    const std::string text = shim_plan_text(job, full_plan(), {}, "");
    char name[256];
    REQUIRE(::gethostname(name, sizeof name) == 0);
    CHECK(text.find("\nhost " + std::string(name) + "\n") != std::string::npos);
    CHECK(text.find("\nset NCCL_P2P_LEVEL NVL\n") != std::string::npos);
    CHECK(text.find("expect") == std::string::npos);
}

TEST_CASE("a plan that does not bind has no CPUs") {
    env::Plan plan = full_plan();
    plan.binds = false;
    plan.settings.clear();
    CHECK(shim_plan_text({}, plan, {}, "") == "toporun-shim 1\nlauncher plain\n");
    CHECK(shim_plan_text({}, plan, {}, "/tmp/a\nset X y") == "toporun-shim 1\nlauncher plain\n");
}

TEST_CASE("a log that is taken has a word of its own in the plan file") {
    env::Plan plan = full_plan();
    for (env::Setting& setting : plan.settings)
        setting.replaces = setting.name.starts_with("NCCL_DEBUG");
    const std::string text = shim_plan_text({}, plan, {}, "");
    CHECK(text.find("\ntake-log NCCL_DEBUG INFO\n") != std::string::npos);
    CHECK(text.find("\ntake-log NCCL_DEBUG_SUBSYS ") != std::string::npos);
    CHECK(text.find("\ntake-log NCCL_DEBUG_FILE ") != std::string::npos);
    CHECK(text.find("\nlog_directory /tmp/t/log\n") != std::string::npos);
    CHECK(text.find("\nlog NCCL") == std::string::npos);
    CHECK(text.find("\nset OMP_NUM_THREADS 3\n") != std::string::npos);
}

TEST_CASE("a record is read back") {
    const auto record = parse_rank_record(
        "rank-record\trank=3\tlocal_rank=1\tlocal_size=2\tworld_size=4\trestart=1\tlauncher="
        "torchrun\t"
        "confident=1\thost=node-a\tpid=77\tcpus=0-3,8\tnarrowed=1\tbind=bound\tmemory=user\tlog="
        "set\t"
        "set=NCCL_DEBUG,NCCL_DEBUG_FILE\tend=1");
    REQUIRE(record.has_value());
    CHECK(record->rank == 3);
    CHECK(record->local_rank == 1);
    CHECK(record->local_size == 2);
    CHECK(record->world_size == 4);
    CHECK(record->restart == 1);
    CHECK(record->launcher == "torchrun");
    CHECK(record->confident);
    CHECK(record->host == "node-a");
    CHECK(record->pid == 77);
    CHECK(record->cpus.text() == "0-3,8");
    CHECK(record->narrowed);
    CHECK(record->bind == "bound");
    CHECK(record->memory == "user");
    CHECK(record->log == "set");
    CHECK(record->set == std::vector<std::string>{"NCCL_DEBUG", "NCCL_DEBUG_FILE"});
}

TEST_CASE("damaged records are left out or empty") {
    CHECK_FALSE(parse_rank_record("").has_value());
    CHECK_FALSE(parse_rank_record("rank-record").has_value());
    CHECK_FALSE(parse_rank_record("rank-record\trank=0\tpid=1").has_value());
    CHECK_FALSE(parse_rank_record("\xff\x1b[31m\tend=1").has_value());
    const auto odd =
        parse_rank_record("rank-record\trank=-1\tworld_size=99999999999\tcpus=7-\t==\tend=1");
    REQUIRE(odd.has_value());
    CHECK_FALSE(odd->rank.has_value());
    CHECK_FALSE(odd->world_size.has_value());
    CHECK(odd->cpus.empty());
    CHECK(odd->set.empty());
    const auto records = parse_rank_records(
        "rank-record\trank=0\tend=1\ngarbage\n\nrank-record\trank=1\tend=1\nrank-record\trank="
        "2\tend=1");
    REQUIRE(records.size() == 2);  // the last line is still being written
    CHECK(records[1].rank == 1);
}
