#include "env/gpu_choice.hpp"

#include <numeric>
#include <optional>
#include <tuple>

#include "brute_force.hpp"
#include "env/rank_order.hpp"
#include "env/ring.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
using toporun::env::GpuPlaces;
using toporun::env::GpuSet;
using toporun::env::PairRates;

std::optional<PairRates> rates_of(const Machine& machine, int ranks) {
    static const toporun::profiles::Knowledge knowledge;
    static const toporun::env::UserEnvironment nobody;
    static const toporun::env::Options how;
    const toporun::env::Job made = job(ranks);
    toporun::env::Inputs inputs{made, machine, nobody, how, knowledge, nullptr, {}, false, {}, {}};
    inputs.nccl = toporun::detect::nccl_version_code(machine.software.nccl_version);
    inputs.rccl = toporun::env::is_rccl(machine);
    toporun::env::find_visible_gpus(inputs);
    return toporun::env::estimate_pair_rates(inputs, ranks);
}

/// The worth of a set, by trying everything; larger is better, in the order of is_better_set.
using Worth = std::tuple<int, long long, long long, int, int>;

Worth brute_worth(const PairRates& rates, const GpuPlaces& places, const std::vector<int>& gpus,
                  bool several_nodes) {
    const int count = static_cast<int>(gpus.size());
    const int pace =
        std::max(brute_ring(rates.among(gpus), count), brute_cut(rates.links_among(gpus), count));
    long long sum = 0;
    for (int a = 0; a < count; ++a)
        for (int b = a + 1; b < count; ++b)
            sum +=
                rates.direct(gpus[static_cast<std::size_t>(a)], gpus[static_cast<std::size_t>(b)]);
    const auto different = [&](const std::vector<int>& of) {
        std::vector<int> found;
        for (const int gpu : gpus) found.push_back(of[static_cast<std::size_t>(gpu)]);
        std::sort(found.begin(), found.end());
        found.erase(std::unique(found.begin(), found.end()), found.end());
        std::erase(found, -1);
        return static_cast<int>(found.size());
    };
    const int nodes = -different(places.numa_node), adapters = different(places.adapter);
    return several_nodes ? Worth{pace, adapters, sum, nodes, 0}
                         : Worth{pace, sum, 0, nodes, -adapters};
}

void compare_all_sets(const Machine& machine, const PairRates& rates, int count,
                      bool several_nodes) {
    const int size = static_cast<int>(machine.gpus.size());
    const GpuPlaces places = toporun::env::gpu_places(machine);
    std::vector<int> all(static_cast<std::size_t>(size));
    std::iota(all.begin(), all.end(), 0);
    std::vector<int> best;
    Worth value;
    std::vector<bool> in(all.size(), false);
    std::fill(in.begin(), in.begin() + count, true);
    do {  // lexicographic: the first of equals stays
        std::vector<int> gpus;
        for (std::size_t i = 0; i < in.size(); ++i)
            if (in[i]) gpus.push_back(static_cast<int>(i));
        const auto own = brute_worth(rates, places, gpus, several_nodes);
        if (std::get<0>(own) > 0 && (best.empty() || own > value)) best = gpus, value = own;
    } while (std::prev_permutation(in.begin(), in.end()));
    const auto found = toporun::env::best_gpu_set(rates, places, all, count, several_nodes);
    REQUIRE(found.has_value() == !best.empty());
    if (!found) return;
    CHECK(found->gpus == best);
    CHECK(found->pace == std::get<0>(value));
    CHECK(found->sum == (several_nodes ? std::get<2>(value) : std::get<1>(value)));
}

TEST_CASE("the best set of GPUs equals brute force on every saved topology for every number") {
    int compared = 0;
    for (const auto& [name, machine] : saved_topologies()) {
        CAPTURE(name);
        const int size = static_cast<int>(machine.gpus.size());
        for (int count = 2; count <= size && size <= toporun::env::kMostExactGpus; ++count) {
            CAPTURE(count);
            const auto rates = rates_of(machine, count);
            if (!rates) continue;
            for (const bool several_nodes : {false, true})
                compare_all_sets(machine, *rates, count, several_nodes);
            ++compared;
        }
    }
    CHECK(compared >= 30);
    if (!std::filesystem::is_directory(std::filesystem::path(TOPORUN_SHARED) / "rig"))
        MESSAGE("skipped: the shared topologies are not there");
}

