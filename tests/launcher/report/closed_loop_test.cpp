#include "launcher/report/closed_loop.hpp"

#include <doctest/doctest.h>

#include "facts.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;
using toporun::env::Finding;

namespace {

using Ids = std::vector<std::string>;

std::vector<Finding> findings_of(const RunFacts& facts) {
    std::vector<Finding> found;
    add_closed_loop(facts, found);
    return found;
}

Ids ids_of(const RunFacts& facts) {
    Ids ids;
    for (const Finding& finding : findings_of(facts)) ids.push_back(finding.id);
    return ids;
}

toporun::detect::Nic efa_adapter() {
    toporun::detect::Nic nic;
    nic.name = "rdmap16s27";
    nic.kind = toporun::detect::NicKind::efa;
    return nic;
}

}  // namespace

TEST_CASE("a run that went as planned closes the loop without a finding") {
    CHECK(ids_of(eight_gpu_run()).empty());
    CHECK(ids_of(ring_run()).empty());
    CHECK(ids_of(plain_run()).empty());
}

TEST_CASE("the node whose adapters differ from the others' is named") {
    RunFacts facts = eight_gpu_run();
    auto& adapters = facts.log.setup.fabric.adapters;
    adapters = {{"node-a", {"mlx5_0:1/IB", "mlx5_1:1/IB"}},
                {"node-b", {"mlx5_1:1/IB", "mlx5_0:1/IB"}},
                {"node-c", {"mlx5_0:1/IB", "mlx5_2:1/RoCE"}}};
    const std::vector<Finding> found = findings_of(facts);
    REQUIRE(found.size() == 1);
    CHECK(found[0].id == "adapter-sets-differ");
    CHECK(found[0].what == "1 of 3 nodes uses other RDMA ports than the rest");
    CHECK(found[0].evidence == "node-c: without mlx5_1:1/IB with mlx5_2:1/RoCE");
    CHECK(found[0].effect == toporun::launcher::kAdaptersDifferEffect);
    CHECK(found[0].fix == toporun::launcher::kAdaptersDifferFix);
    adapters.erase("node-c");  // another order is no difference
    CHECK(ids_of(facts).empty());
}

TEST_CASE("TCP beside EFA adapters is told, with the plugin that is missing") {
    RunFacts facts = eight_gpu_run();
    facts.machine.nics = {efa_adapter()};
    facts.log.node_count = 2;
    facts.log.networks = {"Socket"};
    CHECK(ids_of(facts) == Ids{"efa-not-used"});
    CHECK(findings_of(facts)[0].evidence == "Using network Socket; no network plugin was loaded");
    facts.log.node_count = 1;
    facts.log.nodes.resize(1);
    CHECK(ids_of(facts).empty());
    facts.log.node_count = 2;
    facts.log.networks = {"AWS Libfabric"};
    CHECK(ids_of(facts).empty());
}

TEST_CASE("a limit of channels that is reached is named") {
    RunFacts facts = eight_gpu_run();
    facts.log.setup.channels = toporun::detect::nccl_log::ChannelCounts{4, 4, 0, 8, 2};
    CHECK(ids_of(facts).empty());
    facts.log.variables.push_back({"NCCL_MAX_NCHANNELS", {"4"}});
    CHECK(ids_of(facts) == Ids{"channels-limited"});
    facts.log.variables.back().values = {"32"};
    CHECK(ids_of(facts).empty());
}

TEST_CASE("CPUs of a rank that are not near its GPU, or not those that it was given") {
    RunFacts facts = eight_gpu_run();
    facts.log.setup.affinity = {{"node-b", 0, "", "16-23", "0-1"},
                                {"node-b", 1, "", "16-23", "0-1"}};
    CHECK(ids_of(facts) == Ids{"gpu-cpus-outside-mask"});
    CHECK(findings_of(facts)[0].what == "2 ranks may use no CPU near the GPU");

    facts.log.ranks = {{0, "node-a", 4711, "", 0, true}};
    facts.log.setup.affinity = {{"node-a", 0, "0-7", "0-31", "0-7"}};
    RankRecord record;
    record.rank = 0;
    record.pid = 4711;
    record.host = "node-a";
    record.bind = "bound";
    record.cpus = toporun::detect::CpuSet({0, 1, 2, 3, 4, 5, 6, 7});
    facts.ranks = {record};
    CHECK(ids_of(facts).empty());
    facts.ranks[0].cpus = toporun::detect::CpuSet({8, 9});
    CHECK(findings_of(facts)[0].what ==
          "rank 0 was started on CPUs 8-9 and used 0-7 when NCCL began");
    facts.ranks[0].bind = "narrowed";
    CHECK(ids_of(facts).empty());
}

TEST_CASE("a variable that NCCL reads in every such run and does not mention") {
    RunFacts facts = eight_gpu_run();
    const auto& settings = facts.plan.settings;
    const bool exported =
        std::any_of(settings.begin(), settings.end(), [](const toporun::env::Setting& setting) {
            return setting.name == "NCCL_P2P_LEVEL" && setting.exported;
        });
    REQUIRE(exported);
    facts.log.variables = {{"NCCL_DEBUG", {"INFO"}}};
    CHECK(ids_of(facts) == Ids{"setting-not-read"});
    facts.log.variables.push_back({"NCCL_P2P_LEVEL", {"NVL"}});
    CHECK(ids_of(facts).empty());
    facts.log.variables.clear();  // the log may be without the subsystem ENV
    CHECK(ids_of(facts).empty());
}
