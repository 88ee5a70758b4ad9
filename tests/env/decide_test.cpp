#include <algorithm>
#include <limits>
#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

struct Named {
    std::string name;
    Machine machine;
};

/// Ordinary and odd machines.
std::vector<Named> machines() {
    std::vector<Named> all = {{"nothing known", Machine{}}, {"hgx", hgx_h100()}};
    Machine geforce = host(1, 16);
    add_gpus(geforce, 4, "NVIDIA GeForce RTX 4090", PathType::PHB);
    set_peer_access(geforce, PeerAccess::refused);
    all.push_back({"geforce", geforce});

    Machine sixteen = host(4, 250);
    add_gpus(sixteen, 16, "Tesla V100-SXM3-32GB", PathType::NVL, 6);
    all.push_back({"1000 cores and 16 GPUs", sixteen});

    Machine no_cpu = hgx_h100();
    no_cpu.cpu.allowed = {};
    all.push_back({"empty allowed set", no_cpu});
    no_cpu.cpu = {};
    all.push_back({"no CPU facts", no_cpu});

    Machine wrong = hgx_h100();
    wrong.gpu_paths.resize(3);
    wrong.gpu_links.assign(9, std::vector<int>(2, -7));
    wrong.peer_access.assign(1, {});
    wrong.gpu_nic_paths.assign(30, std::vector<std::optional<PathType>>(5, PathType::PIX));
    all.push_back({"matrices of the wrong size", wrong});

    Machine contradicting = hgx_h100();
    contradicting.gpu_paths[0][1] = PathType::DIS;
    contradicting.gpu_links[2][3] = std::numeric_limits<int>::min();
    contradicting.gpus[0].numa_node = -1;
    contradicting.gpus[1].numa_node = 999;
    all.push_back({"contradicting matrices", contradicting});

    Machine faults = host(2, 16);
    add_gpus(faults, 4, "NVIDIA L40S", PathType::PXB);
    faults.software.acs_redirect = faults.software.iommu_translating = true;
    set_acs_redirect(faults, AcsRedirect::on);
    faults.limits.cpu_quota = 1e300;
    faults.limits.shm_bytes = 0;
    faults.software.nccl_version = "not a version";
    add_nics(faults, {nic("docker0", NicKind::bridge, {"172.17.0.1/16"}),
                      nic("", NicKind::other, {"garbage", "10.0.0.1/999", "\xff\x1b["}),
                      nic("eth0", NicKind::ethernet, {"10.0.0.1/24"}),
                      nic("a name, with = signs", NicKind::ethernet, {"10.0.9.1/24"}),
                      nic("veth9", NicKind::veth, {"fe80::1/64"})});
    all.push_back({"faults and hostile names", faults});

    Machine repeated = host(1, 4);
    repeated.cpu.cores.insert(repeated.cpu.cores.end(), repeated.cpu.cores.begin(),
                              repeated.cpu.cores.end());
    repeated.cpu.numa_nodes.push_back(repeated.cpu.numa_nodes[0]);
    add_gpus(repeated, 2, std::string(10000, 'x'), PathType::LOC);
    all.push_back({"repeated cores", repeated});
    return all;
}

std::vector<env::Job> jobs() {
    std::vector<env::Job> all;
    for (const int nodes : {1, 2})
        for (const int ranks : {-1, 0, 1, 2, 4, 8, 4096}) all.push_back(job(ranks, nodes));
    env::Job unknown;
    all.push_back(unknown);
    unknown.same_host = true;
    unknown.rendezvous = "[fe80::1%eth0]:x";
    all.push_back(unknown);
    return all;
}

const std::vector<std::string> kVariables = {
    "NCCL_P2P_LEVEL",       "NCCL_P2P_DISABLE", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS",
    "TOPORUN_NUM_WORKERS",  "NCCL_DEBUG",       "NCCL_DEBUG_SUBSYS",  "NCCL_DEBUG_FILE",
    "NCCL_PROFILER_PLUGIN", "NCCL_NVLS_ENABLE", "NCCL_IB_HCA"};

const std::vector<std::string> kValues = {"",  "1",   "NVL", "nvl", "eth0",        "^lo",
                                          " ", "0x1", "=",   "^=",  "\x1b]0;x\x07"};

TEST_CASE("a variable that the user set is never exported on any machine") {
    for (const Named& one : machines())
        for (const env::Job& each : jobs())
            for (const std::string& variable : kVariables)
                for (const std::string& value : kValues) {
                    const auto made = plan(one.machine, each, user({{variable, value}}));
                    for (const env::Setting& setting : made.settings) {
                        if (!setting.exported) continue;
                        CAPTURE(one.name);
                        CAPTURE(variable);
                        CAPTURE(setting.name);
                        REQUIRE(setting.name != variable);
                        REQUIRE(setting.value.has_value());
                        REQUIRE_FALSE(setting.value->empty());
                    }
                }
}

