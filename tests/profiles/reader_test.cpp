#include <string>
#include <vector>

#include <doctest/doctest.h>

#include "base/error.hpp"
#include "profiles/profile.hpp"

namespace {

using toporun::Error;
using toporun::profiles::Profile;
using toporun::profiles::read_profile;
using toporun::profiles::read_profiler_versions;

constexpr const char* kHead = "name = \"p\"\ntitle = \"t\"\n[match]\ngpu_count = 8\n";

std::string with_value(const std::string& keys) {
    return std::string(kHead) + "[[values]]\n" + keys;
}

struct Fault {
    std::string name;
    std::string text;
    std::string what;   ///< part of the message
    std::string where;  ///< whole
    std::string hint;   ///< part
};

TEST_CASE("a profile is read with all its keys") {
    const Profile profile = read_profile(
        "name = \"own-box\"\ntitle = \"Our box\"\n"
        "[match]\ngpu_names = [\"H100\", \"H200\"]\ngpu_count = 8\ngpu_count_min = 2\n"
        "links = \"nvswitch\"\npeer_access = \"ok\"\nvendor = \"Supermicro\"\nproduct = \"SYS\"\n"
        "[[values]]\nvariable = \"NCCL_P2P_LEVEL\"\nvalue = \"NVL\"\nreason = \"r\"\n"
        "source = \"s\"\nsince = \"2.8\"\nuntil = \"2.30.7\"\n"
        "[[values]]\nvariable = \"NCCL_IB_HCA\"\nleave = true\nreason = \"r\"\nsource = \"s\"\n"
        "[[values]]\nvariable = \"HSA_ENABLE_SDMA\"\nvalue = 4\nreason = \"r\"\nsource = \"s\"\n",
        "own.toml");
    CHECK(profile.name == "own-box");
    CHECK(profile.title == "Our box");
    CHECK(profile.file == "own.toml");
    CHECK(profile.match.gpu_names == std::vector<std::string>{"H100", "H200"});
    CHECK(profile.match.gpu_count == 8);
    CHECK(profile.match.gpu_count_min == 2);
    CHECK(profile.match.links == "nvswitch");
    CHECK(profile.match.peer_access == "ok");
    CHECK(profile.match.vendor == "Supermicro");
    CHECK(profile.match.products == std::vector<std::string>{"SYS"});
    REQUIRE(profile.values.size() == 3);
    CHECK(profile.values[0].value == "NVL");
    CHECK(profile.values[0].since == "2.8");
    CHECK(profile.values[0].until == "2.30.7");
    CHECK(profile.values[0].where == "own.toml:11:1");
    CHECK(profile.values[1].value == std::nullopt);
    CHECK(profile.values[2].value == "4");
}

TEST_CASE("conditions on identity, adapters and software are read") {
    const Profile profile = read_profile(
        "name = \"p\"\ntitle = \"t\"\n"
        "[match]\nvendor = \"V\"\nproducts = [\"a\", \"b\"]\nasset_tag = \"T\"\nboard = \"B\"\n"
        "instance_types = \"big\"\nnot_gpu_names = \"GB200\"\ngpu_ids = \"10de:2330\"\n"
        "gpu_count_max = 4\narchitecture = \"aarch64\"\nkernel = \"WSL2\"\n"
        "virtual_machine = true\ncontainer = \"kubernetes\"\nscheduler = \"slurm\"\n"
        "plugins = \"aws-ofi\"\nfiles = [\"/usr/local/gib\"]\n"
        "[[match.nics]]\nids = \"15b3:1021\"\ndrivers = \"mlx5_core\"\nkinds = [\"roce\"]\n"
        "names = \"mlx5_*\"\nrdma = true\nspeed_gbits = 400\ncount_min = 4\ncount_max = 8\n"
        "[expect]\ngpu_count = 8\n[[expect.nics]]\ncount = 16\n",
        "f.toml");
    const auto& match = profile.match;
    CHECK(match.products == std::vector<std::string>{"a", "b"});
    CHECK(match.asset_tag == "T");
    CHECK(match.board == "B");
    CHECK(match.instance_types == std::vector<std::string>{"big"});
    CHECK(match.not_gpu_names == std::vector<std::string>{"GB200"});
    CHECK(match.gpu_ids == std::vector<std::string>{"10de:2330"});
    CHECK(match.gpu_count_max == 4);
    CHECK(match.architecture == "aarch64");
    CHECK(match.kernel == "WSL2");
    CHECK(match.virtual_machine == true);
    CHECK(match.container == "kubernetes");
    CHECK(match.scheduler == "slurm");
    CHECK(match.plugins == std::vector<std::string>{"aws-ofi"});
    CHECK(match.files == std::vector<std::string>{"/usr/local/gib"});
    REQUIRE(match.nics.size() == 1);
    CHECK(match.nics[0].ids == std::vector<std::string>{"15b3:1021"});
    CHECK(match.nics[0].drivers == std::vector<std::string>{"mlx5_core"});
    CHECK(match.nics[0].kinds == std::vector<std::string>{"roce"});
    CHECK(match.nics[0].names == std::vector<std::string>{"mlx5_*"});
    CHECK(match.nics[0].rdma == true);
    CHECK(match.nics[0].speed_gbits == 400);
    CHECK(match.nics[0].count == std::nullopt);
    CHECK(match.nics[0].count_min == 4);
    CHECK(match.nics[0].count_max == 8);
    CHECK(profile.expect.gpu_count == 8);
    REQUIRE(profile.expect.nics.size() == 1);
    CHECK(profile.expect.nics[0].count == 16);
}

TEST_CASE("of two profiles the one with the stronger kind of evidence is more specific") {
    const auto of = [](const std::string& match) {
        return specificity(
            read_profile("name = \"p\"\ntitle = \"t\"\n[match]\n" + match, "f.toml").match);
    };
    const std::vector<std::string> weakest_first = {
        "links = \"none\"\n",
        "gpu_names = \"A\"\n",
        "gpu_names = \"A\"\nlinks = \"none\"\n",
        "gpu_count = 8\n",
        "gpu_count = 8\ngpu_names = \"A\"\nlinks = \"none\"\n",
        "[[match.nics]]\ncount = 8\n",
        "asset_tag = \"T\"\n",
        "asset_tag = \"T\"\ngpu_count = 8\ngpu_names = \"A\"\nlinks = \"none\"\n"
        "[[match.nics]]\ncount = 8\n",
        "products = \"P\"\n",
    };
    for (std::size_t i = 1; i < weakest_first.size(); ++i) {
        CAPTURE(weakest_first[i]);
        CHECK(of(weakest_first[i]) > of(weakest_first[i - 1]));
    }
}

TEST_CASE("each fault of a profile is named with its place") {
    const std::string good = "variable = \"NCCL_BUFFSIZE\"\nreason = \"r\"\nsource = \"s\"\n";
    const std::vector<Fault> faults = {
        {"no name", "title = \"t\"\n", "name", "f.toml:1:1", ""},
        {"bad name", "name = \"A b\"\ntitle = \"t\"\n", "'A b' is no profile name", "f.toml:1:8",
         ""},
        {"no title", "name = \"a\"\n", "title", "f.toml:1:1", ""},
        {"matches everything", "name = \"a\"\ntitle = \"t\"\n", "does not say what it matches",
         "f.toml:1:1", "gpu_names"},
        {"unknown key", std::string(kHead) + "gpu_cuont = 8\n", "gpu_cuont", "f.toml:5:1",
         "gpu_count"},
        {"unknown top key", std::string("nmae = 1\n") + kHead, "nmae", "f.toml:1:1", "name"},
        {"unknown value key", with_value(good + "value = 1\nsorce = \"s\"\n"), "sorce",
         "f.toml:10:1", "source"},
        {"no reason", with_value("variable = \"NCCL_BUFFSIZE\"\nvalue = 1\nsource = \"s\"\n"),
         "reason", "f.toml:5:1", ""},
        {"blank reason",
         with_value("variable = \"NCCL_BUFFSIZE\"\nvalue = 1\nreason = \" \"\nsource = \"s\"\n"),
         "'reason' must not be empty", "f.toml:8:10", ""},
        {"no source", with_value("variable = \"NCCL_BUFFSIZE\"\nvalue = 1\nreason = \"r\"\n"),
         "source", "f.toml:5:1", ""},
        {"no value", with_value(good), "a value is missing", "f.toml:5:1", "leave = true"},
        {"both", with_value(good + "value = 1\nleave = true\n"), "exclude each other",
         "f.toml:10:9", ""},
        {"leave false", with_value(good + "leave = false\n"), "can only be true", "f.toml:9:9", ""},
        {"empty value", with_value(good + "value = \"\"\n"), "must not be empty", "f.toml:9:9",
         "leave = true"},
        {"boolean value", with_value(good + "value = true\n"), "'true' means 0", "f.toml:9:9",
         "1 or 0"},
        {"float value", with_value(good + "value = 1.5\n"), "found a float", "f.toml:9:9", ""},
        {"two lines", with_value(good + "value = \"a\\nb\"\n"), "cannot be shown", "f.toml:9:9",
         ""},
        {"lower case variable",
         with_value("variable = \"nccl_x\"\nvalue = 1\nreason = \"r\"\nsource = \"s\"\n"),
         "'nccl_x' cannot be in a profile", "f.toml:6:12", "NCCL_"},
        {"foreign variable",
         with_value("variable = \"LD_PRELOAD\"\nvalue = \"x\"\nreason = \"r\"\nsource = \"s\"\n"),
         "'LD_PRELOAD' cannot be in a profile", "f.toml:6:12", "start with"},
        {"never set",
         with_value("variable = \"NCCL_ALGO\"\nvalue = \"Ring\"\nreason = \"r\"\nsource = \"s\"\n"),
         "'NCCL_ALGO' cannot be in a profile", "f.toml:6:12", "never set automatically"},
        {"never used",
         with_value("variable = \"OMP_NUM_THREADS\"\nvalue = 4\nreason = \"r\"\nsource = \"s\"\n"),
         "'OMP_NUM_THREADS' cannot be in a profile", "f.toml:6:12", "would never be used"},
        {"P2P off",
         with_value("variable = \"NCCL_P2P_DISABLE\"\nvalue = 1\nreason = \"r\"\nsource = \"s\"\n"),
         "'NCCL_P2P_DISABLE' cannot be in a profile", "f.toml:6:12", "would never be used"},
        {"twice",
         with_value(good + "value = 1\n[[values]]\n" + good + "value = 2\nsince = \"2.28\"\n"),
         "'NCCL_BUFFSIZE' is there already", "f.toml:11:12", "f.toml:5:1"},
        {"bad version", with_value(good + "value = 1\nsince = \"2.x\"\n"), "'2.x' is not a version",
         "f.toml:10:9", "2.28.9"},
        {"one part", with_value(good + "value = 1\nuntil = \"2\"\n"), "'2' is not a version",
         "f.toml:10:9", ""},
        {"range", with_value(good + "value = 1\nsince = \"2.30\"\nuntil = \"2.28\"\n"),
         "'until' 2.28 is below 'since' 2.30", "f.toml:11:9", ""},
        {"links", "name = \"a\"\ntitle = \"t\"\n[match]\nlinks = \"nvlnk\"\n",
         "'nvlnk' is no value of 'links'", "f.toml:4:9", "nvlink"},
        {"count", "name = \"a\"\ntitle = \"t\"\n[match]\ngpu_count = -1\n", "must be 0 to 1024",
         "f.toml:4:13", ""},
        {"empty GPU name", "name = \"a\"\ntitle = \"t\"\n[match]\ngpu_names = [\"\"]\n",
         "must not be empty", "f.toml:4:13", ""},
        {"count range",
         "name = \"a\"\ntitle = \"t\"\n[match]\ngpu_count_min = 4\ngpu_count_max = 2\n",
         "'gpu_count_max' 2 is below the minimum 4", "f.toml:5:17", ""},
        {"GPU id", "name = \"a\"\ntitle = \"t\"\n[match]\ngpu_ids = [\"10DE:2330\"]\n",
         "'10DE:2330' is no PCI vendor and device", "f.toml:4:11", "15b3:1021"},
        {"two products",
         "name = \"a\"\ntitle = \"t\"\n[match]\nproduct = \"x\"\nproducts = [\"y\"]\n",
         "exclude each other", "f.toml:4:11", ""},
        {"empty vendor", "name = \"a\"\ntitle = \"t\"\n[match]\nvendor = \" \"\n",
         "'vendor' must not be empty", "f.toml:4:10", "leave the key out"},
        {"NIC kind",
         "name = \"a\"\ntitle = \"t\"\n[[match.nics]]\nkinds = [\"rocee\"]\ncount = 1\n",
         "'rocee' is no kind of adapter", "f.toml:4:9", "roce"},
        {"NIC without number", "name = \"a\"\ntitle = \"t\"\n[[match.nics]]\nrdma = true\n",
         "how many adapters is missing", "f.toml:3:1", "count_min"},
        {"NIC speed", "name = \"a\"\ntitle = \"t\"\n[[match.nics]]\nspeed_gbits = 0\ncount = 1\n",
         "must be above 0", "f.toml:4:15", ""},
        {"unknown key of adapters",
         "name = \"a\"\ntitle = \"t\"\n[[match.nics]]\ncount = 1\nspeed = 4\n",
         "unknown key 'speed'", "f.toml:5:1", ""},
        {"expectation",
         "name = \"a\"\ntitle = \"t\"\n[match]\ngpu_count = 1\n[expect]\nlinks = 1\n",
         "unknown key 'links'", "f.toml:6:1", ""},
        {"instance type alone", "name = \"a\"\ntitle = \"t\"\n[match]\ninstance_types = [\"x\"]\n",
         "does not say what it matches", "f.toml:3:1", "asset_tag"},
        {"not TOML", "name = \n", "", "f.toml:1:8", ""},
        {"escape sequence", "name = \"\\u001b[31m\"\n", "\\x1b", "f.toml:1:8", ""},
    };
    for (const Fault& fault : faults) {
        CAPTURE(fault.name);
        try {
            read_profile(fault.text, "f.toml");
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            const std::string what = error.what();
            CAPTURE(what);
            CAPTURE(error.where());
            CAPTURE(error.hint());
            CHECK(what.find(fault.what) != std::string::npos);
            CHECK((fault.where.empty() || error.where() == fault.where));
            CHECK((error.hint() + what).find(fault.hint) != std::string::npos);
            CHECK(what.find('\x1b') == std::string::npos);
        }
    }
}

TEST_CASE("variables that are never set automatically are refused in a profile") {
    struct Row {
        std::string name;
        bool may_be_left = true;  ///< an entry may say why it is not set
    };
    const std::vector<Row> rows = {{"NCCL_PROTO"},
                                   {"NCCL_COMM_ID"},
                                   {"NCCL_TOPO_FILE"},
                                   {"NCCL_IB_ADDR_FAMILY"},
                                   {"NCCL_WIN_ENABLE"},
                                   {"NCCL_P2P_NVL_CHUNKSIZE"},
                                   {"NCCL_NVLS_CHUNKSIZE"},
                                   {"NCCL_SPLIT_SHARE_RESOURCES"},
                                   {"NCCL_DEBUG", false},
                                   {"NCCL_DEBUG_SUBSYS", false},
                                   {"NCCL_PROFILER_PLUGIN", false},
                                   {"OMP_NUM_THREADS", false},
                                   {"NCCL_P2P_DISABLE"},
                                   {"OMP_PROC_BIND"},
                                   {"NCCL_NET"},
                                   {"NCCL_IB_RESILIENCY_PORT_FAILOVER"}};
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto read = [&](const std::string& what) {
            return read_profile(with_value("variable = \"" + row.name + "\"\n" + what +
                                           "\nreason = \"r\"\nsource = \"s\"\n"),
                                "f.toml");
        };
        CHECK_THROWS_AS(read("value = \"1\""), Error);
        if (row.may_be_left)
            CHECK_NOTHROW(read("leave = true"));
        else
            CHECK_THROWS_AS(read("leave = true"), Error);
    }
    for (const std::string name : {"NCCL_NET_GDR_LEVEL", "NCCL_P2P_LEVEL", "NCCL_NVLS_ENABLE",
                                   "NCCL_P2P_DISABLE", "FI_PROVIDER"}) {
        CAPTURE(name);
        CHECK_NOTHROW(read_profile(with_value("variable = \"" + name +
                                              "\"\nleave = true\nreason = \"r\"\nsource = "
                                              "\"s\"\n"),
                                   "f.toml"));
    }
}