TEST_CASE("rates of random matrices give the sets of brute force, with links of their own or not") {
    unsigned state = 12345;
    const auto random = [&](unsigned below) {
        state = state * 1664525U + 1013904223U;
        return static_cast<int>((state >> 16) % below);
    };
    for (int round = 0; round < 60; ++round) {
        CAPTURE(round);
        const int size = 3 + random(5);
        PairRates rates(size);
        for (int a = 0; a < size; ++a)
            for (int b = a + 1; b < size; ++b) {
                rates.set(a, b, 10 * random(4));
                if (round % 3 == 0 && random(2) == 0) rates.set_links(a, b, 20);
                if (round % 3 == 1 && random(3) == 0) rates.add_way(a, b, random(3), 25);
            }
        Machine machine = host(2, 8);
        add_gpus(machine, size, "GPU", PathType::SYS);
        for (int count = 2; count <= size; ++count)
            for (const bool several_nodes : {false, true})
                compare_all_sets(machine, rates, count, several_nodes);
    }
}

/// What is exported, as positions.
std::vector<int> chosen(const toporun::env::Plan& made) {
    std::vector<int> gpus;
    for (const auto& rank : made.ranks) gpus.push_back(rank.gpu.value_or(-1));
    return gpus;
}

std::string uuids(const Machine& machine, const std::vector<int>& gpus) {
    std::string text;
    for (const int gpu : gpus)
        text += (text.empty() ? "" : ",") + *machine.gpus[static_cast<std::size_t>(gpu)].uuid;
    return text;
}

Machine bridged(std::vector<std::pair<int, int>> bridges, int gpus = 4) {
    Machine machine = host(2, 16);
    add_gpus(machine, gpus, "NVIDIA RTX A6000", PathType::PHB);
    for (auto& gpu : machine.gpus) gpu.numa_node = 0, gpu.memory_used_bytes = 100 << 20;
    for (const auto& [a, b] : bridges) connect(machine, a, b, PathType::NVL, 4);
    return machine;
}

Machine cube_mesh() {
    Machine machine = host(2, 16);
    add_gpus(machine, 8, "Tesla V100-SXM2-32GB", PathType::NVB);
    for (auto& gpu : machine.gpus) gpu.compute_capability = 70, gpu.memory_used_bytes = 0;
    // DGX-1 with V100: the numbers of links that nvidia-smi topo -m prints.
    const int links[][3] = {{0, 1, 1}, {0, 2, 1}, {0, 3, 2}, {0, 4, 2}, {1, 2, 2}, {1, 3, 1},
                            {1, 5, 2}, {2, 3, 2}, {2, 6, 1}, {3, 7, 1}, {4, 5, 1}, {4, 6, 1},
                            {4, 7, 2}, {5, 6, 2}, {5, 7, 1}, {6, 7, 2}};
    for (const auto& [a, b, count] : links) connect(machine, a, b, PathType::NVL, count);
    return machine;
}

Machine two_packages(const std::string& vendor = "AuthenticAMD") {
    Machine machine = host(2, 32);
    machine.cpu.vendor = vendor;
    add_gpus(machine, 8, "NVIDIA L40S", PathType::SYS);
    for (int a = 0; a < 8; ++a)
        for (int b = 0; b < 8; ++b)
            if (a != b && a / 4 == b / 4) connect(machine, a, b, PathType::PHB);
    for (auto& gpu : machine.gpus) gpu.pcie_generation = 4, gpu.memory_used_bytes = 0;
    return machine;
}

