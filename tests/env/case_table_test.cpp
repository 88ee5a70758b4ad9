#include <algorithm>
#include <filesystem>
#include <set>

#include "case_rows.hpp"
#include "saved_machines.hpp"

/// Publicly reported problems: what is chosen on the machine of each, with exact values, what is
/// said, and what must be neither chosen nor said. A case that no decision can answer has a row
/// with the reason.
namespace toporun::tests {
namespace {

using Row = CaseRow;

Machine roce_of(const std::string& version) {
    Machine machine = roce_with_four_gids();
    machine.software.nccl_version = version;
    return machine;
}

std::vector<Row> rdma_rows() {
    const std::string index = "NCCL_IB_GID_INDEX";
    return {
        {"c034",
         far_adapter(),
         nodes(2),
         {},
         {{"NCCL_NET_GDR_LEVEL", kLeft}, {"NCCL_NET_GDR_READ", kLeft}},
         {"gdr-far-adapter"}},
        {"c036",
         unregistered_peermem(),
         nodes(2),
         {},
         {{"NCCL_DMABUF_ENABLE", kLeft}},
         {"gdr-peermem-unregistered"},
         {"gdr-no-peermem"}},
        {"c038", roce_of("2.21.5"), nodes(2), {}, {{index, kLeft}}, {}, {"roce-gid-link-local"}},
        {"c038 with the user's 1",
         roce_of("2.21.5"),
         nodes(2),
         user({{index, "1"}}),
         {kept(index, "1")},
         {"roce-gid-link-local"},
         {"roce-gid-absent", "roce-no-routable-gid"}},
        {"c042",
         healthy_node(),
         nodes(2),
         user({{"NCCL_IGNORE_NET_MISMATCH", "1"}}),
         {{"NCCL_IB_HCA", kLeft}},
         {"variable-for-debugging"},
         {},
         {},
         "which adapters the other node can open is seen in the logs of both"},
        {"c070",
         healthy_roce_node(),
         nodes(2),
         user({{"NCCL_IB_TIMEOUT", "18"}, {"NCCL_IB_RETRY_CNT", "7"}, {"NCCL_IB_TC", "128"}}),
         {},
         {},
         {"ib-timeout-range"},
         [](const env::Plan& made) {
             for (const char* name : {"NCCL_IB_TIMEOUT", "NCCL_IB_RETRY_CNT", "NCCL_IB_TC"})
                 CHECK_FALSE(exported(made, name));
         },
         "status 12 is seen in the log"},
        {"c080",
         p3_16xlarge(),
         nodes(2),
         {},
         {{"NCCL_SOCKET_NTHREADS", kLeft}},
         {"network-thin"},
         {},
         {},
         "the bandwidth that the training needs is the plan's"},
    };
}

/// Two packages of two nodes each, the first GPUs on the last node: rank and node do not go along.
Machine dgx_a100() {
    Machine machine = host(4, 16);
    add_gpus(machine, 4, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
    const int numa[] = {3, 3, 1, 1};
    for (std::size_t gpu = 0; gpu < 4; ++gpu) machine.gpus[gpu].numa_node = numa[gpu];
    return machine;
}

Machine four_cores() {
    Machine machine = host(1, 4, false);
    add_gpus(machine, 1, "NVIDIA A100-SXM4-40GB", PathType::LOC);
    return machine;
}

void by_numa_node(const env::Plan& made) {
    REQUIRE(made.ranks.size() == 4);
    CHECK(made.binds);
    const Machine machine = dgx_a100();
    for (std::size_t rank = 0; rank < 4; ++rank) {
        const int node = rank < 2 ? 3 : 1;
        CHECK(made.ranks[rank].numa_node == node);
        CHECK(machine.cpu.numa_nodes[static_cast<std::size_t>(node)].cpus.contains(
            made.ranks[rank].cpus));
        CHECK_FALSE(made.ranks[rank].cpus.empty());
    }
}

std::vector<Row> host_rows() {
    const Machine gtx = small_shm(4, "NVIDIA GeForce GTX 1080 Ti", PathType::PHB, 0);
    return {
        {"c044", gtx, job(4), {}, {{"NCCL_SHM_DISABLE", kLeft}}, {"shm-too-small"}},
        {"c046",
         small_shm(2, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12),
         job(2),
         {},
         {{"NCCL_SHM_DISABLE", kLeft}},
         {"shm-too-small"}},
        {"c048",
         one_core(),
         job(8),
         {},
         {},
         {"cpus-few"},
         {},
         [](const env::Plan& made) { CHECK_FALSE(made.binds); },
         "the policy of mpirun is replaced on its command line"},
        {"c050",
         with_gpus(1, "NVIDIA A100", PathType::LOC),
         job(1),
         user({{"OMP_PROC_BIND", "true"}}),
         {},
         {"omp-affinity"},
         {},
         [](const env::Plan& made) {
             for (const char* name : {"OMP_PROC_BIND", "OMP_PLACES", "KMP_AFFINITY"})
                 CHECK_FALSE(exported(made, name));
         }},
        {"c052",
         four_cores(),
         job(1),
         {},
         {{"TOPORUN_NUM_WORKERS", "3"}},
         {},
         {},
         [](const env::Plan& made) { CHECK(made.workers.loader_workers == 3); }},
        {"c054", dgx_a100(), job(4), {}, {{kLevel, "NVL"}}, {}, {}, by_numa_node},
        {"c078", balancing_on(), job(8), {}, {}, {"numa-balancing"}},
    };
}

std::vector<Row> rows_elsewhere() {
    return {
        elsewhere("c040", "that rails have no way between them is seen in the log"),
        elsewhere("c056", "the fixed --node-rank stands on the command line of srun"),
        elsewhere("c058", "the numbers of Slurm are compared where the command line is read"),
        elsewhere("c060", "the binding of GPUs to tasks stands on the command line of srun"),
        elsewhere("c062", "that ranks share a GPU is seen in the log"),
        elsewhere("c068", "which rank is behind is seen in the course of a run"),
    };
}

std::vector<Row> all_rows() {
    std::vector<Row> rows;
    for (const auto& more : {network_rows(), p2p_rows(), gpu_rows(), rdma_rows(), host_rows()})
        rows.insert(rows.end(), more.begin(), more.end());
    return rows;
}

void check_setting(const env::Plan& made, const Expected& expected) {
    CAPTURE(expected.name);
    if (expected.kept) {
        CHECK_FALSE(exported(made, expected.name));
        if (!has_setting(made, expected.name)) return;  // not decided, so not touched
        CHECK(setting(made, expected.name).value == expected.value);
        CHECK(env::origin_text(setting(made, expected.name)) == "user");
        return;
    }
    CHECK(exported(made, expected.name).value_or(kLeft) == expected.value);
}

void check_row(const Row& row, const Machine& machine) {
    static const auto knowledge = profiles::builtin_knowledge();
    const env::Plan made = plan(machine, row.job, row.user);
    for (const Expected& expected : row.settings) check_setting(made, expected);
    if (row.more) row.more(made);
    const env::Diagnosis diagnosis = env::diagnose(row.job, machine, row.user, made, knowledge);
    std::string found;
    for (const std::string& id : ids(diagnosis)) found += id + " ";
    CAPTURE(found);
    for (const std::string& id : row.said) CHECK_MESSAGE(has(diagnosis, id), id);
    for (const std::string& id : row.not_said) CHECK_FALSE_MESSAGE(has(diagnosis, id), id);
}

TEST_CASE("the machine of each reported problem gets the settings that cure it and no other") {
    for (const Row& row : all_rows()) {
        CAPTURE(row.id);
        CAPTURE(row.elsewhere);
        check_row(row, row.machine);
    }
}

TEST_CASE("rows of reported problems expect something or say why not") {
    std::set<std::string> ids;
    for (const Row& row : all_rows()) {
        CAPTURE(row.id);
        CHECK((!row.settings.empty() || !row.said.empty() || row.more));
        CHECK(ids.insert(row.id).second);
    }
    for (const Row& row : rows_elsewhere()) CHECK_FALSE(row.elsewhere.empty());
}

TEST_CASE("every reported problem of the collection has a row") {
    const std::filesystem::path folder = std::filesystem::path(TOPORUN_SHARED) / "cases";
    if (!std::filesystem::is_directory(folder)) {
        MESSAGE("skipped: no cases in " TOPORUN_SHARED);
        return;
    }
    std::set<std::string> known;
    for (const auto& rows : {all_rows(), rows_elsewhere()})
        for (const Row& row : rows) known.insert(row.id.substr(0, row.id.find(' ')));
    std::size_t cases = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".toml") continue;
        ++cases;
        const std::string name = entry.path().stem().string();
        CHECK_MESSAGE(known.contains(name.substr(0, name.find('-'))), name);
    }
    CHECK(cases == known.size());
}

TEST_CASE("machines composed elsewhere for the reported problems get the same answers") {
    const auto machines = shared_machines();
    if (machines.empty()) {
        MESSAGE("skipped: no collection in " TOPORUN_SHARED);
        return;
    }
    int checked = 0;
    // c048 there is the whole machine; what is left of its CPUs by mpirun is in no capture.
    for (const char* id : {"c018", "c020", "c030", "c044", "c046"})
        for (const Row& row : all_rows())
            for (const SavedMachine& saved : machines) {
                if (row.id != id || saved.name != "composed " + row.id + ".toml") continue;
                CAPTURE(saved.name);
                check_row(row, saved.machine);
                ++checked;
            }
    CHECK(checked == 5);
}

}  // namespace
}  // namespace toporun::tests
