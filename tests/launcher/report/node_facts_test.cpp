#include "launcher/report/node_facts.hpp"

#include <doctest/doctest.h>
#include <fmt/format.h>

#include "facts.hpp"
#include "launcher/report/closed_loop.hpp"

namespace toporun::launcher {
namespace {

using tests::eight_gpu_run;

JobPlace at(int node) {
    JobPlace place;
    place.job = "1.0";
    place.node = node;
    place.nodes = 4;
    place.name = fmt::format("n{}", node);
    return place;
}

RunFacts run() {
    RunFacts facts = eight_gpu_run();
    facts.machine.software.driver = "570.86.15";
    facts.machine.software.nccl_version = "2.28.9";
    facts.plan.interfaces = {"eth0"};
    return facts;
}

std::vector<env::Finding> compared(const std::vector<RunFacts>& runs) {
    std::vector<NodeHead> heads;
    std::vector<NodeFacts> facts;
    for (std::size_t i = 0; i < runs.size(); ++i) {
        facts.push_back(node_facts(runs[i], at(static_cast<int>(i))));
        heads.push_back(facts.back().head);
    }
    return node_differences(group_nodes(heads, facts));
}

TEST_CASE("equal nodes have equal facts but for their names") {
    const NodeFacts a = node_facts(run(), at(0));
    const NodeFacts b = node_facts(run(), at(3));
    CHECK(a.lines == b.lines);
    CHECK(a.head.hash == b.head.hash);
    CHECK(b.head.node == 3);
    CHECK(b.head.name == "n3");
    RunFacts other = run();
    other.machine.hostname = "elsewhere";
    for (env::Setting& setting : other.plan.settings)
        if (setting.name == "NCCL_DEBUG_FILE") setting.value = "/tmp/other/nccl.log";
    env::Setting place;  // a node's own place in the job
    place.name = "PET_NODE_RANK";
    place.value = "1";
    place.exported = true;
    other.plan.settings.push_back(place);
    CHECK(node_facts(other, at(1)).head.hash == a.head.hash);
    CHECK(compared({run(), other, run()}).empty());
    CHECK(compared({}).empty());
}

TEST_CASE("facts keep their text") {
    RunFacts facts = run();
    facts.machine.software.driver = "570\n\033[31m 86";
    const NodeFacts written = node_facts(facts, at(2));
    const std::string text = node_facts_text(written);
    CHECK(text.find('\033') == text.npos);
    CHECK(parse_node_facts(text) == written);
    CHECK(parse_node_head(text) == written.head);
    CHECK(parse_node_head(text.substr(0, kMostHeadBytes)) == written.head);
    CHECK(text.find('\n') < kMostHeadBytes);
}

TEST_CASE("a damaged file is no facts") {
    const std::string text = node_facts_text(node_facts(run(), at(2)));
    for (std::size_t length = 0; length < text.size(); ++length)
        CHECK_FALSE(parse_node_facts(text.substr(0, length)));
    std::string changed = text;
    changed[text.size() - 3] ^= 1;
    CHECK_FALSE(parse_node_facts(changed));
    for (const char* head :
         {"", "toporun-node 1 ", "toporun-node 1 12 3\n", "toporun-node 1 xy 3 a\n",
          "toporun-node 1 12 -3 a\n", "toporun-node 2 12 3 a\n", "toporun-node 1 12 3 a"}) {
        CAPTURE(head);
        CHECK_FALSE(parse_node_head(head));
    }
    CHECK(parse_node_head("toporun-node 1 12 3 a\n")->hash == 0x12);
}

TEST_CASE("what differs is named with its nodes") {
    struct Row {
        std::string name;
        void (*change)(RunFacts&);
        std::string id;
        std::string what;
    };
    const std::vector<Row> rows = {
        {"NCCL", [](RunFacts& facts) { facts.machine.software.nccl_version = "2.27.5"; },
         "nodes-differ-nccl", "nodes differ in NCCL's version: 2.28.9 on n0, n1, n3; 2.27.5 on n2"},
        {"driver", [](RunFacts& facts) { facts.machine.software.driver = "535.1"; },
         "nodes-differ-driver",
         "nodes differ in the NVIDIA driver: 570.86.15 on n0, n1, n3; 535.1 on n2"},
        {"a GPU less", [](RunFacts& facts) { facts.machine.gpus.pop_back(); }, "nodes-differ-gpus",
         "nodes differ in the GPUs: 8 x NVIDIA H100 80GB HBM3 on n0, n1, n3; 7 x NVIDIA H100 "
         "80GB HBM3 on n2"},
        {"no GPU", [](RunFacts& facts) { facts.machine.gpus.clear(); }, "nodes-differ-gpus",
         "nodes differ in the GPUs: 8 x NVIDIA H100 80GB HBM3 on n0, n1, n3; none on n2"},
        {"interface",
         [](RunFacts& facts) {
             facts.plan.interfaces = {"ib0", "ib1"};
         },
         "nodes-differ-interfaces",
         "nodes differ in the network interfaces that NCCL takes: eth0 on n0, n1, n3; ib0, "
         "ib1 on n2"},
        {"MTU", [](RunFacts& facts) { facts.machine.nics.front().mtu = 9000; }, "nodes-differ-mtu",
         "nodes differ in the MTU: eth0 1500 on n0, n1, n3; eth0 9000 on n2"},
        {"adapter",
         [](RunFacts& facts) {
             facts.machine.nics.front().rdma_device = "mlx5_0";
             facts.machine.nics.front().port = 1;
         },
         "nodes-differ-hcas",
         "nodes differ in the RDMA devices: none on n0, n1, n3; 1 x RoCE (mlx5_0:1) on n2"},
        {"a setting",
         [](RunFacts& facts) {
             env::Setting setting;
             setting.name = "NCCL_CROSS_NIC";
             setting.value = "0";
             setting.exported = true;
             facts.plan.settings.push_back(setting);
         },
         "nodes-differ-plan",
         "nodes differ in what toporun chose: NCCL_CROSS_NIC: 0 on n2; not set on 3"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        RunFacts changed = run();
        row.change(changed);
        const auto found = compared({run(), run(), changed, run()});
        REQUIRE(found.size() == 1);
        CHECK(found.front().id == row.id);
        CHECK(found.front().what == row.what);
        CHECK(found.front().evidence == "what 4 nodes found before the start");
        CHECK_FALSE(found.front().effect.empty());
        CHECK_FALSE(found.front().fix.empty());
    }
}

TEST_CASE("the number of RDMA ports and what their links speak are compared") {
    const auto with_ports = [](std::initializer_list<detect::NicKind> kinds) {
        RunFacts facts = run();
        for (const detect::NicKind kind : kinds) {
            detect::Nic nic;
            nic.rdma_device = nic.name = fmt::format("mlx5_{}", facts.machine.nics.size());
            nic.kind = kind;
            nic.port = 1;
            nic.port_state = "active";
            facts.machine.nics.push_back(nic);
        }
        return facts;
    };
    using enum detect::NicKind;
    const auto found = compared({with_ports({infiniband, infiniband, roce}),
                                 with_ports({infiniband, infiniband, roce}),
                                 with_ports({infiniband, infiniband, infiniband}),
                                 with_ports({infiniband, ipoib}), with_ports({efa})});
    REQUIRE(found.size() == 1);
    const std::size_t before = run().machine.nics.size();
    const auto name = [&](std::size_t i) { return fmt::format("mlx5_{}:1", before + i); };
    const std::string two = name(0) + " " + name(1);
    CHECK(found.front().what ==
          fmt::format("nodes differ in the RDMA devices: 2 x InfiniBand ({0}), 1 x RoCE ({1}) on "
                      "n0, n1; 3 x InfiniBand ({0} {1}) on n2; 2 x InfiniBand ({0}) on n3; 1 x EFA "
                      "({2}) on n4",
                      two, name(2), name(0)));
}

TEST_CASE("names of RDMA devices cost bandwidth at most") {
    RunFacts other = run();
    other.machine.nics.front().rdma_device = "ibp24s0";
    other.machine.nics.front().port = 1;
    const auto found = compared({run(), other});
    REQUIRE(found.size() == 1);
    CHECK(found.front().id == "nodes-differ-hcas");
    CHECK(found.front().severity == env::Severity::slow);
    CHECK(found.front().effect == kAdaptersDifferEffect);  // the words of NCCL's log's finding
    CHECK(found.front().fix == kAdaptersDifferFix);
}

TEST_CASE("what a node does not know is no difference") {
    RunFacts changed = run();
    changed.machine.software.nccl_version.reset();
    changed.machine.software.driver.reset();
    changed.machine.nics_known = changed.machine.gpus_known = false;
    changed.machine.nics.clear();
    changed.machine.gpus.clear();
    changed.plan.interfaces.clear();
    CHECK(compared({run(), changed}).empty());
}

TEST_CASE("the host of a launcher that has no rank may be another kind of machine") {
    RunFacts launching = run();
    launching.job.other_hosts = true;
    launching.machine.hostname = "login.example.org";
    launching.machine.software.driver = "550.1";
    launching.machine.gpus.clear();
    launching.job.hosts = {"node-b", "node-c"};
    CHECK(compared({launching, run(), run()}).empty());
    for (const char* name : {"login", "login.example.org", "localhost", "127.0.0.1"}) {
        CAPTURE(name);
        launching.job.hosts = {"node-b", name};
        CHECK(compared({launching, run(), run()}).size() > 1);
    }
}

TEST_CASE("the most harmful difference comes first, and the MTU of other ports is none") {
    RunFacts changed = run();
    changed.machine.software.nccl_version = "2.27.5";
    changed.machine.software.driver = "535.1";
    changed.machine.nics.front().name = "ens3";
    changed.plan.interfaces = {"ens3"};
    std::vector<std::string> ids;
    for (const env::Finding& finding : compared({changed, run()})) ids.push_back(finding.id);
    CHECK(ids == std::vector<std::string>{"nodes-differ-nccl", "nodes-differ-interfaces",
                                          "nodes-differ-driver"});
}

TEST_CASE("of a thousand nodes one file of each kind is read whole") {
    RunFacts old = run();
    old.machine.software.driver = "535.1";
    RunFacts other = run();
    other.machine.software.driver = "550.1";
    std::vector<NodeHead> heads;
    std::vector<NodeFacts> all;
    for (int node = 0; node < 1000; ++node) {
        const bool is_old = node % 100 == 7;
        all.push_back(node_facts(node == 999 ? other : is_old ? old : run(), at(node)));
        heads.push_back(all.back().head);
    }
    const auto positions = representatives(heads);
    CHECK(positions == std::vector<std::size_t>{0, 7, 999});
    std::vector<NodeFacts> read;
    for (const std::size_t position : positions) read.push_back(all[position]);
    const auto found = node_differences(group_nodes(heads, read));
    REQUIRE(found.size() == 1);
    CHECK(found.front().what ==
          "nodes differ in the NVIDIA driver: 570.86.15 on 989 nodes; 535.1 on n7, n107, "
          "n207, n307 and 6 more; 550.1 on n999");
    CHECK(found.front().evidence == "what 1000 nodes found before the start");
    const auto whole = node_differences(group_nodes(heads, all));
    REQUIRE(whole.size() == 1);
    CHECK(whole.front().what == found.front().what);
}

TEST_CASE("a thousand different nodes make short lines") {
    std::vector<RunFacts> runs;
    for (int node = 0; node < 1000; ++node) {
        runs.push_back(run());
        runs.back().machine.software.driver = fmt::format("500.{}", node);
    }
    const auto found = compared(runs);
    REQUIRE(found.size() == 1);
    CHECK(found.front().what ==
          "nodes differ in the NVIDIA driver: 500.0 on n0; 500.1 on "
          "n1; 500.2 on n2; 500.3 on n3; 996 more values");
}

TEST_CASE("a node counts once, and one that was not read not at all") {
    const NodeFacts a = node_facts(run(), at(0));
    RunFacts changed = run();
    changed.machine.software.driver = "535.1";
    const NodeFacts b = node_facts(changed, at(1));
    const std::vector<NodeHead> heads = {a.head, a.head, b.head};
    const auto groups = group_nodes(heads, std::vector<NodeFacts>{a});
    REQUIRE(groups.size() == 1);
    CHECK(groups.front().nodes.size() == 1);
}

}  // namespace
}  // namespace toporun::launcher
