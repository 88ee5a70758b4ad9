#include <doctest/doctest.h>

#include <algorithm>

#include "facts.hpp"
#include "launcher/report/judge.hpp"

using namespace toporun::launcher;
using namespace toporun::tests;
using toporun::detect::nccl_log::Transport;
using toporun::env::Finding;
using toporun::env::Severity;

namespace {

const Finding* find(const std::vector<Finding>& findings, const std::string& id) {
    const auto same = [&](const Finding& finding) { return finding.id == id; };
    const auto found = std::find_if(findings.begin(), findings.end(), same);
    return found == findings.end() ? nullptr : &*found;
}

}  // namespace

TEST_CASE("a run that went as planned has no differences") {
    CHECK(differences(eight_gpu_run()).empty());
    CHECK(differences(ring_run()).empty());
    CHECK(differences(plain_run()).empty());
}

TEST_CASE("pairs that lost P2P are counted with what NCCL saw") {
    RunFacts facts = eight_gpu_run();
    facts.log.transports[2].transport = Transport::shm;  // 2 -> 3
    facts.log.transports[3].transport = Transport::shm;  // 3 -> 4
    facts.log.variables = {{"NCCL_P2P_LEVEL", {"NVL"}}, {"NCCL_P2P_DISABLE", {"1"}}};
    const std::vector<Finding> found = differences(facts);
    const Finding* finding = find(found, "p2p-not-used");
    REQUIRE(finding != nullptr);
    CHECK(finding->severity == Severity::slow);
    CHECK(finding->what ==
          "P2P was expected between GPU 2 and GPU 3 and 1 more pairs, NCCL used SHM");
    CHECK(finding->evidence == "NCCL saw NCCL_P2P_DISABLE=1");
    CHECK(next_steps(facts)[0].starts_with("run once without NCCL_P2P_DISABLE"));

    facts.log.variables.clear();
    CHECK(find(differences(facts), "p2p-not-used")->evidence ==
          "the cause is not visible in NCCL's log");
}

TEST_CASE("ranks are matched to GPUs by bus id and not by number") {
    RunFacts facts = eight_gpu_run();
    std::swap(facts.log.ranks[0].pci, facts.log.ranks[7].pci);
    facts.log.transports = {{7, 1, Transport::shm, "", false}};
    const std::vector<Finding> found = differences(facts);
    REQUIRE(find(found, "p2p-not-used") != nullptr);
    CHECK(find(found, "p2p-not-used")->what ==
          "P2P was expected between GPU 0 and GPU 1, NCCL used SHM");
}

TEST_CASE("another transport than expected but no slower one is a note") {
    RunFacts facts = eight_gpu_run();
    for (toporun::env::Pair& pair : facts.plan.pairs) pair.transport = "SHM";
    const std::vector<Finding> found = differences(facts);
    REQUIRE(find(found, "transport-differs") != nullptr);
    CHECK(find(found, "transport-differs")->severity == Severity::note);
}

TEST_CASE("ranks of other nodes are not compared with this machine") {
    RunFacts facts = eight_gpu_run();
    for (LogRank& rank : facts.log.ranks) rank.host = "node-b";
    for (LogTransport& row : facts.log.transports) row.transport = Transport::shm;
    CHECK(find(differences(facts), "p2p-not-used") == nullptr);
}

TEST_CASE("a bootstrap on another interface than chosen is said") {
    RunFacts facts = eight_gpu_run();
    facts.plan.settings[1].value = "=ens1";
    facts.plan.settings[1].exported = true;
    facts.log.variables.push_back({"NCCL_SOCKET_IFNAME", {"eth0"}});
    const std::vector<Finding> found = differences(facts);
    REQUIRE(find(found, "bootstrap-interface-differs") != nullptr);
    CHECK(find(found, "bootstrap-interface-differs")->what ==
          "NCCL_SOCKET_IFNAME==ens1 was set, the bootstrap used eth0");
    CHECK(find(found, "bootstrap-interface-differs")->evidence ==
          "NCCL saw NCCL_SOCKET_IFNAME=eth0");
    CHECK(find(found, "setting-overridden") == nullptr);
    facts.log.bootstrap_interfaces = {"ens1"};
    CHECK(find(differences(facts), "bootstrap-interface-differs") == nullptr);
}

TEST_CASE("interface lists are matched as NCCL does") {
    struct Row {
        std::string value;
        std::string name;
        bool allowed;
    };
    const std::vector<Row> rows = {
        {"eth", "eth0", true},       {"eth0", "eth01", true},   {"=eth0", "eth01", false},
        {"=eth0", "eth0", true},     {"eth,ib", "ib0", true},   {"^docker,lo", "eth0", true},
        {"^docker,lo", "lo", false}, {"^=lo", "lo1", true},     {"^=lo", "lo", false},
        {"", "eth0", true},          {"ens1,,", "eth0", false}, {"^", "eth0", true},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        CAPTURE(row.name);
        CHECK(interface_allowed(row.value, row.name) == row.allowed);
    }
}

TEST_CASE("a variable that did not arrive is said") {
    RunFacts facts = eight_gpu_run();
    facts.log.variables = {{"NCCL_P2P_LEVEL", {"NVL", "SYS"}}};
    const std::vector<Finding> found = differences(facts);
    REQUIRE(find(found, "setting-overridden") != nullptr);
    CHECK(find(found, "setting-overridden")->what ==
          "NCCL_P2P_LEVEL=NVL was exported, NCCL saw NVL and SYS");
}

TEST_CASE("versions that differ from what was found or among ranks are said") {
    RunFacts facts = eight_gpu_run();
    facts.log.versions = {"2.19.3"};
    REQUIRE(find(differences(facts), "nccl-version-differs") != nullptr);
    // The option alone is refused in front of a command that runs.
    CHECK(find(differences(facts), "nccl-version-differs")
              ->fix.starts_with("toporun --dry-run --nccl-version 2.19.3 "));
    facts.machine.software.nccl_version.reset();
    CHECK(find(differences(facts), "nccl-version-differs") == nullptr);
    facts.log.versions = {"2.28.9", "2.19.3"};
    REQUIRE(find(differences(facts), "nccl-versions-mixed") != nullptr);
    CHECK(find(differences(facts), "nccl-versions-mixed")->severity == Severity::broken);
    facts.log.versions_in_one = true;
    CHECK(find(differences(facts), "nccl-versions-mixed") == nullptr);
    CHECK(find(differences(facts), "nccl-versions-in-one-process") != nullptr);
}

TEST_CASE("TCP between nodes beside an adapter that is up is said") {
    RunFacts facts = eight_gpu_run();
    facts.log.node_count = 2;
    CHECK(find(differences(facts), "socket-despite-rdma") == nullptr);
    facts.machine.nics[0].rdma_device = "mlx5_0";
    CHECK(find(differences(facts), "socket-despite-rdma") != nullptr);
    facts.log.networks = {"IB"};
    CHECK(find(differences(facts), "socket-despite-rdma") == nullptr);
}

TEST_CASE("a plugin that was not loaded is said once and only then") {
    RunFacts facts = ring_run();
    facts.log.plugins.clear();
    CHECK(find(differences(facts), "profiler-not-loaded") == nullptr);  // it recorded, so it was
    facts.measured = {};
    CHECK(find(differences(facts), "profiler-not-loaded") != nullptr);
    facts.plan.takes_log = false;  // the user's own log may not have the lines
    CHECK(find(differences(facts), "profiler-not-loaded") == nullptr);
    facts.plan.takes_log = true;
    facts.plan.measures = false;
    CHECK(find(differences(facts), "profiler-not-loaded") == nullptr);
}
