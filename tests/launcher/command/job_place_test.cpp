#include "launcher/command/job_place.hpp"

#include <doctest/doctest.h>

namespace toporun::launcher {
namespace {

Environment step(Environment more = {}) {
    Environment environment = {{"SLURM_JOB_ID", "4711"},
                               {"SLURM_STEP_ID", "2"},
                               {"SLURM_STEP_NUM_NODES", "3"},
                               {"SLURM_STEP_NUM_TASKS", "5"},
                               {"SLURM_STEP_TASKS_PER_NODE", "2(x2),1"},
                               {"SLURM_NODEID", "1"},
                               {"SLURM_PROCID", "3"},
                               {"SLURM_LOCALID", "1"},
                               {"SLURMD_NODENAME", "gpu-2"}};
    for (const auto& [name, value] : more) environment[name] = value;
    return environment;
}

TEST_CASE("the place of a toporun that srun started") {
    const JobPlace place = job_place(step());
    CHECK(place.job == "4711.2");
    CHECK(place.node == 1);
    CHECK(place.nodes == 3);
    CHECK(place.task == 3);
    CHECK(place.local_task == 1);
    CHECK(place.local_tasks == 2);
    CHECK(place.name == "gpu-2");
    CHECK(place.shared());
    CHECK_FALSE(place.leads());
    CHECK(job_place(step({{"SLURM_RESTART_COUNT", "1"}})).job == "4711.2.r1");
    CHECK(job_place(step({{"SLURM_RESTART_COUNT", "0"}})).job == "4711.2");
}

TEST_CASE("a shell that somebody types into is alone") {
    CHECK_FALSE(job_place(step({{"SLURM_PTY_PORT", "40123"}})).shared());
}

TEST_CASE("alone outside of a step and where the variables do not fit") {
    struct Row {
        std::string name;
        Environment environment;
    };
    const std::vector<Row> rows = {
        {"no Slurm", {}},
        {"batch script", {{"SLURM_JOB_ID", "4711"}, {"SLURM_PROCID", "0"}, {"SLURM_NODEID", "0"}}},
        {"node beyond the step", step({{"SLURM_NODEID", "3"}})},
        {"local task beyond the node", step({{"SLURM_LOCALID", "2"}})},
        {"a negative local task", step({{"SLURM_LOCALID", "-1"}})},
        {"task beyond the step", step({{"SLURM_PROCID", "5"}})},
        {"more tasks here than in the step", step({{"SLURM_STEP_TASKS_PER_NODE", "9(x3)"}})},
        {"no number", step({{"SLURM_PROCID", "x"}})},
        {"no job", step({{"SLURM_JOB_ID", ""}})},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const JobPlace place = job_place(row.environment);
        CHECK(place.job.empty());
        CHECK_FALSE(place.shared());
        CHECK(place.leads());
    }
    const JobPlace one = job_place({{"SLURM_JOB_ID", "1"},
                                    {"SLURM_STEP_ID", "0"},
                                    {"SLURM_STEP_NUM_NODES", "1"},
                                    {"SLURM_STEP_TASKS_PER_NODE", "1"},
                                    {"SLURM_NODEID", "0"},
                                    {"SLURM_PROCID", "0"},
                                    {"SLURM_LOCALID", "0"}});
    CHECK(one.job == "1.0");
    CHECK_FALSE(one.shared());
}

}  // namespace
}  // namespace toporun::launcher