TEST_CASE("values that NCCL would not take as they are meant are refused") {
    struct Row {
        std::string name, value, since;
        std::string fault;  ///< "" for a good value
    };
    const std::vector<Row> rows = {
        {"NCCL_P2P_LEVEL", "NVL", "", ""},
        {"NCCL_P2P_LEVEL", "nvl", "", "did you mean 'NVL'?"},
        {"NCCL_P2P_LEVEL", "NV", "", "did you mean"},
        {"NCCL_P2P_LEVEL", "NVL ", "", "is no value of NCCL_P2P_LEVEL"},
        {"NCCL_P2P_LEVEL", "NODE", "", "is no value of NCCL_P2P_LEVEL"},
        {"NCCL_P2P_LEVEL", "2", "", ""},
        {"NCCL_P2P_LEVEL", "12", "", "is no value of NCCL_P2P_LEVEL"},
        {"NCCL_P2P_LEVEL", "C2C", "", "add since = \"2.26\""},
        {"NCCL_P2P_LEVEL", "C2C", "2.25", "NCCL before 2.26 ignores"},
        {"NCCL_P2P_LEVEL", "C2C", "2.26", ""},
        {"NCCL_P2P_LEVEL", "C2C", "2.26.2", ""},
        {"NCCL_NET_GDR_LEVEL", "PIX", "", ""},
        {"NCCL_NET_GDR_LEVEL", "P2C", "2.27", "add since = \"2.27.3\""},
        {"NCCL_NET_GDR_LEVEL", "P2C", "2.27.3", ""},
        {"NCCL_NET_MERGE_LEVEL", "PORT", "", ""},
        {"NCCL_NET_MERGE_LEVEL", "Port", "", "did you mean 'PORT'?"},
        {"NCCL_SOCKET_FAMILY", "AF_INET6", "", ""},
        {"NCCL_NETDEVS_POLICY", "MAX:2", "", ""},
        {"NCCL_NETDEVS_POLICY", "MAX", "", "is no value"},
        {"NCCL_NETDEVS_POLICY", "MAX:few", "", "is no value"},
        {"GLOO_SOCKET_IFNAME", "eth0,eth1", "", ""},
        {"GLOO_SOCKET_IFNAME", "eth0, eth1", "", "is no list of names"},
        {"GLOO_SOCKET_IFNAME", "=eth0", "", "is no list of names"},
        {"FI_PROVIDER", "a\\u009b31m", "", "cannot be shown"},
        {"FI_PROVIDER", "a\\u202eb", "", "cannot be shown"},
        {"FI_PROVIDER", "a\\nb", "", "cannot be shown"},
        {"NCCL_SOCKET_FAMILY", "ipv6", "", "is no value"},
        {"NCCL_IGNORE_DISABLED_P2P", "1", "", ""},
        {"NCCL_IGNORE_DISABLED_P2P", "2", "", "never set automatically"},
        {"NCCL_IGNORE_DISABLED_P2P", "0x2", "", "never set automatically"},
        {"NCCL_IB_TIMEOUT", "22", "", ""},
        {"NCCL_IB_TIMEOUT", "32", "", "out of range"},
        {"NCCL_IB_TIMEOUT", "22s", "", "is no number"},
        {"NCCL_IB_RETRY_CNT", "8", "", "0 to 7"},
        {"NCCL_IB_TC", "106", "", ""},
        {"NCCL_IB_TC", "0x6a", "", ""},
        {"NCCL_IB_TC", "256", "", "0 to 255"},
        {"NCCL_IB_TC", "-1", "", "add since = \"2.26.2\""},
        {"NCCL_IB_TC", "-1", "2.26.2", ""},
        {"NCCL_IB_SL", "16", "", "out of range"},
        {"NCCL_IB_GID_INDEX", "3", "", ""},
        {"NCCL_IB_GID_INDEX", "-1", "2.20", "add since = \"2.21.5\""},
        {"NCCL_NTHREADS", "256", "", ""},
        {"NCCL_NTHREADS", "100", "", "in steps of 32"},
        {"NCCL_SOCKET_NTHREADS", "17", "", "out of range"},
        {"NCCL_CROSS_NIC", "yes", "", "is no number"},
        {"NCCL_SOME_NEW_ENABLE", "on", "", "is no number"},
        {"NCCL_SOME_NEW_ENABLE", "1", "", ""},
        {"NCCL_SOME_NEW_WORD", "on", "", ""},
        {"NCCL_IB_HCA", "=mlx5_0:1,mlx5_1", "", ""},
        {"NCCL_IB_HCA", "^=mlx5_0", "", ""},
        {"NCCL_IB_HCA", "mlx5_0, mlx5_1", "", "without blanks"},
        {"NCCL_IB_HCA", "mlx5_0,,mlx5_1", "", "no list of names"},
        {"NCCL_SOCKET_IFNAME", "=eth0", "", ""},
        {"NCCL_SOCKET_IFNAME", "^docker,lo", "", ""},
        {"NCCL_SOCKET_IFNAME", "e", "", "no list of names"},
        {"UCX_TLS", "tcp", "", ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        CAPTURE(row.value);
        CAPTURE(row.since);
        const std::string text =
            with_value("variable = \"" + row.name + "\"\nvalue = \"" + row.value +
                       "\"\nreason = \"r\"\nsource = \"s\"\n" +
                       (row.since.empty() ? "" : "since = \"" + row.since + "\"\n"));
        if (row.fault.empty()) {
            CHECK_NOTHROW(read_profile(text, "f.toml"));
            continue;
        }
        try {
            read_profile(text, "f.toml");
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            const std::string what = error.what() + (" " + error.hint());
            CAPTURE(what);
            CHECK(what.find(row.fault) != std::string::npos);
            CHECK(error.where() == "f.toml:7:9");
        }
    }
}

TEST_CASE("a rule of profiler-versions is read with all its keys") {
    const auto versions = read_profiler_versions(
        "[[rules]]\nlibrary = \"nccl\"\nsince = \"2.30\"\nuntil = \"2.30.7\"\n"
        "shm_below_bytes = 67108865\nload = false\nreason = \"r\"\n"
        "source = \"s\"\n",
        "v.toml");
    REQUIRE(versions.rules.size() == 1);
    const auto& rule = versions.rules[0];
    CHECK(rule.library == "nccl");
    CHECK(rule.since == "2.30");
    CHECK(rule.until == "2.30.7");
    CHECK(rule.shm_below_bytes == 67108865u);
    CHECK_FALSE(rule.load);
    CHECK(rule.where == "v.toml:1:1");
}

TEST_CASE("each fault of a profiler rule is named") {
    const std::vector<Fault> faults = {
        {"no library", "[[rules]]\nload = true\nreason = \"r\"\nsource = \"s\"\n", "library", "",
         ""},
        {"library", "[[rules]]\nlibrary = \"ncl\"\n", "'ncl' is no value", "v.toml:2:11", "nccl"},
        {"no load", "[[rules]]\nlibrary = \"nccl\"\nreason = \"r\"\nsource = \"s\"\n",
         "'load' is missing", "v.toml:1:1", ""},
        {"no source", "[[rules]]\nlibrary = \"nccl\"\nload = true\nreason = \"r\"\n", "source",
         "v.toml:1:1", ""},
        {"shm", "[[rules]]\nlibrary = \"nccl\"\nload = true\nshm_below_bytes = 0\n", "above 0",
         "v.toml:4:19", ""},
        {"unknown key",
         "[[rules]]\nlibrary = \"nccl\"\nload = true\nreason = \"r\"\nsource = \"s\"\nrason = 1\n",
         "rason", "v.toml:6:1", "reason"},
        {"unknown table", "[[rule]]\n", "rule", "", "rules"},
    };
    for (const Fault& fault : faults) {
        CAPTURE(fault.name);
        try {
            read_profiler_versions(fault.text, "v.toml");
            FAIL_CHECK("accepted");
        } catch (const Error& error) {
            const std::string what = error.what();
            CAPTURE(what);
            CAPTURE(error.where());
            CHECK(what.find(fault.what) != std::string::npos);
            CHECK((fault.where.empty() || error.where() == fault.where));
            CHECK((error.hint() + what).find(fault.hint) != std::string::npos);
        }
    }
}

}  // namespace