TEST_CASE("a variable of a conf file is never exported either") {
    for (const Named& one : machines())
        for (const std::string& variable : kVariables) {
            if (!variable.starts_with("NCCL_")) continue;
            env::UserEnvironment environment;
            environment.conf = {{variable, "x", "/etc/nccl.conf:1"}};
            const auto made = plan(one.machine, job(4, 2), environment);
            CAPTURE(one.name);
            CAPTURE(variable);
            CHECK_FALSE(exported(made, variable));
        }
}

TEST_CASE("a variable that is to be left alone is never exported") {
    for (const Named& one : machines())
        for (const std::string& variable : kVariables) {
            env::Options how = options();
            how.leave = {variable};
            CAPTURE(one.name);
            CAPTURE(variable);
            CHECK_FALSE(exported(plan(one.machine, job(4, 2), {}, how), variable));
        }
}

TEST_CASE("nothing at all is exported when workers may start elsewhere") {
    for (const Named& one : machines()) {
        env::Job elsewhere = job(4, 2);
        elsewhere.same_host = false;
        const auto made = plan(one.machine, elsewhere);
        CAPTURE(one.name);
        CHECK_FALSE(made.binds);
        for (const env::Setting& setting : made.settings) CHECK_FALSE(setting.exported);
    }
    env::Job elsewhere = job(8);
    elsewhere.same_host = false;
    CHECK(setting(plan(hgx_h100(), elsewhere), "NCCL_P2P_LEVEL").reason.find("other hosts") !=
          std::string::npos);
}

TEST_CASE("every decision is present with its reason on every machine") {
    for (const Named& one : machines())
        for (const env::Job& each : jobs()) {
            const auto made = plan(one.machine, each);
            CAPTURE(one.name);
            for (const char* name :
                 {"NCCL_P2P_LEVEL", "NCCL_SOCKET_IFNAME", "OMP_NUM_THREADS", "TOPORUN_NUM_WORKERS",
                  "NCCL_DEBUG", "NCCL_DEBUG_SUBSYS", "NCCL_DEBUG_FILE", "NCCL_PROFILER_PLUGIN"}) {
                const auto decision = setting(made, name);
                CHECK_FALSE(decision.reason.empty());
                CHECK_FALSE(decision.nccl_default.empty());
                CHECK(decision.reason.find('\n') == std::string::npos);
            }
            CHECK_FALSE(made.bind_reason.empty());
            CHECK(made.takes_log == made.log_reason.empty());
            CHECK(made.measures == made.measure_reason.empty());
        }
}

TEST_CASE("bound ranks never overlap and stay within the allowed CPUs") {
    for (const Named& one : machines())
        for (const env::Job& each : jobs()) {
            const auto made = plan(one.machine, each);
            if (!made.binds) continue;
            CpuSet seen;
            for (const auto& rank : made.ranks) {
                CAPTURE(one.name);
                REQUIRE((seen & rank.cpus).empty());
                if (!one.machine.cpu.allowed.empty())
                    REQUIRE(one.machine.cpu.allowed.contains(rank.cpus));
                seen = seen | rank.cpus;
            }
        }
}

TEST_CASE("equal inputs give equal plans") {
    for (const Named& one : machines()) {
        const auto first = plan(one.machine, job(4, 2)), second = plan(one.machine, job(4, 2));
        REQUIRE(first.settings.size() == second.settings.size());
        for (std::size_t i = 0; i < first.settings.size(); ++i) {
            CHECK(first.settings[i].name == second.settings[i].name);
            CHECK(first.settings[i].value == second.settings[i].value);
            CHECK(first.settings[i].reason == second.settings[i].reason);
        }
        for (std::size_t i = 0; i < first.ranks.size(); ++i)
            CHECK(first.ranks[i].cpus == second.ranks[i].cpus);
    }
}

TEST_CASE("what else a profile says is in the plan and the user still wins") {
    toporun::profiles::Profile profile;
    profile.name = "site";
    profile.match.gpu_count_min = 8;
    profile.values = {{"NCCL_NVLS_ENABLE", "0", "r", "s", "2.27", "2.28", ""},
                      {"NCCL_P2P_DISABLE", "1", "r", "s", "", "", ""},
                      {"NCCL_BUFFSIZE", std::nullopt, "r", "s", "", "", ""}};
    const auto decide = [&](const env::UserEnvironment& environment, const Machine& machine) {
        return env::decide(job(8), machine, {{profile}, {}, {}, {}}, environment, options());
    };
    const auto made = decide({}, hgx_h100());
    CHECK(exported(made, "NCCL_NVLS_ENABLE") == "0");
    CHECK(env::origin_text(setting(made, "NCCL_NVLS_ENABLE")) == "profile:site");
    CHECK_FALSE(setting(made, "NCCL_BUFFSIZE").value);
    CHECK_FALSE(has_setting(made, "NCCL_P2P_DISABLE"));
    CHECK_FALSE(
        exported(decide(user({{"NCCL_NVLS_ENABLE", "1"}}), hgx_h100()), "NCCL_NVLS_ENABLE"));
    Machine newer = hgx_h100();
    newer.software.nccl_version = "2.29.2";
    CHECK_FALSE(has_setting(decide({}, newer), "NCCL_NVLS_ENABLE"));
}

