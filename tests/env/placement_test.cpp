#include "env/placement.hpp"

#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace detect = toporun::detect;
namespace env = toporun::env;

env::Options binding(env::Bind bind) {
    env::Options how = options();
    how.bind = bind;
    return how;
}

std::vector<std::string> cpus(const env::Plan& plan) {
    std::vector<std::string> out;
    for (const auto& rank : plan.ranks) out.push_back(rank.cpus.text());
    return out;
}

TEST_CASE("ranks share the cores near their GPUs, siblings together") {
    const auto made = plan(hgx_h100(), job(8));
    REQUIRE(made.binds);
    CHECK(made.bind == env::Bind::core);
    CHECK(made.bind_reason ==
          "14 cores of its own are enough for a rank whose loader workers are not known");
    CHECK(cpus(made) == std::vector<std::string>{"0-13,112-125", "14-27,126-139", "28-41,140-153",
                                                 "42-55,154-167", "56-69,168-181", "70-83,182-195",
                                                 "84-97,196-209", "98-111,210-223"});
    CHECK(made.ranks[3].numa_node == 0);
    CHECK(made.ranks[4].numa_node == 1);
    CHECK(made.ranks[7].gpu == 7);
}

TEST_CASE("the remainder goes to the low ranks and nobody overlaps") {
    Machine machine = host(1, 13, false);
    add_gpus(machine, 4, "NVIDIA L40S", PathType::PIX);
    CHECK(cpus(plan(machine, job(4), {}, binding(env::Bind::core))) ==
          std::vector<std::string>{"0-3", "4-6", "7-9", "10-12"});
}

