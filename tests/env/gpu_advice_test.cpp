#include "env/gpu_advice.hpp"

#include <optional>

#include "machines.hpp"

namespace {

using namespace toporun::tests;

std::optional<toporun::env::Finding> found(const toporun::env::Plan& made, const std::string& id) {
    for (const auto& finding : made.findings)
        if (finding.id == id) return finding;
    return std::nullopt;
}

Machine two_sides(PathType inside, PathType across, int gpus = 8) {
    Machine machine = host(2, 32);
    add_gpus(machine, gpus, "NVIDIA L40S", across);
    for (int a = 0; a < gpus; ++a)
        for (int b = 0; b < gpus; ++b)
            if (a != b && a / (gpus / 2) == b / (gpus / 2))
                connect(machine, a, b, inside, inside == PathType::NVL ? 4 : 0);
    for (auto& gpu : machine.gpus) gpu.pcie_generation = 4;
    return machine;
}

TEST_CASE("two jobs on half of the GPUs are proposed where the whole has a slow link") {
    struct Row {
        std::string name;
        Machine machine;
        toporun::env::Job job;
        std::string what;  ///< part of it, "" = nothing is said
    };
    Machine four_groups = two_sides(PathType::PHB, PathType::SYS);
    for (int i = 0; i < 8; i += 2) connect(four_groups, i, i + 1, PathType::PIX);
    const std::vector<Row> rows = {
        {"two packages", two_sides(PathType::PHB, PathType::SYS), job(8), "crosses a slow link"},
        {"with pairs below switches", four_groups, job(8), "crosses a slow link"},
        {"a switch each", two_sides(PathType::PIX, PathType::SYS), job(8), "crosses a slow link"},
        {"a daisy chain", two_sides(PathType::PIX, PathType::PXB), job(8), "shares one link"},
        {"half of it", two_sides(PathType::PHB, PathType::SYS), job(4), ""},
        {"several nodes", two_sides(PathType::PHB, PathType::SYS), job(8, 2), ""},
        {"four GPUs", two_sides(PathType::PHB, PathType::SYS, 4), job(4), ""},
        {"one switch", two_sides(PathType::PIX, PathType::PIX), job(8), ""},
        {"NVSwitch", hgx_h100(), job(8), ""},
        {"uneven sides", two_sides(PathType::PHB, PathType::DIS), job(8), ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto finding = found(plan(row.machine, row.job), "gpu-halves-faster");
        REQUIRE(finding.has_value() == !row.what.empty());
        if (!finding) continue;
        CHECK(finding->what.find(row.what) != std::string::npos);
        CHECK(finding->severity == toporun::env::Severity::note);
        CHECK(finding->evidence.find("0,1,2,3") != std::string::npos);
        CHECK(finding->evidence.find("4,5,6,7") != std::string::npos);
        CHECK(finding->fix.find("two jobs of 4") != std::string::npos);
    }
}

TEST_CASE("a GPU outside the NVLinks of the rest is named") {
    Machine machine = hgx_h100();
    for (int i = 0; i < 8; ++i)
        if (i != 5) connect(machine, 5, i, PathType::SYS);
    const auto finding = found(plan(machine, job(8)), "gpu-outside-fabric");
    REQUIRE(finding);
    CHECK(finding->what == "GPU 5 has no NVLink, the other 7 GPUs of the job have");
    CHECK(finding->fix == "leave it out: 7 ranks on this host");
    CHECK(finding->severity == toporun::env::Severity::slow);
    // A job that does not need it does not get it.
    const auto seven = plan(machine, job(7));
    CHECK_FALSE(found(seven, "gpu-outside-fabric"));
    CHECK(seven.ranks[5].gpu == 6);
    CHECK_FALSE(found(plan(hgx_h100(), job(8)), "gpu-outside-fabric"));
    connect(machine, 4, 0, PathType::SYS);  // then it is no fabric
    CHECK_FALSE(found(plan(machine, job(8)), "gpu-outside-fabric"));
    connect(machine, 5, 0, PathType::DIS);  // a cell that was cut
    CHECK_FALSE(found(plan(machine, job(8)), "gpu-outside-fabric"));
}

TEST_CASE("several MIG instances for one process are a fault of the command") {
    Machine machine = host(1, 8);
    add_gpus(machine, 1, "NVIDIA A100-SXM4-80GB", PathType::SYS);
    machine.gpus[0].mig = true;
    const auto both = user({{"CUDA_VISIBLE_DEVICES", "MIG-a, MIG-b"}});
    auto one = job(1);
    one.launcher = "plain";
    auto finding = found(plan(machine, one, both), "mig-several-instances");
    REQUIRE(finding);
    CHECK(finding->severity == toporun::env::Severity::slow);
    CHECK(finding->what == "CUDA_VISIBLE_DEVICES lists 2 MIG instances, CUDA takes only the first");
    finding = found(plan(machine, job(2), both), "mig-several-instances");
    REQUIRE(finding);
    CHECK(finding->severity == toporun::env::Severity::broken);
    CHECK_FALSE(found(plan(machine, one, user({{"CUDA_VISIBLE_DEVICES", "MIG-a"}})),
                      "mig-several-instances"));
}

TEST_CASE("tasks that see one GPU each are told with the way out") {
    struct Row {
        std::string name;
        std::map<std::string, std::string> variables;
        std::string bind;
        std::string what;
    };
    const std::vector<Row> rows = {
        {"the option",
         {},
         "--tres-bind=gres/gpu:per_task:1",
         "each task sees GPUs of its own only, one GPU per task "
         "(--tres-bind=gres/gpu:per_task:1)"},
        {"inside the step", {{"SLURMD_TRES_BIND", "gpu:single:1"}}, "", "SLURMD_TRES_BIND"},
        {"the second task",
         {{"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", "0"}},
         "",
         "task 1 sees 1 GPU but its local rank is 1: device 1 does not exist"},
        {"the first task",
         {{"SLURM_LOCALID", "0"}, {"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", "0"}},
         "",
         ""},
        {"all GPUs",
         {{"SLURM_LOCALID", "1"}, {"SLURM_STEP_ID", "0"}, {"CUDA_VISIBLE_DEVICES", "0,1"}},
         "",
         ""},
        {"another binding", {{"SLURMD_TRES_BIND", "gpu:closest"}}, "", ""},
        {"closest by the option", {}, "--gpu-bind=closest", ""},
        {"one closest", {}, "--gpus-per-task=1 --gpu-bind=closest", "--gpus-per-task=1"},
        {"a map", {}, "--gpu-bind=map_gpu:1,0", "map_gpu:1,0"},
        {"a map inside the step", {{"SLURMD_TRES_BIND", "gpu:map_gpu:1,0"}}, "", "map_gpu"},
        {"no Slurm", {}, "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        auto made = job(2);
        made.launcher = "srun";
        made.gpu_bind = row.bind;
        const auto finding = found(plan(hgx_h100(), made, user(row.variables)), "one-gpu-per-task");
        REQUIRE(finding.has_value() == !row.what.empty());
        if (!finding) continue;
        CHECK(finding->what.find(row.what) != std::string::npos);
        const bool tres = row.bind.starts_with("--tres");
        CHECK(finding->fix == (tres ? "srun --tres-bind=gres/gpu:none" : "srun --gpu-bind=none"));
        CHECK(finding->remark.find("--tres-bind=gres/gpu:none") != std::string::npos);
    }
}

}  // namespace