TEST_CASE("a job on some of the GPUs gets those that are fastest together") {
    struct Row {
        std::string name;
        Machine machine;
        int ranks;
        std::vector<int> gpus;  ///< empty: left alone
    };
    Machine interleaved = two_packages();
    for (int a = 0; a < 8; ++a)
        for (int b = 0; b < 8; ++b)
            if (a != b) connect(interleaved, a, b, a % 2 == b % 2 ? PathType::PHB : PathType::SYS);
    Machine slow_card = bridged({});
    for (auto& gpu : slow_card.gpus)
        gpu.pcie_generation = 4, gpu.pcie_width = gpu.pcie_width_now = 16;
    slow_card.gpus[1].pcie_width_now = 4;
    Machine nps4 = host(4, 16);  // a NUMA node a GPU: every pair SYS
    add_gpus(nps4, 4, "NVIDIA L40S", PathType::SYS);
    Machine weak = hgx_h100();
    for (int i = 0; i < 8; ++i)
        if (i != 1) connect(weak, 1, i, PathType::NVL, 12);
    const std::vector<Row> rows = {
        {"bridge across indices", bridged({{0, 2}, {1, 3}}), 2, {0, 2}},
        {"bridge of the first two", bridged({{0, 1}, {2, 3}}), 2, {}},
        {"bridge of the last two", bridged({{2, 3}}), 2, {2, 3}},
        {"a bridge is better than none", bridged({{2, 3}}), 3, {0, 2, 3}},
        {"two bridged pairs of four",
         bridged({{0, 4}, {1, 5}, {2, 6}, {3, 7}}, 8),
         4,
         {0, 4, 1, 5}},
        {"cube mesh, a double link", cube_mesh(), 2, {0, 3}},
        {"cube mesh, three with two double links", cube_mesh(), 3, {0, 2, 3}},
        {"cube mesh, a quad", cube_mesh(), 4, {}},
        {"NVSwitch", hgx_h100(), 4, {}},
        {"NVSwitch, one GPU with fewer links", weak, 4, {4, 5, 6, 7}},
        {"two packages in order", two_packages(), 4, {}},
        {"two packages interleaved", interleaved, 4, {0, 2, 4, 6}},
        {"one slow card", slow_card, 2, {0, 2}},
        {"a NUMA node a GPU", nps4, 2, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto made = plan(row.machine, job(row.ranks));
        const auto list = setting(made, "CUDA_VISIBLE_DEVICES");
        CAPTURE(list.reason);
        CAPTURE(list.evidence);
        CHECK(list.exported == !row.gpus.empty());
        CHECK_FALSE(list.reason.empty());
        if (row.gpus.empty()) {
            CHECK(chosen(made).front() == 0);
            continue;
        }
        CHECK(list.value == uuids(row.machine, row.gpus));
        CHECK(chosen(made) == row.gpus);
        CHECK(list.evidence.find("estimated") != std::string::npos);
        for (const auto& pair : made.pairs) {
            CHECK(std::count(row.gpus.begin(), row.gpus.end(), pair.a) == 1);
            CHECK(std::count(row.gpus.begin(), row.gpus.end(), pair.b) == 1);
        }
    }
}

TEST_CASE("the level is that of the chosen GPUs") {
    const auto made = plan(bridged({{0, 2}, {1, 3}}), job(2));
    CHECK(exported(made, "NCCL_P2P_LEVEL") == "NVL");
    REQUIRE(made.pairs.size() == 1);
    CHECK(made.pairs.front().transport == "P2P");
}

TEST_CASE("GPUs that are in use are avoided") {
    Machine machine = hgx_h100();
    for (auto& gpu : machine.gpus) gpu.memory_used_bytes = 500 << 20;
    machine.gpus[0].memory_used_bytes = machine.gpus[2].memory_used_bytes = std::uint64_t{40} << 30;
    auto made = plan(machine, job(4));
    CHECK(chosen(made) == std::vector{4, 5, 6, 7});  // one NUMA node
    CHECK(setting(made, "CUDA_VISIBLE_DEVICES").reason.find("in use") != std::string::npos);
    CHECK(exported(plan(machine, job(6)), "CUDA_VISIBLE_DEVICES") ==
          uuids(machine, {1, 3, 4, 5, 6, 7}));
    // Not enough of them: nothing is gained by another list.
    made = plan(machine, job(7));
    CHECK_FALSE(exported(made, "CUDA_VISIBLE_DEVICES"));
    CHECK(setting(made, "CUDA_VISIBLE_DEVICES").reason == "6 of 8 GPUs are free, the job needs 7");
    // The memory of one could not be repaired.
    machine = hgx_h100();
    machine.gpus[0].row_remap_failed = true;
    CHECK(chosen(plan(machine, job(2))) == std::vector{1, 2});
    // One that takes a single process has it where CUDA's context is seen.
    machine = hgx_h100();
    for (auto& gpu : machine.gpus) gpu.memory_used_bytes = 1 << 20;
    machine.gpus[0].memory_used_bytes = 500 << 20;
    CHECK_FALSE(exported(plan(machine, job(2)), "CUDA_VISIBLE_DEVICES"));
    machine.gpus[0].compute_mode = "exclusive-process";
    CHECK(chosen(plan(machine, job(2))) == std::vector{1, 2});
    // Where use is not known all count as idle, and that is said.
    CHECK(setting(plan(bridged({{2, 3}}), job(2)), "CUDA_VISIBLE_DEVICES")
              .evidence.find("not known") == std::string::npos);
    machine = bridged({{2, 3}});
    machine.gpus[0].memory_used_bytes.reset();
    CHECK(setting(plan(machine, job(2)), "CUDA_VISIBLE_DEVICES")
              .evidence.find("in use is not known") != std::string::npos);
}

TEST_CASE("nothing is chosen against a list of somebody else's or without the facts") {
    struct Row {
        std::string name;
        Machine machine;
        toporun::env::Job job;
        std::map<std::string, std::string> variables;
        std::string reason;
    };
    const Machine good = bridged({{2, 3}});
    Machine mig = good, unknown = good, cell = good, mixed = good, amd = good;
    mig.gpus[3].mig = true;
    unknown.gpu_paths.clear();
    connect(cell, 0, 1, PathType::DIS);
    mixed.gpus[0].name = "NVIDIA T400";
    toporun::env::Job elsewhere = job(2), many = job(9), nobody = job(2), shell = job(2, 2);
    elsewhere.same_host = false;
    nobody.ranks_per_node.reset();
    shell.launcher = "shell";
    const std::vector<Row> rows = {
        {"the user's list", good, job(2), {{"CUDA_VISIBLE_DEVICES", "0,1"}}, "toporun never"},
        {"an empty list", good, job(2), {{"CUDA_VISIBLE_DEVICES", ""}}, "toporun never"},
        {"another list", good, job(2), {{"ROCR_VISIBLE_DEVICES", "0,1"}}, "ROCR_VISIBLE_DEVICES"},
        {"Slurm's GPUs", good, job(2), {{"SLURM_JOB_GPUS", "0,1"}}, "SLURM_JOB_GPUS is set"},
        {"a task of several",
         good,
         job(2),
         {{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "4(x2)"}},
         "several Slurm tasks"},
        {"a rank of mpirun", good, job(2), {{"OMPI_COMM_WORLD_LOCAL_SIZE", "4"}}, "each rank"},
        {"MIG", mig, job(2), {}, "MIG"},
        {"unknown paths", unknown, job(2), {}, "paths"},
        {"a cell that was cut", cell, job(2), {}, "paths"},
        {"different models", mixed, job(2), {}, "different models"},
        {"other hosts", good, elsewhere, {}, "other hosts"},
        {"too many ranks", good, many, {}, "not as many"},
        {"one rank", good, job(1), {}, "one rank"},
        {"ranks unknown", good, nobody, {}, "not known"},
        {"a shell of several nodes", good, shell, {}, "other nodes"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto made = plan(row.machine, row.job, user(row.variables));
        const auto list = setting(made, "CUDA_VISIBLE_DEVICES");
        CAPTURE(list.reason);
        CHECK_FALSE(list.exported);
        CHECK(list.reason.find(row.reason) != std::string::npos);
        CHECK_FALSE(exported(made, "CUDA_DEVICE_ORDER"));
    }
    auto how = options();
    how.leave = {"CUDA_VISIBLE_DEVICES"};
    const auto left = plan(good, job(2), {}, how);
    CHECK_FALSE(exported(left, "CUDA_VISIBLE_DEVICES"));
    CHECK(setting(left, "CUDA_VISIBLE_DEVICES").reason.find("--leave") != std::string::npos);
    CHECK(chosen(left) == std::vector{0, 1});
    CHECK_FALSE(has_setting(plan(host(1, 4), job(2)), "CUDA_VISIBLE_DEVICES"));
    // A step with one task a node is the usual place of torchrun.
    CHECK(exported(
        plan(good, job(2), user({{"SLURM_STEP_ID", "0"}, {"SLURM_STEP_TASKS_PER_NODE", "1(x2)"}})),
        "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("GPUs are named by UUID, else by number with the order of the bus") {
    Machine machine = bridged({{2, 3}});
    machine.gpus[1].uuid.reset();
    auto made = plan(machine, job(2));
    CHECK(exported(made, "CUDA_VISIBLE_DEVICES") == "2,3");
    CHECK(exported(made, "CUDA_DEVICE_ORDER") == "PCI_BUS_ID");
    // The user's order is either the same or makes the numbers uncertain.
    made = plan(machine, job(2), user({{"CUDA_DEVICE_ORDER", "PCI_BUS_ID"}}));
    CHECK(exported(made, "CUDA_VISIBLE_DEVICES") == "2,3");
    CHECK_FALSE(exported(made, "CUDA_DEVICE_ORDER"));
    made = plan(machine, job(2), user({{"CUDA_DEVICE_ORDER", "FASTEST_FIRST"}}));
    CHECK_FALSE(exported(made, "CUDA_VISIBLE_DEVICES"));
    auto how = options();
    how.leave = {"CUDA_DEVICE_ORDER"};
    made = plan(machine, job(2), {}, how);
    CHECK_FALSE(exported(made, "CUDA_VISIBLE_DEVICES"));
    CHECK(chosen(made) == std::vector{0, 1});
    // A UUID from a file of strangers, and one for two GPUs.
    machine = bridged({{2, 3}});
    machine.gpus[2].uuid = "GPU-0,1\n";
    CHECK(exported(plan(machine, job(2)), "CUDA_VISIBLE_DEVICES") == "2,3");
    machine.gpus[2].uuid = machine.gpus[3].uuid;
    CHECK(exported(plan(machine, job(2)), "CUDA_VISIBLE_DEVICES") == "2,3");
    // Without UUIDs a list that misses a GPU has no certain numbers.
    machine.gpus[3].index = 5;
    CHECK_FALSE(exported(plan(machine, job(2)), "CUDA_VISIBLE_DEVICES"));
    Machine amd = bridged({{2, 3}});
    for (auto& gpu : amd.gpus) gpu.vendor = "amd", gpu.architecture = "gfx90a";
    made = plan(amd, job(2));
    CHECK(exported(made, "HIP_VISIBLE_DEVICES") == "2,3");
    CHECK_FALSE(has_setting(made, "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("a job of several nodes prefers GPUs with adapters of their own") {
    Machine machine = hgx_h100();
    machine.nics.clear();
    std::vector<toporun::detect::Nic> nics;
    for (int i = 0; i < 4; ++i) {
        auto made = nic("ib" + std::to_string(i), NicKind::ipoib, {});
        made.rdma_device = "mlx5_" + std::to_string(i);
        nics.push_back(made);
    }
    add_nics(machine, nics);
    machine.gpu_nic_paths.assign(8, std::vector<std::optional<PathType>>(5, PathType::SYS));
    for (std::size_t gpu = 0; gpu < 8; ++gpu)
        machine.gpu_nic_paths[gpu][1 + gpu / 2] = PathType::PXB;
    CHECK_FALSE(exported(plan(machine, job(4, 1)), "CUDA_VISIBLE_DEVICES"));
    const auto made = plan(machine, job(4, 2));
    CHECK(chosen(made) == std::vector{0, 2, 4, 6});
    CHECK(
        setting(made, "CUDA_VISIBLE_DEVICES").evidence.find("4 adapters near them instead of 2") !=
        std::string::npos);
}

TEST_CASE("more than sixteen GPUs are chosen by bounded search") {
    Machine machine = host(2, 64);
    add_gpus(machine, 32, "NVIDIA L4", PathType::SYS);
    for (auto& gpu : machine.gpus) gpu.numa_node = gpu.index % 2;
    for (int a = 0; a < 32; ++a)
        for (int b = 0; b < 32; ++b)
            if (a != b && a % 4 == b % 4) connect(machine, a, b, PathType::PIX);
    const auto made = plan(machine, job(8));
    CHECK(chosen(made) == std::vector{0, 4, 8, 12, 16, 20, 24, 28});
    CHECK(plan(machine, job(32)).ranks.size() == 32);
}

TEST_CASE("an order is exported where neighbours are clearly faster in it") {
    const auto order = [](const Machine& machine, int ranks, int nodes = 1) {
        return chosen(plan(machine, job(ranks, nodes)));
    };
    CHECK(order(bridged({{0, 2}, {1, 3}}), 4) == std::vector{0, 2, 1, 3});
    CHECK(order(bridged({{0, 3}, {1, 2}}), 4) == std::vector{0, 3, 1, 2});
    CHECK(order(bridged({{0, 1}, {2, 3}}), 4) == std::vector{0, 1, 2, 3});
    CHECK(order(cube_mesh(), 8).size() == 8);
    const auto made = plan(bridged({{0, 2}, {1, 3}}), job(4));
    const auto list = setting(made, "CUDA_VISIBLE_DEVICES");
    CHECK(list.exported);
    CHECK(list.reason.find("NCCL orders the ring") != std::string::npos);
    // Between nodes the ranks of one number share a rail.
    CHECK(order(bridged({{0, 2}, {1, 3}}), 4, 2) == std::vector{0, 1, 2, 3});
    CHECK_FALSE(exported(plan(hgx_h100(), job(8)), "CUDA_VISIBLE_DEVICES"));
}

TEST_CASE("no list is written, and no rank is bound by GPU, where others choose the GPUs") {
    const auto choice = [](const toporun::env::Job& of) {
        return setting(plan(hgx_h100(), of), "CUDA_VISIBLE_DEVICES");
    };
    toporun::env::Job cpu = job(4);
    cpu.cpu_job = true;
    CHECK(choice(cpu).reason.find("run on CPUs") != std::string::npos);
    for (const auto& rank : plan(hgx_h100(), cpu).ranks) CHECK_FALSE(rank.gpu);
    toporun::env::Job launcher = job(4);
    launcher.gpu_list_by = "the launcher has a list";
    CHECK(choice(launcher).reason == "the launcher has a list");
    CHECK(plan(hgx_h100(), launcher).ranks[3].gpu == 3);
    CHECK(plan(hgx_h100(), launcher).binds);
    toporun::env::Job bound = job(4);
    bound.gpu_bind = "--gpu-bind=map_gpu:3,2,1,0";
    CHECK(choice(bound).reason.find("map_gpu") != std::string::npos);
    CHECK_FALSE(plan(hgx_h100(), bound).ranks[3].gpu);
    CHECK_FALSE(plan(hgx_h100(), bound).binds);
    toporun::env::Job text = job(4);
    text.rank_gpus_unknown = "a text chooses";
    CHECK_FALSE(plan(hgx_h100(), text).ranks[3].gpu);
    CHECK_FALSE(plan(hgx_h100(), text).binds);
    CHECK(plan(hgx_h100(), text).bind_reason == "a text chooses");
    for (const auto& unknown : {bound, text})  // they use GPUs all the same
        CHECK(exported(plan(hgx_h100(), unknown), "OMP_NUM_THREADS") ==
              exported(plan(hgx_h100(), job(4)), "OMP_NUM_THREADS"));
}

}  // namespace