TEST_CASE("a GPU's own list wins over its NUMA node and the mask over both") {
    Machine machine = host(2, 8, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    machine.gpus[0].cpus = CpuSet({12, 13, 14, 15});  // against numa_node 0
    machine.cpu.allowed = CpuSet::parse("8-13");
    const auto made = plan(machine, job(2), {}, binding(env::Bind::core));
    CHECK(cpus(made) == std::vector<std::string>{"12-13", "8-11"});
}

TEST_CASE("a rank whose GPU is out of reach keeps its mask and is said") {
    Machine machine = host(2, 8, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    machine.cpu.allowed = CpuSet::parse("0-7");
    const auto made = plan(machine, job(2));
    CHECK(made.binds);
    CHECK(cpus(made) == std::vector<std::string>{"0-7", ""});
    CHECK(finding_ids(made) == std::vector<std::string>{"gpu-cpus-not-allowed"});
}

TEST_CASE("CUDA_VISIBLE_DEVICES maps ranks to GPUs by index and by UUID") {
    struct Row {
        std::string list;
        std::vector<int> gpus;
    };
    const std::vector<Row> rows = {
        {"7,6,1,0", {7, 6, 1, 0}},
        {"GPU-00000002-aaaa,GPU-00000005", {2, 5}},
        {"3,GPU-00000004-aaaa", {3, 4}},
        {"2,99,1", {2}},      // the driver stops at the first word it does not know
        {"1,1,2", {1}},       // and at a repeated one
        {"GPU-0000000", {}},  // not unique
        {"", {}},
        {"-1", {}},
        {"MIG-00000000-0000-0000-0000-000000000001", {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.list);
        const int ranks = std::max<int>(1, static_cast<int>(row.gpus.size()));
        const auto made = plan(hgx_h100(), job(ranks), user({{"CUDA_VISIBLE_DEVICES", row.list}}));
        REQUIRE(static_cast<int>(made.ranks.size()) == ranks);
        for (std::size_t i = 0; i < row.gpus.size(); ++i) CHECK(made.ranks[i].gpu == row.gpus[i]);
        if (row.gpus.empty()) CHECK_FALSE(made.ranks[0].gpu);
    }
}

TEST_CASE("without GPUs the cores are divided evenly and NUMA nodes kept whole") {
    CHECK(cpus(plan(host(2, 8, false), job(2))) == std::vector<std::string>{"0-7", "8-15"});
    CHECK(cpus(plan(host(2, 8, false), job(4))) ==
          std::vector<std::string>{"0-3", "4-7", "8-11", "12-15"});
    CHECK(cpus(plan(host(2, 8, false), job(3))) ==
          std::vector<std::string>{"0-5", "6-10", "11-15"});
    CHECK(cpus(plan(host(4, 4, false), job(2))) == std::vector<std::string>{"0-7", "8-15"});
    CHECK(plan(host(2, 8, false), job(2)).ranks[1].numa_node == 1);
}

TEST_CASE("last-level caches are kept whole when they can be") {
    CHECK(cpus(plan(host(1, 12, false, 4), job(2))) == std::vector<std::string>{"0-5", "6-11"});
    Machine uneven = host(1, 16, false, 4);
    uneven.cpu.allowed = CpuSet::parse("1-15");  // caches of 3, 4, 4 and 4
    CHECK(cpus(plan(uneven, job(2))) == std::vector<std::string>{"1-7", "8-15"});
    uneven.cpu.allowed = CpuSet::parse("3-15");  // of 1, 4, 4, 4: whole caches would be unfair
    CHECK(cpus(plan(uneven, job(2))) == std::vector<std::string>{"3-9", "10-15"});
}

TEST_CASE("no binding has a reason") {
    const auto reason = [](const Machine& machine, const env::Job& one,
                           const env::Options& how = options()) {
        const auto made = plan(machine, one, {}, how);
        CHECK_FALSE(made.binds);
        return made.bind_reason;
    };
    CHECK(reason(host(1, 2), job(4)).find("4 ranks on 2 cores") != std::string::npos);
    CHECK(reason(hgx_h100(), job(1)).find("one rank") != std::string::npos);
    env::Job one = job(8);
    one.user_binds = true;
    CHECK(reason(hgx_h100(), one).find("command line binds") != std::string::npos);
    one = job(8);
    one.shim = false;
    CHECK(reason(hgx_h100(), one).find("not in front of the ranks") != std::string::npos);
    one.why_not_here = "the wrapper is no program";
    CHECK(reason(hgx_h100(), one) == "the wrapper is no program");
    one.ranks_per_node.reset();
    one.same_host = false;
    CHECK(reason(hgx_h100(), one) == "the wrapper is no program");
    one = job(8);
    one.same_host = false;
    CHECK(reason(hgx_h100(), one).find("other hosts") != std::string::npos);
    one = job(8);
    one.ranks_per_node.reset();
    CHECK(reason(hgx_h100(), one).find("not known") != std::string::npos);
    one.ranks_word = "xpu";
    CHECK(reason(hgx_h100(), one).find("not known from 'xpu'") != std::string::npos);
    env::Options how = options();
    how.bind = env::Bind::none;
    CHECK(reason(hgx_h100(), job(8), how).find("--bind=none") != std::string::npos);
    CHECK(reason(Machine{}, job(2)).find("not known") != std::string::npos);
    CHECK(reason(host(1, 4), job(1000000000)).find("make no sense") != std::string::npos);
    CHECK(reason(host(1, 4), job(-3)).find("make no sense") != std::string::npos);
}

TEST_CASE("an unknown number of ranks shows one a GPU without binding it") {
    env::Job unknown;
    unknown.same_host = true;
    const auto made = plan(hgx_h100(), unknown);
    CHECK_FALSE(made.binds);
    REQUIRE(made.ranks.size() == 8);
    CHECK(made.ranks[4].cpus.text() == "56-69,168-181");
}

TEST_CASE("a capture without cores is divided by its CPU lists, siblings together") {
    Machine machine;  // what a pasted matrix tells: two GPUs on each of two NUMA nodes
    add_gpus(machine, 4, "", PathType::NVL, 12);
    for (int i = 0; i < 4; ++i) {
        machine.gpus[static_cast<std::size_t>(i)].numa_node = i < 2 ? 3 : 1;
        machine.gpus[static_cast<std::size_t>(i)].cpus =
            CpuSet::parse(i < 2 ? "48-63,176-191" : "16-31,144-159");
    }
    env::Job unknown;
    unknown.same_host = true;
    const auto made = plan(machine, unknown);
    CHECK(cpus(made) == std::vector<std::string>{"48-55,176-183", "56-63,184-191", "16-23,144-151",
                                                 "24-31,152-159"});
    CHECK(made.ranks[0].numa_node == 3);
}

TEST_CASE("the nearest adapters of a rank are those at the shortest distance that are up") {
    Machine machine = host(2, 8);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    for (int i = 0; i < 4; ++i) {
        auto one = nic("ibp" + std::to_string(i), NicKind::infiniband, {});
        one.rdma_device = "mlx5_" + std::to_string(i);
        if (i == 0) one.state = "down";
        if (i == 1) one.state = "down", one.port_state = "active";  // IPoIB switched off
        if (i == 2) one.port_state = "active";
        machine.nics.push_back(one);
    }
    const auto near = std::optional(PathType::PIX), far = std::optional(PathType::SYS);
    machine.gpu_nic_paths = {{near, near, near, far}, {far, std::nullopt, far, far}};
    const auto made = plan(machine, job(2));
    CHECK(made.ranks[0].nics == std::vector<std::string>{"mlx5_1", "mlx5_2"});
    CHECK(made.ranks[1].nics == std::vector<std::string>{"mlx5_2", "mlx5_3"});
}

TEST_CASE("more ranks than GPUs are placed like ranks without") {
    Machine machine = host(1, 8, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::PIX);
    const auto made = plan(machine, job(4));
    CHECK(cpus(made) == std::vector<std::string>{"0-1", "2-3", "4-5", "6-7"});
    CHECK_FALSE(made.ranks[0].gpu);
}

/// A host with one NUMA node for each list, cores of one PU.
Machine nodes(const std::vector<std::string>& lists) {
    Machine machine;
    CpuSet all;
    for (std::size_t i = 0; i < lists.size(); ++i) {
        const CpuSet cpus = CpuSet::parse(lists[i]);
        for (const int pu : cpus.indices()) {
            detect::Core core;
            core.pus = CpuSet({pu});
            core.numa_node = static_cast<int>(i);
            machine.cpu.cores.push_back(core);
        }
        machine.cpu.numa_nodes.push_back({static_cast<int>(i), cpus, {}});
        all = all | cpus;
    }
    machine.cpu.allowed = all;
    return machine;
}

void add_gpus_near(Machine& machine, const std::vector<std::string>& lists) {
    add_gpus(machine, static_cast<int>(lists.size()), "NVIDIA L40S", PathType::SYS);
    for (std::size_t i = 0; i < lists.size(); ++i) {
        machine.gpus[i].numa_node.reset();
        machine.gpus[i].cpus = CpuSet::parse(lists[i]);
    }
}

TEST_CASE("places that overlap are shared out evenly whatever their order") {
    struct Row {
        std::string name;
        std::vector<std::string> near;
        std::vector<std::string> cpus;
    };
    const std::vector<Row> rows = {
        {"the same", {"0-15", "0-15"}, {"0-7", "8-15"}},
        {"partly", {"0-9", "6-15"}, {"0-7", "8-15"}},
        {"partly, the other way round", {"6-15", "0-9"}, {"8-15", "0-7"}},
        {"all but one in common", {"0-14", "0-15"}, {"0-7", "8-15"}},
        {"one inside the other", {"0-15", "0-3"}, {"4-15", "0-3"}},
        {"one GPU without a place", {"0-7", "8-15", ""}, {"2-7", "11-15", "0-1,8-10"}},
        {"three in a chain", {"0-7", "4-11", "8-15"}, {"0-5", "6-10", "11-15"}},
        {"nobody has a place", {"", ""}, {"0-7", "8-15"}},
        {"a crowd and a single one", {"0-7", "0-7", "0-7", "4-15"}, {"0-2", "3-5", "6-7", "8-15"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = nodes({"0-15"});
        add_gpus_near(machine, row.near);
        const auto made =
            plan(machine, job(static_cast<int>(row.near.size())), {}, binding(env::Bind::core));
        CpuSet seen;
        for (std::size_t i = 0; i < row.near.size(); ++i) {
            const CpuSet& own = made.ranks[i].cpus;
            CHECK((own & seen).empty());
            if (!row.near[i].empty()) CHECK(CpuSet::parse(row.near[i]).contains(own));
            seen = seen | own;
        }
        CHECK(cpus(made) == row.cpus);
    }
}

TEST_CASE("ranks go to the NUMA node of their GPU however many nodes a package has") {
    // Four nodes a package, GPUs in every second one and in an order that crosses them.
    Machine machine = nodes({"0-7", "8-15", "16-23", "24-31", "32-39", "40-47", "48-55", "56-63"});
    add_gpus_near(machine, {"24-31", "24-31", "8-15", "8-15", "56-63", "56-63", "40-47", "40-47"});
    const auto made = plan(machine, job(8));
    CHECK(made.bind == env::Bind::core);
    CHECK(cpus(made) == std::vector<std::string>{"24-27", "28-31", "8-11", "12-15", "56-59",
                                                 "60-63", "40-43", "44-47"});
    CHECK(made.ranks[0].numa_node == 3);
    CHECK(made.ranks[0].memory_node == 3);
    CHECK(made.ranks[6].memory_node == 5);
}

TEST_CASE("a GPU on a node of memory alone is near the CPUs that are nearest to it") {
    Machine machine = nodes({"0-7", "8-15", "", ""});  // as Grace: GPU memory is nodes 2 and 3
    machine.cpu.numa_distances = {
        {10, 40, 80, 120}, {40, 10, 120, 80}, {80, 120, 10, 160}, {120, 80, 160, 10}};
    add_gpus(machine, 2, "NVIDIA GB200", PathType::NVL, 18);
    machine.gpus[0].numa_node = machine.gpus[0].memory_numa_node = 3;
    machine.gpus[1].numa_node = machine.gpus[1].memory_numa_node = 2;
    const auto made = plan(machine, job(2));
    CHECK(cpus(made) == std::vector<std::string>{"8-15", "0-7"});
    CHECK(made.ranks[0].memory_node == 1);  // never the GPU's own memory
    CHECK(made.ranks[1].memory_node == 0);
    machine.cpu.numa_distances.clear();  // nobody says which CPUs: the whole machine
    CHECK(cpus(plan(machine, job(2))) == std::vector<std::string>{"0-7", "8-15"});
}

TEST_CASE("memory is preferred only where there is a choice and the node has some") {
    CHECK_FALSE(plan(host(1, 16), job(2)).ranks[0].memory_node);
    Machine machine = host(2, 8);
    CHECK(plan(machine, job(2)).ranks[1].memory_node == 1);
    machine.cpu.numa_nodes[1].memory_bytes = 0;
    CHECK_FALSE(plan(machine, job(2)).ranks[1].memory_node);
    CHECK_FALSE(plan(host(4, 4), job(2)).ranks[0].memory_node);  // CPUs of two nodes
}

TEST_CASE("cores with and without siblings are dealt out to every rank") {
    Machine machine = host(1, 4);  // four SMT cores, then eight of one PU
    for (int i = 8; i < 16; ++i) {
        detect::Core core;
        core.pus = CpuSet({i});
        core.numa_node = 0;
        core.l3 = 0;
        machine.cpu.cores.push_back(core);
    }
    machine.cpu.numa_nodes[0].cpus = machine.cpu.allowed = CpuSet::parse("0-15");
    CHECK(cpus(plan(machine, job(2))) == std::vector<std::string>{"0-1,4-5,8-11", "2-3,6-7,12-15"});
    machine.cpu.allowed = CpuSet::parse("0-6,8-11");  // one sibling is not allowed
    CHECK(cpus(plan(machine, job(2))) == std::vector<std::string>{"0-1,3-5,8", "2,6,9-11"});
}

TEST_CASE("the mode follows the cores of a rank and its loader workers") {
    struct Row {
        std::string name;
        int cores;  // of the one node of two ranks, there is another one
        std::optional<int> workers;
        env::Bind asked;
        env::Bind bind;
        std::string first;
    };
    using env::Bind;
    const std::vector<Row> rows = {
        {"plenty", 16, {}, Bind::automatic, Bind::core, "0-7"},
        {"just enough", 8, {}, Bind::automatic, Bind::core, "0-3"},
        {"few", 6, {}, Bind::automatic, Bind::numa, "0-5"},
        {"few, no workers", 6, 0, Bind::automatic, Bind::core, "0-2"},
        {"few, two workers", 6, 2, Bind::automatic, Bind::core, "0-2"},
        {"few, three workers", 6, 3, Bind::automatic, Bind::numa, "0-5"},
        {"plenty, more workers", 16, 16, Bind::automatic, Bind::numa, "0-15"},
        {"one core and no workers", 2, 0, Bind::automatic, Bind::numa, "0-1"},
        {"absurd workers", 16, 2147483647, Bind::automatic, Bind::numa, "0-15"},
        {"numa asked", 16, 0, Bind::numa, Bind::numa, "0-15"},
        {"core asked", 2, 8, Bind::core, Bind::core, "0"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = host(2, row.cores, false);
        add_gpus(machine, 4, "NVIDIA L40S", PathType::SYS);
        env::Job made = job(4);
        made.loader_workers = row.workers;
        const auto chosen = plan(machine, made, {}, binding(row.asked));
        CHECK(chosen.binds);
        CHECK(chosen.bind == row.bind);
        CHECK(chosen.ranks[0].cpus.text() == row.first);
        CHECK(chosen.ranks[2].memory_node == 1);
    }
}

TEST_CASE("fewer cores near the GPUs than ranks there are shared, even where shares are asked") {
    Machine machine = host(2, 2, false);
    add_gpus(machine, 8, "NVIDIA L40S", PathType::SYS);
    for (const env::Bind bind : {env::Bind::automatic, env::Bind::core, env::Bind::numa}) {
        const auto made = plan(machine, job(8), {}, binding(bind));
        CHECK(made.binds);
        CHECK(made.bind == env::Bind::numa);
        CHECK(made.ranks[0].cpus.text() == "0-1");
        CHECK(made.ranks[7].cpus.text() == "2-3");
        CHECK(made.bind_reason == "4 ranks on 2 cores: sharing is left to the kernel");
    }
}

TEST_CASE("one node for all ranks is not bound where they would share it") {
    Machine machine = host(1, 4, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    const auto made = plan(machine, job(2));
    CHECK_FALSE(made.binds);
    CHECK(made.bind == env::Bind::none);
    CHECK(cpus(made) == std::vector<std::string>{"", ""});
    CHECK(made.bind_reason ==
          "2 cores of its own would be few for a rank whose loader workers are not known: the "
          "ranks share all 4 cores");
    CHECK(exported(made, "TOPORUN_NUM_WORKERS") == "1");
}

TEST_CASE("a mask that leaves one core near a GPU keeps its ranks off it") {
    Machine machine = host(2, 8, false);
    add_gpus(machine, 4, "NVIDIA L40S", PathType::SYS);
    machine.cpu.allowed = CpuSet::parse("7-15");
    const auto made = plan(machine, job(4));
    CHECK(cpus(made) == std::vector<std::string>{"", "", "8-11", "12-15"});
    REQUIRE(finding_ids(made) == std::vector<std::string>{"gpu-cpus-not-allowed"});
    CHECK(made.findings[0].what == "rank 0 and 1 more may use only 1 core near their GPU");
    CHECK(exported(made, "TOPORUN_NUM_WORKERS") == "1");
    CHECK(cpus(plan(machine, job(4), {}, binding(env::Bind::numa)))[0] == "7");
}

TEST_CASE("ranks without GPUs share the nodes around their cores where that is asked") {
    CHECK(cpus(plan(host(4, 4, false), job(8), {}, binding(env::Bind::numa))) ==
          std::vector<std::string>{"0-3", "0-3", "4-7", "4-7", "8-11", "8-11", "12-15", "12-15"});
    CHECK(cpus(plan(host(2, 4, false), job(1), {}, binding(env::Bind::numa))) ==
          std::vector<std::string>{""});
}

TEST_CASE("ranks that share GPUs on purpose go round them") {
    Machine machine = host(2, 16, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    CHECK_FALSE(plan(machine, job(4)).ranks[3].gpu);
    for (const auto& [name, value] :
         {std::pair("CUDA_MPS_PIPE_DIRECTORY", "/tmp/mps"), {"NCCL_MULTI_RANK_GPU_ENABLE", "1"}}) {
        const auto made = plan(machine, job(4), user({{name, value}}));
        CHECK(made.ranks[2].gpu == 0);
        CHECK(cpus(made) == std::vector<std::string>{"0-7", "16-23", "8-15", "24-31"});
    }
}

TEST_CASE("CPUs that the user names for threads are respected") {
    const auto binds = [](const char* name, const char* value) {
        return plan(hgx_h100(), job(8), user({{name, value}})).binds;
    };
    CHECK_FALSE(binds("GOMP_CPU_AFFINITY", "0-7"));
    CHECK_FALSE(binds("OMP_PLACES", "{0:4},{4:4}"));
    CHECK_FALSE(binds("KMP_AFFINITY", "explicit,proclist=[0-3]"));
    CHECK(binds("GOMP_CPU_AFFINITY", ""));
    CHECK(binds("OMP_PLACES", "cores"));  // within the mask of each rank
    CHECK(binds("KMP_AFFINITY", "granularity=fine,compact,1,0"));
}

}  // namespace
