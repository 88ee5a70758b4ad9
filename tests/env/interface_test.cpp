#include "env/interface_model.hpp"

#include <string>
#include <vector>

#include "env/interface.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

std::vector<std::string> names(const Machine& machine, const std::vector<int>& positions) {
    std::vector<std::string> out;
    for (const int position : positions)
        out.push_back(machine.nics[static_cast<std::size_t>(position)].name);
    return out;
}

Machine with(std::vector<toporun::detect::Nic> nics) {
    Machine machine = host(1, 8);
    add_nics(machine, std::move(nics));
    return machine;
}

const auto kEth0 = nic("eth0", NicKind::ethernet, {"10.0.0.1/24"});
const auto kEth1 = nic("eth1", NicKind::ethernet, {"10.1.0.1/24"});
const auto kDocker = nic("docker0", NicKind::bridge, {"172.17.0.1/16"});
const auto kVirbr = nic("virbr0", NicKind::bridge, {"192.168.122.1/24"});
const auto kIb0 = nic("ib0", NicKind::ipoib, {"10.9.0.1/24"});
const auto kDown = nic("ens1", NicKind::ethernet, {"10.2.0.1/24"}, "down");
const auto kV6Only = nic("aaa0", NicKind::ethernet, {"fd00::1/64"});
const auto kLinkLocal = nic("veth1", NicKind::veth, {"fe80::1/64"});
const auto kNoAddress = nic("ens9", NicKind::ethernet, {});

