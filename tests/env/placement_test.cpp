#include "env/placement.hpp"

#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

std::vector<std::string> cpus(const env::Plan& plan) {
    std::vector<std::string> out;
    for (const auto& rank : plan.ranks) out.push_back(rank.cpus.text());
    return out;
}

TEST_CASE("ranks share the cores near their GPUs, siblings together") {
    const auto made = plan(hgx_h100(), job(8));
    REQUIRE(made.binds);
    CHECK(made.bind_reason.empty());
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
    CHECK(cpus(plan(machine, job(4))) == std::vector<std::string>{"0-3", "4-6", "7-9", "10-12"});
}

TEST_CASE("a GPU's own list wins over its NUMA node and the mask over both") {
    Machine machine = host(2, 8, false);
    add_gpus(machine, 2, "NVIDIA L40S", PathType::SYS);
    machine.gpus[0].cpus = CpuSet({12, 13, 14, 15});  // against numa_node 0
    machine.cpu.allowed = CpuSet::parse("8-13");
    const auto made = plan(machine, job(2));
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
    CHECK(reason(hgx_h100(), job(8), how).find("--no-bind") != std::string::npos);
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

}  // namespace