TEST_CASE("a profile matches only where each of its features is there") {
    const auto name = [](const Machine& machine) { return plan(machine, job(2)).profile; };
    CHECK(name(hgx_h100()) == "hgx-h100");
    Machine machine = hgx_h100();
    machine.nvswitch = false;
    CHECK(name(machine) == "");
    machine = hgx_h100();
    machine.gpus[5].name = "NVIDIA A100-SXM4-80GB";
    CHECK(name(machine) == "");
    machine = hgx_h100();
    connect(machine, 0, 1, PathType::SYS);
    CHECK(name(machine) == "");
    Machine pcie = host(1, 8);
    add_gpus(pcie, 2, "Tesla T4", PathType::PHB);
    CHECK(name(pcie) == "");
    set_peer_access(pcie, PeerAccess::refused);
    CHECK(name(pcie) == "pcie-no-p2p");
    CHECK(name(host(1, 4)) == "");
}

TEST_CASE("values of the user that NCCL takes for something else are said") {
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"NCCL_COMM_ID", ""}}))) ==
          std::vector<std::string>{"nccl-empty-value"});
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"NCCL_ENV_PLUGIN", "site"}}))) ==
          std::vector<std::string>{"env-plugin"});
    CHECK(finding_ids(plan(hgx_h100(), job(8), user({{"NCCL_ENV_PLUGIN", "none"}}))).empty());
    struct Row {
        std::string name, value;
        bool said;
    };
    const std::vector<Row> rows = {{"NCCL_BUFFSIZE ", "1", true},
                                   {"NCCL_IB_HCA", "\"mlx5\"", true},
                                   {"NCCL_IB_HCA", " mlx5", true},
                                   {"NCCL_IB_HCA", "mlx5\r", true},
                                   {"NCCL_IB_HCA", "=mlx5_0,mlx5_1", false}};
    for (const Row& row : rows) {
        CAPTURE(row.value);
        env::UserEnvironment environment;
        environment.conf = {{row.name, row.value, "/etc/nccl.conf:1"}};
        const auto made = plan(hgx_h100(), job(8), environment);
        CHECK(finding_ids(made) ==
              (row.said ? std::vector<std::string>{"conf-line"} : std::vector<std::string>{}));
    }
}

TEST_CASE("a variable of NCCL that the user set is in the plan though no decision is about it") {
    env::UserEnvironment environment = user({{"NCCL_IB_TC", "106"}, {"HOME", "/root"}});
    environment.conf = {{"NCCL_IB_SL", "3", "/etc/nccl.conf:1"},
                        {"NCCL_IB_SL ", "4", "/etc/nccl.conf:2"}};
    const auto made = plan(host(1, 4), job(2), environment);
    CHECK(setting(made, "NCCL_IB_TC").value == "106");
    CHECK(env::origin_text(setting(made, "NCCL_IB_TC")) == "user");
    CHECK(setting(made, "NCCL_IB_SL").value == "3");
    CHECK(env::origin_text(setting(made, "NCCL_IB_SL")) == "conf");
    CHECK_FALSE(setting(made, "NCCL_IB_TC").exported);
    CHECK_FALSE(has_setting(made, "HOME"));
    CHECK_FALSE(has_setting(made, "NCCL_IB_SL "));
}

TEST_CASE("a name to leave that toporun never sets is said with the one that was meant") {
    struct Row {
        std::string name, fix;
        bool known;
    };
    const std::vector<Row> rows = {
        {"NCCL_P2P_LEVLE", "did you mean NCCL_P2P_LEVEL?", false},
        {"OMP_NUM_THREAD", "did you mean OMP_NUM_THREADS?", false},
        {"HOME", "", false},
        {"\x1b[31m", "", false},
        {"NCCL_P2P_LEVEL", "", true},
        {"NCCL_P2P_DISABLE", "", true},
        {"NCCL_PROFILER_PLUGIN", "", true},
        {"NCCL_IB_GID_INDEX", "", true},  // of a profile, which another machine may match
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        env::Options how = options();
        how.leave = {row.name};
        const auto made = plan(host(1, 4), job(2), {}, how);
        CHECK(finding_ids(made).empty() == row.known);
        if (row.known) continue;
        CHECK(finding_ids(made) == std::vector<std::string>{"leave-unknown-name"});
        CHECK(made.findings[0].severity == env::Severity::note);
        CHECK(made.findings[0].fix == row.fix);
    }
}

}  // namespace
