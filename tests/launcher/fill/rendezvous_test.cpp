// The address and the port where ranks meet.
#include "launcher/fill/rendezvous.hpp"

#include <doctest/doctest.h>

#include "steps.hpp"

namespace toporun::launcher {
namespace {

using namespace toporun::tests;

Gaps two_nodes(int node) {
    Gaps gaps;
    gaps.gap = Gap::rendezvous;
    gaps.nodes = 2;
    gaps.tasks = 2;
    gaps.node = gaps.task = node;
    gaps.first_node = node == 0;
    gaps.first_host = "n1";
    return gaps;
}

TEST_CASE("which of the first node's addresses") {
    struct Row {
        std::string name;
        std::vector<std::string> addresses;
        std::string wanted;
        bool certain = true;
    };
    const std::vector<Row> rows = {
        {"one", {"10.0.0.1"}, "10.0.0.1"},
        {"several: the network of the first interface",
         {"192.0.2.1", "10.1.0.1", "10.0.0.1"},
         "10.0.0.1"},
        {"several: a network of this node", {"192.0.2.1", "10.1.0.1"}, "10.1.0.1"},
        {"behind a router", {"192.0.2.1"}, "192.0.2.1"},
        {"not the bridge's network", {"172.17.0.9", "10.0.0.1"}, "10.0.0.1"},
        {"Debian's line for the own name", {"127.0.1.1", "10.0.0.1"}, "10.0.0.1"},
        {"nothing but that", {"127.0.1.1"}, "n1", false},
        {"link-local", {"fe80::1"}, "n1", false},
        {"IPv6", {"2001:db8::1"}, "2001:db8::1"},
        {"does not resolve", {}, "n1", false},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        RendezvousFacts facts;
        facts.addresses = row.addresses;
        const Rendezvous rendezvous =
            choose_rendezvous(two_nodes(1), facts, {}, node_with_interfaces(2), {});
        CHECK(rendezvous.address == row.wanted);
        CHECK(rendezvous.certain == row.certain);
        CHECK_FALSE(rendezvous.reason.empty());
    }
    RendezvousFacts one_machine;  // virtual nodes
    one_machine.addresses = {"127.0.0.1"};
    one_machine.from_slurm = true;
    const Rendezvous rendezvous =
        choose_rendezvous(two_nodes(1), one_machine, {}, node_with_interfaces(2), {});
    CHECK(rendezvous.address == "127.0.0.1");
    CHECK(rendezvous.certain);
}

TEST_CASE("the chosen interface's address on the first node") {
    const auto address = [](const env::Plan& plan, const detect::Machine& machine) {
        return choose_rendezvous(two_nodes(0), {}, {}, machine, plan).address;
    };
    env::Plan plan;
    CHECK(address(plan, node_with_interfaces(1)) == "10.0.0.1");
    plan.interfaces = {"ib0", "eth0"};
    CHECK(address(plan, node_with_interfaces(1)) == "10.1.0.1");
    plan.settings.emplace_back();
    plan.settings.back().name = "NCCL_SOCKET_IFNAME";
    plan.settings.back().value = "=eth0";
    CHECK(address(plan, node_with_interfaces(1)) == "10.0.0.1");
    plan.settings.back().value = "docker0";  // somebody's choice that reaches no other node
    CHECK(address(plan, node_with_interfaces(1)) == "10.1.0.1");
    detect::Machine lonely = node_with_interfaces(1);
    lonely.nics.resize(2);
    CHECK(address({}, lonely) == "n1");
    detect::Machine v6 = node_with_interfaces(1);
    v6.nics[2].addresses = {"2001:db8::7/64", "fe80::1/64"};
    v6.nics.resize(3);
    CHECK(address({}, v6) == "2001:db8::7");
}

TEST_CASE("the port follows from the job, and is free where one toporun decides for all") {
    Gaps gaps;
    gaps.by_shim = true;
    RendezvousFacts facts;
    const Environment job = {{"SLURM_JOB_ID", "4711"}, {"SLURM_STEP_ID", "2"}};
    const auto port = [&](const Environment& environment) {
        return choose_rendezvous(gaps, facts, environment, {}, {}).port;
    };
    CHECK(port(job) == 23378);
    facts.listening = {23378, 23379};
    CHECK(port(job) == 23380);
    CHECK(port({{"MASTER_PORT", "1234"}, {"SLURM_JOB_ID", "4711"}}) == 1234);
    gaps.by_shim = false;
    CHECK(port(job) == 23378);
    for (const char* id :
         {"0", "1", "8999", "9000", "4294967295", "9223372036854775807", "-5", "x"})
        for (const char* step : {"0", "17", "4294967290", ""}) {
            CAPTURE(id);
            CAPTURE(step);
            const int one = job_port({{"SLURM_JOB_ID", id}, {"SLURM_STEP_ID", step}}, 77);
            CHECK(one >= 20000);
            CHECK(one < 29000);
        }
    CHECK(job_port({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "0"}}, 0) !=
          job_port({{"SLURM_JOB_ID", "7"}, {"SLURM_STEP_ID", "1"}}, 0));
}

TEST_CASE("what the system's texts tell") {
    const std::string tcp =
        "  sl  local_address rem_address   st tx_queue rx_queue tr tm->when retrnsmt\n"
        "   0: 0100007F:1F90 00000000:0000 0A 00000000:00000000 00:00000000 00000000\n"
        "   1: 0100007F:0016 0100007F:C350 01 00000000:00000000 00:00000000 00000000\n"
        "   2: 00000000000000000000000000000000:0BB8 0000:0000 0A 0\n"
        "   3: 0100007F:XYZW 00000000:0000 0A 0\n"
        "   4: 0100007F:1 00000000:0000 0A 0\n";
    CHECK(listening_ports(tcp) == std::set<int>{8080, 3000});
    CHECK(listening_ports("").empty());
    CHECK(ahosts_addresses("10.0.0.1        STREAM n1\n10.0.0.1        DGRAM\nfe80::1%2 RAW\n"
                           "::1 STREAM\nn1\n") ==
          std::vector<std::string>{"10.0.0.1", "fe80::1", "::1"});
    CHECK(node_address("NodeName=n1 Arch=x86_64 NodeAddr=10.0.0.9 NodeHostName=h\n") == "10.0.0.9");
    CHECK(node_address("NodeName=n1 NodeAddr=n1 NodeHostName=h") == "");
    CHECK(node_address("") == "");
    const std::string aliases = "n1:10.0.0.7:h1,n10:10.0.0.8:h2,n2:[2001:db8::2]:h3,n3:name:h";
    CHECK(alias_address(aliases, "n1") == "10.0.0.7");
    CHECK(alias_address(aliases, "n10") == "10.0.0.8");
    CHECK(alias_address(aliases, "n2") == "2001:db8::2");
    CHECK(alias_address(aliases, "n3") == "");
    CHECK(alias_address(aliases, "n") == "");
    CHECK(alias_address("", "n1") == "");
}

}  // namespace
}  // namespace toporun::launcher
