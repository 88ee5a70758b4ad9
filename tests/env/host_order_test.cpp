#include "env/host_order.hpp"

#include <optional>

#include "base/error.hpp"
#include "env/host_list.hpp"
#include "machines.hpp"

namespace {

using namespace toporun::tests;
using toporun::Error;
using toporun::env::expand_host_list;
using toporun::env::HostOrderKind;
using toporun::env::order_hosts;
using toporun::env::read_host_places;
using Names = std::vector<std::string>;

TEST_CASE("Slurm's compressed lists are expanded in their order") {
    struct Row {
        std::string list;
        Names hosts;
    };
    const std::vector<Row> rows = {
        {"", {}},
        {"login", {"login"}},
        {"a,b", {"a", "b"}},
        {" a , b ,", {"a", "b"}},
        {"gpu-[1-3,10]", {"gpu-1", "gpu-2", "gpu-3", "gpu-10"}},
        {"n[08-10]", {"n08", "n09", "n10"}},
        {"n[098-101]", {"n098", "n099", "n100", "n101"}},
        {"n[8-10]", {"n8", "n9", "n10"}},
        {"r[0-1]n[1,3]x", {"r0n1x", "r0n3x", "r1n1x", "r1n3x"}},
        {"a[1-2],b,c[0]", {"a1", "a2", "b", "c0"}},
        {"n[2,1]", {"n2", "n1"}},
        {"[1-2]", {"1", "2"}},
        {"n1.cluster.example", {"n1.cluster.example"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.list);
        CHECK(expand_host_list(row.list) == row.hosts);
    }
}

TEST_CASE("lists that are none are refused, however large they would be") {
    for (const std::string list : {"a[1-",
                                   "a1]",
                                   "a[[1]]",
                                   "a[1-2",
                                   "a[2-1]",
                                   "a[x]",
                                   "a[]",
                                   "a[1-2-3]",
                                   "a[1,]",
                                   "a b",
                                   "a[-1]",
                                   "a[1-99999999999999999999]",
                                   "n[1-70000]",
                                   "n[0-999]m[0-999]",
                                   "n[0-99999999]n[0-99999999]",
                                   "a\x1b[1m",
                                   "-x",
                                   "a=b",
                                   "a'b",
                                   "a[0-9][0-9][0-9][0-9][0-9]"}) {
        CAPTURE(list);
        CHECK_THROWS_AS(expand_host_list(list), Error);
    }
    CHECK(expand_host_list("n[1-65536]").size() == 65536);
    CHECK_THROWS_AS(expand_host_list("n[1-65536],m"), Error);
    CHECK_THROWS_AS(expand_host_list(std::string(300, 'a')), Error);
    std::string deep = "n";
    for (int i = 0; i < 200; ++i) deep += "[1]";
    CHECK(expand_host_list(deep).size() == 1);
}

const char* kTree =
    "# two leaves\n"
    "SwitchName=leaf1 Nodes=n[1,3,5]\n"
    "SwitchName=leaf2 Nodes=n[2,4] LinkSpeed=200\n"
    "switchname=leaf3 nodes=n6\n"
    "SwitchName=spine1 Switches=leaf[1-2]\n"
    "SwitchName=spine2 Switches=leaf3\n"
    "SwitchName=core Switches=spine[1-2]\n";

TEST_CASE("hosts of one switch stand together, and switches of one switch above") {
    struct Row {
        std::string name, text;
        Names given, ordered;
        int before, after;
    };
    const std::vector<Row> rows = {
        {"a tree",
         kTree,
         {"n1", "n2", "n3", "n4", "n5", "n6"},
         {"n1", "n3", "n5", "n2", "n4", "n6"},
         6,
         3},
        {"in order already", kTree, {"n1", "n3", "n2", "n4"}, {"n1", "n3", "n2", "n4"}, 2, 2},
        {"the first given switch first", kTree, {"n2", "n1", "n4"}, {"n2", "n4", "n1"}, 2, 2},
        {"a spine stays whole", kTree, {"n1", "n6", "n2"}, {"n1", "n2", "n6"}, 3, 3},
        {"blocks",
         "BlockName=b1 Nodes=n[1,3]\nBlockName=b2 Nodes=n[2,4]\nBlockSizes=2,4\n",
         {"n1", "n2", "n3", "n4"},
         {"n1", "n3", "n2", "n4"},
         4,
         2},
        {"addresses",
         "spine.leaf1.n1\nspine.leaf2.n2\nspine.leaf1.n3\n",
         {"n1", "n2", "n3"},
         {"n1", "n3", "n2"},
         2,
         2},
        {"addresses with names",
         "n1 s.a.n1\nn2 s.b.n2\nn3 s.a.n3\nn4 s.b.n4\n",
         {"n1", "n2", "n3", "n4"},
         {"n1", "n3", "n2", "n4"},
         4,
         2},
        {"addresses with the variable",
         "SLURM_TOPOLOGY_ADDR=s.a.n1\nSLURM_TOPOLOGY_ADDR=s.b.n2\n",
         {"n2", "n1"},
         {"n2", "n1"},
         2,
         2},
        {"unknown hosts last", kTree, {"x", "n1", "n2", "n3"}, {"n1", "n3", "n2", "x"}, 4, 3},
        {"full names", kTree, {"n1.a.b", "n2.a.b", "n3.a.b"}, {"n1.a.b", "n3.a.b", "n2.a.b"}, 2, 2},
        {"twice", kTree, {"n1", "n1", "n2"}, {"n1", "n2"}, 2, 2},
        {"a list", "n3\nn1\n# no\nn2\n", {"n1", "n2", "n3"}, {"n3", "n1", "n2"}, 0, 0},
        {"a list with slots", "n2 slots=8\nn1:8\n", {"n1", "n2"}, {"n2", "n1"}, 0, 0},
        {"a list of full names", "b.example.org\na.example.org\n", {"a", "b"}, {"b", "a"}, 0, 0},
        {"a compressed list", "n[3,1-2]\n", {"n1", "n2", "n3"}, {"n3", "n1", "n2"}, 0, 0},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto order = order_hosts(row.given, read_host_places(row.text, "topology.conf"));
        CHECK(order.hosts == row.ordered);
        CHECK(order.crossings_given == row.before);
        CHECK(order.crossings == row.after);
    }
}

TEST_CASE("kinds of files are told apart, and what is none is refused with its line") {
    CHECK(read_host_places(kTree, "f").kind == HostOrderKind::topology_conf);
    CHECK(read_host_places("s.a.n1\ns.a.n2\n", "f").kind == HostOrderKind::addresses);
    CHECK(read_host_places("n1\nn2\n", "f").kind == HostOrderKind::hosts);
    CHECK(read_host_places("n1.x\n", "f").kind == HostOrderKind::hosts);
    CHECK(read_host_places("SwitchName=a Nodes=n1\nrubbish\n", "f").notes ==
          Names{"f:2: passed over: 'rubbish'"});
    const auto circle = read_host_places(
        "SwitchName=a Switches=b\nSwitchName=b Switches=a\nSwitchName=a Nodes=n1\n"
        "SwitchName=c Nodes=n2\n",
        "f");
    CHECK(circle.notes == Names{"f: the switches above 'a' stand in a circle (Switches=): only the "
                                "lowest counts"});
    CHECK(circle.places.at("n1") == Names{"a"});
    const auto findings =
        toporun::env::host_order_findings({}, order_hosts({"n1", "n2"}, circle), circle, "f");
    REQUIRE(findings.size() == 1);
    CHECK(findings[0].what == circle.notes[0]);
    for (const std::string text : {"", "\n# nothing\n", "SwitchName=a Nodes=n[1-\n", "n1\nn[2\n",
                                   "\x1b[2J\n", "SwitchName=a Nodes=n[1-70000]\n"}) {
        CAPTURE(text);
        CHECK_THROWS_AS(read_host_places(text, "f"), Error);
    }
    try {
        read_host_places("n1\nn[2\n", "hosts.txt");
        FAIL("was read");
    } catch (const Error& fault) {
        CHECK(fault.where() == "hosts.txt:2");
    }
}

TEST_CASE("switches that are below themselves end somewhere") {
    const auto places = read_host_places(
        "SwitchName=a Switches=b Nodes=n1\nSwitchName=b Switches=a Nodes=n2\n"
        "SwitchName=c Switches=c Nodes=n3\n",
        "f");
    CHECK(places.places.size() == 3);
    CHECK(order_hosts({"n3", "n1", "n2"}, places).hosts.size() == 3);
}

TEST_CASE("a better order of hosts is a note with the words for the launcher") {
    auto how = options();
    how.host_places = read_host_places(kTree, "topology.conf");
    how.host_places_file = "topology.conf";
    auto made = job(8, 4);
    made.hosts = {"n1", "n2", "n3", "n4"};
    struct Row {
        std::string launcher;
        Names words;
    };
    const std::vector<Row> rows = {
        {"srun", {"SLURM_HOSTFILE=", "-m arbitrary", "-n 32"}},
        {"openmpi", {"--map-by seq", "--hostfile"}},
        {"hydra", {"-hosts n1,n3,n2,n4"}},
        {"torchrun", {"--node-rank", "c10d"}},
        {"shell", {"srun:", "Open MPI:", "torchrun:"}},
    };
    for (const Row& row : rows) {
        CAPTURE(row.launcher);
        made.launcher = row.launcher;
        const auto decided = plan(hgx_h100(), made, {}, how);
        CHECK(decided.host_order == Names{"n1", "n3", "n2", "n4"});
        const auto found = std::find_if(decided.findings.begin(), decided.findings.end(),
                                        [](const auto& one) { return one.id == "host-order"; });
        REQUIRE(found != decided.findings.end());
        CHECK(found->what ==
              "neighbouring hosts are on different switches 4 times, 2 times in the order of the "
              "switches");
        for (const std::string& word : row.words)
            CHECK_MESSAGE(found->fix.find(word) != std::string::npos, word);
    }
    made.hosts = {"n1", "n3", "n2"};
    CHECK(finding_ids(plan(hgx_h100(), made, {}, how)) ==
          finding_ids(plan(hgx_h100(), made, {}, options())));
    made.hosts.clear();
    CHECK(plan(hgx_h100(), made, {}, how).host_order.empty());
    CHECK(toporun::env::host_file_text({"a", "b"}, 2) == "a\na\nb\nb\n");
}

}  // namespace