TEST_CASE("the automatic search follows NCCL's steps and order") {
    struct Row {
        std::string name;
        Machine machine;
        env::SearchContext context;
        std::vector<std::string> picked;
    };
    const std::vector<Row> rows = {
        {"ib first", with({kEth0, kIb0}), {22809, "", ""}, {"ib0"}},
        {"all but docker and lo", with({kDocker, kEth0, kEth1}), {22809, "", ""}, {"eth0", "eth1"}},
        {"virbr is skipped since 2.28.3", with({kVirbr, kEth0}), {22803, "", ""}, {"eth0"}},
        {"virbr was taken before", with({kVirbr, kEth0}), {22707, "", ""}, {"virbr0", "eth0"}},
        {"docker before lo", with({kDocker}), {22809, "", ""}, {"docker0"}},
        {"lo", with({}), {22809, "", ""}, {"lo"}},
        {"down is skipped since 2.28.3", with({kDown, kEth0}), {22809, "", ""}, {"eth0"}},
        {"down was taken before", with({kDown, kEth0}), {22707, "", ""}, {"ens1", "eth0"}},
        {"IPv4 before IPv6", with({kV6Only, kEth0}), {22809, "", ""}, {"eth0", "aaa0"}},
        {"family 4", with({kV6Only, kEth0}), {22809, "AF_INET", ""}, {"eth0"}},
        {"family 6", with({kV6Only, kEth0}), {22809, "AF_INET6", ""}, {"aaa0"}},
        {"family misspelt", with({kV6Only, kEth0}), {22809, "AF_INET4", ""}, {"eth0", "aaa0"}},
        {"link-local is not rejected",
         with({kEth0, kLinkLocal}),
         {22809, "", ""},
         {"eth0", "veth1"}},
        {"no address", with({kNoAddress, kEth0}), {22809, "", ""}, {"eth0"}},
        {"subnet of NCCL_COMM_ID", with({kEth0, kEth1}), {22809, "", "10.1.0.77:4000"}, {"eth1"}},
        {"unknown version is the newest", with({kDown, kVirbr, kEth0}), {{}, "", ""}, {"eth0"}},
        {"nothing", Machine{}, {22809, "", ""}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CHECK(names(row.machine, env::automatic_search(row.machine, row.context)) == row.picked);
    }
}

TEST_CASE("the search stops at sixteen interfaces") {
    std::vector<toporun::detect::Nic> many;
    for (int i = 0; i < 40; ++i)
        many.push_back(nic("eth" + std::to_string(i), NicKind::ethernet,
                           {"10.0." + std::to_string(i) + ".1/24"}));
    const Machine machine = with(many);
    CHECK(env::automatic_search(machine, {22809, "", ""}).size() == 16);
}

TEST_CASE("a list selects what NCCL's grammar says") {
    // The rows with eth0, ens1f0 and docker0 are the runs 2x4-net-ifname-* of the rig
    // (NCCL 2.28.9).
    const Machine machine = with({kEth0, nic("ens1f0", NicKind::ethernet, {"10.77.2.1/24"}),
                                  kDocker, nic("eth0.5", NicKind::vlan, {"10.5.0.1/24"})});
    struct Row {
        std::string value;
        std::vector<std::string> picked;
    };
    const std::vector<Row> rows = {
        {"eth0", {"eth0", "eth0.5"}},
        {"=eth0", {"eth0"}},
        {"eth,ens", {"eth0", "ens1f0", "eth0.5"}},
        {"ens,eth", {"eth0", "ens1f0", "eth0.5"}},
        {"=ens1f0", {"ens1f0"}},
        {"^docker,lo", {"eth0", "ens1f0", "eth0.5"}},
        {"^eth", {"lo", "ens1f0", "docker0"}},
        {"^=eth0", {"lo", "ens1f0", "docker0", "eth0.5"}},
        {"eth0:1", {"eth0", "eth0.5"}},
        {"eth9, ens1f0", {}},
        {"=eth", {}},
        {"eth0,,ens", {"eth0", "ens1f0", "eth0.5"}},
        {"^=", {}},
        {"^,", {}},
        {",,", {"lo", "eth0", "ens1f0", "docker0", "eth0.5"}},
        {"eth0.5-and-more-than-fifteen", {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        const env::IfnameList list = env::parse_ifname(row.value);
        CHECK_FALSE(list.ignored);
        CHECK(names(machine, env::listed_search(machine, {22809, "", ""}, list)) == row.picked);
    }
    CHECK(env::parse_ifname("").ignored);
    CHECK(env::parse_ifname("e").ignored);
}

TEST_CASE("addresses and endpoints are read with care") {
    CHECK(env::parse_ip("10.0.0.1/24")->prefix == 24);
    CHECK(env::parse_ip("fe80::1%eth0")->v6);
    CHECK(env::link_local(*env::parse_ip("fe80::1/64")));
    CHECK(env::link_local(*env::parse_ip("169.254.3.4/16")));
    CHECK(env::loopback(*env::parse_ip("::1/128")));
    for (const char* bad : {"", "10.0.0", "10.0.0.1/33", "10.0.0.1/-1", "10.0.0.1/x", "::1/129",
                            "node-a", "999.0.0.1", "10.0.0.1/"})
        CHECK_FALSE(env::parse_ip(bad));
    CHECK(env::same_subnet(*env::parse_ip("10.0.0.1/24"), *env::parse_ip("10.0.0.99")));
    CHECK_FALSE(env::same_subnet(*env::parse_ip("10.0.0.1/25"), *env::parse_ip("10.0.0.129")));
    CHECK_FALSE(env::same_subnet(*env::parse_ip("10.0.0.1/0"), *env::parse_ip("fd00::1")));
    CHECK(env::host_of("10.0.0.1:29500") == "10.0.0.1");
    CHECK(env::host_of("[fd00::1]:29500") == "fd00::1");
    CHECK(env::host_of("fd00::1") == "fd00::1");
    CHECK(env::host_of("node-a:1") == "node-a");
    CHECK(env::host_of("[fd00") == "fd00");
    CHECK(env::host_of("") == "");
}

struct Choice {
    std::string name;
    Machine machine;
    env::Job job;
    std::optional<std::string> value;
};

env::Job two_nodes(const std::string& rendezvous = "") {
    env::Job made = job(4, 2);
    made.rendezvous = rendezvous;
    return made;
}

toporun::detect::Nic speed(toporun::detect::Nic made, double gbits, bool default_route = false) {
    made.speed_gbits = gbits;
    made.default_route = default_route;
    return made;
}

TEST_CASE("on several nodes a bad pick is replaced by the interface that reaches them") {
    const auto bond = nic("bond0", NicKind::bond, {"10.73.0.9/29"});
    const auto warp = nic("CloudflareWARP", NicKind::tunnel, {"172.16.0.2/32"});
    const auto rail = [](int i) {
        return nic("enp" + std::to_string(i), NicKind::ethernet,
                   {"10.99." + std::to_string(i) + ".59/31"});
    };
    const auto bridge = nic("br-0a1b", NicKind::other, {"172.18.0.1/16"});
    auto rdma_rail = speed(rail(1), 400);
    rdma_rail.rdma_device = "mlx5_0";
    const std::vector<Choice> rows = {
        {"a clean pick", with({kEth0}), two_nodes(), {}},
        {"a clean pick of two", with({kEth0, kEth1}), two_nodes(), {}},
        {"docker is no part of it", with({kDocker, kEth0}), two_nodes(), {}},
        {"veth with link-local only", with({kEth0, kLinkLocal}), two_nodes(), "eth0"},
        {"VPN beside it", with({kEth0, warp}), two_nodes(), "eth0"},
        {"a bridge by name", with({bridge, kEth0}), two_nodes(), "eth0"},
        {"nothing but docker", with({kDocker}), two_nodes(), {}},
        {"two left and no evidence", with({kEth0, kEth1, warp}), two_nodes(), "=eth0,eth1"},
        {"the default route is no proof", with({kEth0, speed(kEth1, 10, true), warp}), two_nodes(),
         "=eth0,eth1"},
        {"it tells where the bootstrap goes when RDMA carries the data",
         with({rdma_rail, kEth0, speed(kEth1, 10, true), warp}), two_nodes(), "eth1"},
        {"four equal ports and a bridge", with({speed(kEth0, 10, true), speed(kEth1, 10), bridge}),
         two_nodes(), "=eth0,eth1"},
        {"a VPN that reaches the rendezvous", with({kEth0, warp}), two_nodes("172.16.0.2"), {}},
        {"a VPN that reaches the rendezvous, beside a bridge", with({bridge, kEth0, warp}),
         two_nodes("172.16.0.2:29500"), "CloudflareWARP"},
        {"a link-local cable that reaches the rendezvous",
         with({bridge, kEth0, nic("enp9s0", NicKind::ethernet, {"169.254.7.1/16"})}),
         two_nodes("169.254.7.2"), "enp9s0"},
        {"the rendezvous decides", with({kEth0, speed(kEth1, 10, true), warp}),
         two_nodes("10.0.0.7:29500"), "eth0"},
        {"twice as fast is not given up", with({speed(kEth0, 1, true), speed(kEth1, 100), warp}),
         two_nodes("10.0.0.7"), "eth1"},
        {"less than twice as fast is", with({speed(kEth0, 10, true), speed(kEth1, 19), warp}),
         two_nodes("10.0.0.7"), "eth0"},
        {"routed rails beside a bond", with({rail(1), rail(2), bond}), two_nodes(), "bond0"},
        {"rails alone", with({rail(1), rail(2)}), two_nodes(), {}},
        {"rails of known speed carry the data",
         with({speed(rail(1), 400), speed(bond, 25)}),
         two_nodes(),
         {}},
        {"rails with RDMA leave the bootstrap to the bond", with({rdma_rail, speed(bond, 25)}),
         two_nodes(), "bond0"},
        {"prefix of another",
         with({kEth0, nic("eth0.7", NicKind::vlan, {"fe80::7/64"}), kLinkLocal}), two_nodes(),
         "=eth0"},
    };
    for (const Choice& row : rows) {
        CAPTURE(row.name);
        const auto made = plan(row.machine, row.job);
        const auto choice = setting(made, "NCCL_SOCKET_IFNAME");
        CAPTURE(choice.reason);
        CHECK(exported(made, "NCCL_SOCKET_IFNAME") == row.value);
        CHECK_FALSE(choice.reason.empty());
        CHECK_FALSE(choice.nccl_default.empty());
    }
}

TEST_CASE("data never goes by the slow interface that happens to have the route") {
    const auto eth0 = speed(kEth0, 1, true);
    const auto ib0 = speed(kIb0, 100);
    const auto rdma = [](toporun::detect::Nic made) {
        made.rdma_device = "mlx5_0";
        made.port = 1;
        made.port_state = "active";
        return made;
    };
    const auto hsn0 = speed(nic("hsn0", NicKind::ethernet, {"10.9.0.1/24"}), 100);
    const auto ib1 = nic("ib1", NicKind::ipoib, {"fe80::9/64"});
    const std::vector<std::vector<toporun::detect::Nic>> hosts = {
        {eth0, ib0},
        {eth0, rdma(ib0)},
        {eth0, rdma(ib0), ib1},
        {eth0, ib0, ib1},
        {eth0, ib0, kDocker},
        {eth0, rdma(hsn0), kLinkLocal},
        {eth0, hsn0, kLinkLocal},
    };
    for (std::size_t i = 0; i < hosts.size(); ++i)
        for (const std::string disabled : {"0", "1"}) {
            CAPTURE(i);
            CAPTURE(disabled);
            const Machine machine = with(hosts[i]);
            const auto made =
                plan(machine, two_nodes("10.0.0.7:29500"), user({{"NCCL_IB_DISABLE", disabled}}));
            const auto value = setting(made, "NCCL_SOCKET_IFNAME").value;
            CAPTURE(value.value_or("left to NCCL"));
            const auto used = value ? names(machine, env::listed_search(machine, {22809, "", ""},
                                                                        env::parse_ifname(*value)))
                                    : made.interfaces;
            CHECK(used != std::vector<std::string>{"eth0"});
            const bool sockets = disabled == "1" || !hosts[i][1].rdma_device;
            if (sockets && value) CHECK(std::count(used.begin(), used.end(), "eth0") == 0);
        }
}

TEST_CASE("where sockets carry the data, slow ones leave the pick of a proven fast one") {
    const auto slow = speed(kEth0, 1), fast = speed(kEth1, 100);
    const auto other = speed(nic("eth2", NicKind::ethernet, {"10.2.0.1/24"}), 100);
    const auto choice = [](const Machine& machine, const std::string& rendezvous,
                           std::map<std::string, std::string> variables = {}) {
        return setting(plan(machine, two_nodes(rendezvous), user(std::move(variables))),
                       "NCCL_SOCKET_IFNAME");
    };
    CHECK(choice(with({slow, fast}), "10.1.0.7").value == "eth1");
    CHECK(choice(with({slow, fast, other}), "10.1.0.7").value == "=eth1,eth2");
    CHECK_FALSE(choice(with({slow, fast}), "10.0.0.7").value);  // proven is the slow one
    CHECK(choice(with({slow, fast}), "10.0.0.7").reason.find("nothing proves") !=
          std::string::npos);
    CHECK_FALSE(choice(with({slow, fast}), "").value);
    CHECK(choice(with({slow, fast}), "", {{"MASTER_ADDR", "10.1.0.7"}}).value == "eth1");
    Machine routed = with({slow, fast});  // beyond the subnet: the kernel was asked
    routed.routes = {{"172.30.0.9", "eth1", "10.1.0.1"}};
    CHECK(choice(routed, "172.30.0.9").value == "eth1");
    CHECK_FALSE(choice(routed, "172.30.0.8").value);
    CHECK_FALSE(choice(with({speed(kEth0, 60), fast}), "10.1.0.7").value);
    auto carried = fast;
    carried.rdma_device = "mlx5_0";
    CHECK_FALSE(choice(with({slow, carried}), "10.1.0.7").value);
}

TEST_CASE("a VLAN beside its parent is the same wires") {
    const auto bond = nic("bond0", NicKind::bond, {"10.1.0.5/24"});
    const auto child = nic("bond0.100", NicKind::vlan, {"10.2.0.5/24"});
    auto storage = nic("storage", NicKind::vlan, {"10.3.0.5/24"});
    storage.parent = "bond0";
    const auto value = [](const Machine& machine, const std::string& rendezvous = "") {
        return exported(plan(machine, two_nodes(rendezvous)), "NCCL_SOCKET_IFNAME");
    };
    CHECK(value(with({bond, child})) == "=bond0");
    CHECK(value(with({bond, child}), "10.1.0.9") == "=bond0");
    CHECK(value(with({bond, child}), "10.2.0.9") == "bond0.100");
    CHECK(value(with({bond, storage})) == "bond0");
    CHECK(value(with({bond, child, kEth0})) == "=bond0,eth0");
    CHECK_FALSE(value(with({child})));
    CHECK_FALSE(value(with({kEth0, storage})));  // its parent has no address
    auto carried = bond;
    carried.rdma_device = "mlx5_bond_0";
    CHECK_FALSE(value(with({carried, child})));  // only the bootstrap, which takes the first
}

TEST_CASE("odd hosts") {
    const auto usb = nic("usb0", NicKind::ethernet, {"10.250.0.2/24"});
    auto redfish = nic("enx0a94efaa", NicKind::ethernet, {"192.168.77.2/24"});
    redfish.driver = "cdc_ether";
    const auto tmfifo = nic("tmfifo_net0", NicKind::ethernet, {"192.168.100.2/24"});
    auto own_bridge = nic("br0", NicKind::bridge, {"10.0.0.1/24"});
    own_bridge.default_route = true;
    auto pod = nic("eth0", NicKind::veth, {"10.244.3.7/24"});
    pod.default_route = true;
    const auto zeroconf = nic("eth1", NicKind::ethernet, {"169.254.8.1/16", "fd00::8/64"});
    const auto v6 = nic("eth2", NicKind::ethernet, {"fe80::3/64", "fd00::3/64"});
    const auto global_first = nic("eth2", NicKind::ethernet, {"fd00::3/64", "fe80::3/64"});
    const auto longest = nic("enp193s0f0np012", NicKind::ethernet, {"10.7.0.1/24"});
    const auto one_letter = nic("e", NicKind::ethernet, {"10.8.0.1/24"});
    const auto twin = nic("eth3", NicKind::ethernet, {"10.0.0.2/24"});
    struct Row {
        std::string name;
        Machine machine;
        std::string rendezvous;
        std::map<std::string, std::string> variables;
        std::optional<std::string> value;
    };
    const std::vector<Row> rows = {
        {"a management controller's USB", with({kEth0, usb}), "", {}, "eth0"},
        {"by its driver", with({kEth0, redfish}), "", {}, "eth0"},
        {"a BlueField's console", with({tmfifo, kEth0}), "", {}, "eth0"},
        {"the host's own bridge", with({own_bridge, kEth1}), "", {}, {}},
        {"and container bridges beside it",
         with({own_bridge, kEth1, kLinkLocal}),
         "",
         {},
         "=br0,eth1"},
        {"a pod's own veth", with({pod}), "", {}, {}},
        {"IPv4 link-local comes before IPv6", with({kEth0, zeroconf}), "", {}, "eth0"},
        {"IPv6 alone", with({global_first}), "", {}, {}},
        {"the link-local address first", with({v6, kEth0}), "", {}, "eth0"},
        {"by family",
         with({kEth0, global_first, kLinkLocal}),
         "",
         {{"NCCL_SOCKET_FAMILY", "AF_INET6"}},
         "eth2"},
        {"by family, nothing left",
         with({kEth0, kLinkLocal}),
         "",
         {{"NCCL_SOCKET_FAMILY", "AF_INET6"}},
         {}},
        {"the longest name", with({longest, kLinkLocal}), "", {}, "enp193s0f0np012"},
        {"a name of one letter", with({one_letter, kLinkLocal}), "", {}, "=e"},
        {"two in one subnet, the rendezvous is one of them",
         with({kEth0, twin, kLinkLocal}),
         "10.0.0.2",
         {},
         "eth3"},
        {"two in one subnet", with({kEth0, twin, kLinkLocal}), "10.0.0.9", {}, "eth0"},
        {"nothing but containers", with({kDocker, kLinkLocal}), "", {}, {}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto made = plan(row.machine, two_nodes(row.rendezvous), user(row.variables));
        CAPTURE(setting(made, "NCCL_SOCKET_IFNAME").reason);
        CHECK(exported(made, "NCCL_SOCKET_IFNAME") == row.value);
    }
    std::vector<toporun::detect::Nic> many = {};
    for (int i = 0; i < 30; ++i)
        many.push_back(nic("cali" + std::to_string(i), NicKind::veth, {"fe80::1/64"}));
    many.push_back(kEth0);
    CHECK(exported(plan(with(many), two_nodes()), "NCCL_SOCKET_IFNAME") == "eth0");
}

TEST_CASE("a down interface in the pick of an old version is replaced") {
    Machine machine = with({kDown, kEth0});
    machine.software.nccl_version = "2.27.5";
    CHECK(exported(plan(machine, two_nodes()), "NCCL_SOCKET_IFNAME") == "eth0");
    machine.software.nccl_version = "2.28.9";
    CHECK_FALSE(exported(plan(machine, two_nodes()), "NCCL_SOCKET_IFNAME"));
}

TEST_CASE("on one node nothing is exported unless only lo is up") {
    CHECK_FALSE(exported(plan(with({kEth0, kLinkLocal}), job(2)), "NCCL_SOCKET_IFNAME"));
    CHECK(exported(plan(with({}), job(2)), "NCCL_SOCKET_IFNAME") == "lo");
    CHECK(exported(plan(with({kDown}), job(2)), "NCCL_SOCKET_IFNAME") == "lo");
    CHECK(exported(plan(with({nic("lovely", NicKind::ethernet, {}, "down")}), job(2)),
                   "NCCL_SOCKET_IFNAME") == "=lo");
}

TEST_CASE("Gloo follows where NCCL's interface had to be chosen") {
    const auto gloo = [](const Machine& machine, const env::Job& of,
                         std::map<std::string, std::string> variables = {}) {
        return exported(plan(machine, of, user(std::move(variables))), "GLOO_SOCKET_IFNAME");
    };
    const Machine mixed = with({kDocker, kLinkLocal, kEth0});
    CHECK(gloo(mixed, two_nodes()) == "eth0");
    CHECK_FALSE(gloo(with({kEth0}), two_nodes()));  // nothing had to be chosen
    CHECK_FALSE(gloo(mixed, job(4)));
    CHECK_FALSE(gloo(mixed, two_nodes(), {{"GLOO_SOCKET_IFNAME", "eth1"}}));
    CHECK_FALSE(gloo(mixed, two_nodes(), {{"NCCL_SOCKET_IFNAME", "eth0"}}));
    env::Job mpi = two_nodes();
    mpi.launcher = "openmpi";
    CHECK_FALSE(gloo(mixed, mpi));
    // Never `=`, and one name of several.
    const Machine prefixed = with({kLinkLocal, kEth0, nic("eth01", NicKind::ethernet, {})});
    CHECK(exported(plan(prefixed, two_nodes()), "NCCL_SOCKET_IFNAME") == "=eth0");
    CHECK(gloo(prefixed, two_nodes()) == "eth0");
    CHECK_FALSE(gloo(with({kEth0, kEth1, kLinkLocal}), two_nodes()));  // which is not known
}

TEST_CASE("no interface at all is a fault") {
    Machine machine = host(1, 4);
    machine.nics = {nic("lo", NicKind::loopback, {}, "down")};
    const auto made = plan(machine, job(2));
    CHECK(finding_ids(made) == std::vector<std::string>{"iface-none"});
    CHECK(made.findings[0].severity == env::Severity::broken);
    CHECK(made.findings[0].evidence.find("lo is down") != std::string::npos);
    machine.nics = {nic("mlx5_0", NicKind::infiniband, {})};  // a capture of RDMA ports
    CHECK(finding_ids(plan(machine, job(2))).empty());
    machine.nics.clear();
    machine.nics_known = true;
    CHECK(finding_ids(plan(machine, job(2))) == std::vector<std::string>{"iface-none"});
    machine.nics_known = false;  // nobody looked
    CHECK(finding_ids(plan(machine, job(2))).empty());
}

TEST_CASE("an unknown number of nodes is one unless the rendezvous is another host") {
    env::Job unknown = job(4);
    unknown.nodes.reset();
    const auto exports = [&](const std::string& rendezvous) {
        unknown.rendezvous = rendezvous;
        return exported(plan(with({kEth0, kLinkLocal}), unknown), "NCCL_SOCKET_IFNAME").has_value();
    };
    CHECK_FALSE(exports(""));
    CHECK_FALSE(exports("localhost:29500"));
    CHECK_FALSE(exports("127.0.0.1:29500"));
    CHECK_FALSE(exports("10.0.0.1:29500"));
    CHECK_FALSE(exports("node-a.cluster:29500"));
    CHECK(exports("10.0.0.2:29500"));
    CHECK(exports("node-b:29500"));
    const auto said = setting(plan(with({kEth0}), unknown), "NCCL_SOCKET_IFNAME").evidence;
    CHECK(said.find("node-b is another host") != std::string::npos);
}

TEST_CASE("each value of the user that goes wrong has its finding") {
    struct Row {
        std::string value;
        int nodes;
        std::vector<std::string> ids;
        std::string text;
    };
    const Machine machine = with({kDocker, kEth0, nic("bond0", NicKind::bond, {"10.3.0.1/24"}),
                                  nic("bond0.7", NicKind::vlan, {"10.4.0.1/24"})});
    const std::vector<Row> rows = {
        {"", 2, {"iface-empty"}, "unset"},
        {"e", 2, {"iface-one-letter"}, "=="},
        {"eno1", 1, {"iface-no-match"}, "eth0"},
        {"=eth", 2, {"iface-no-match"}, "eth0"},
        {" eth0", 2, {"iface-blank", "iface-no-match"}, "blank"},
        {"eth0, bond0.7", 2, {"iface-blank"}, "' bond0.7'"},
        {"bond0", 2, {"iface-prefix"}, "bond0.7"},
        {"bond0", 1, {}, ""},
        {"=bond0", 2, {}, ""},
        {"bond", 2, {"iface-differs"}, "bond0.7"},
        {"^docker0", 2, {"iface-loopback"}, "lo"},
        {"^docker0", 1, {}, ""},
        {"lo", 2, {"iface-loopback"}, "127.0.0.1"},
        {"docker0", 2, {"iface-unreachable"}, "bridge"},
        {"eth0", 2, {}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        CAPTURE(row.nodes);
        const auto made =
            plan(machine, job(4, row.nodes), user({{"NCCL_SOCKET_IFNAME", row.value}}));
        CHECK(finding_ids(made) == row.ids);
        CHECK(setting(made, "NCCL_SOCKET_IFNAME").value == row.value);
        CHECK_FALSE(exported(made, "NCCL_SOCKET_IFNAME"));
        if (row.ids.empty()) continue;
        const env::Finding& finding = made.findings.front();
        CHECK((finding.what + finding.evidence + finding.effect + finding.fix).find(row.text) !=
              std::string::npos);
    }
}

TEST_CASE("another usable choice than toporun's is a note") {
    const Machine machine = with({kEth0, speed(kEth1, 10, true), kLinkLocal});
    const auto made = plan(machine, two_nodes("10.0.0.7"), user({{"NCCL_SOCKET_IFNAME", "eth1"}}));
    CHECK(finding_ids(made) == std::vector<std::string>{"iface-differs"});
}

}  // namespace
