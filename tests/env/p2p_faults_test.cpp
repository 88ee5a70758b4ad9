#include <string>
#include <vector>

#include "machines.hpp"

/// Faults of P2P over PCIe and what is chosen against them.
namespace {

using namespace toporun::tests;
namespace env = toporun::env;

TEST_CASE("a fault between GPUs that the job does not use is none") {
    Machine machine = host(1, 32);
    add_gpus(machine, 4, "NVIDIA L40S", PathType::PIX);
    machine.gpu_acs_redirect.assign(4, std::vector<AcsRedirect>(4, AcsRedirect::off));
    machine.gpu_acs_redirect[2][3] = machine.gpu_acs_redirect[3][2] = AcsRedirect::on;
    for (const int ranks : {2, 4}) {
        CAPTURE(ranks);
        const auto made = plan(machine, job(ranks));
        CHECK((finding_ids(made) == std::vector<std::string>{"acs-redirect"}) == (ranks == 4));
        CHECK(exported(made, "NCCL_P2P_DISABLE").has_value() == (ranks == 4));
    }
}

TEST_CASE("where the version or the CPU is not known a fault counts that one of them would bring") {
    Machine machine = host(1, 32);
    add_gpus(machine, 4, "NVIDIA L40S", PathType::PHB);
    machine.software.iommu_translating = true;
    struct Row {
        const char* vendor;
        const char* nccl;
        bool faulty;
    };
    for (const Row& row :
         {Row{"AuthenticAMD", "2.28.9", false}, Row{"AuthenticAMD", "2.18.3", true},
          Row{"AuthenticAMD", "", true}, Row{"", "2.18.3", true}, Row{"", "2.28.9", false},
          Row{"GenuineIntel", "", false}, Row{"GenuineIntel", "2.18.3", false}}) {
        CAPTURE(row.vendor);
        CAPTURE(row.nccl);
        machine.cpu.vendor = row.vendor;
        machine.software.nccl_version = row.nccl;
        if (*row.nccl == '\0') machine.software.nccl_version.reset();
        const auto made = plan(machine, job(4));
        CHECK(has_finding(made, "iommu-translating") == row.faulty);
        CHECK(exported(made, "NCCL_P2P_DISABLE").has_value() == row.faulty);
    }
}

TEST_CASE("a value of the user that gives P2P to a faulty pair is a fault") {
    Machine machine = host(1, 32);
    add_gpus(machine, 4, "NVIDIA L40S", PathType::PHB);
    machine.cpu.vendor = "AuthenticAMD";
    machine.software.nccl_version = "2.28.9";
    machine.software.iommu_translating = true;
    const auto made = plan(machine, job(4), user({{"NCCL_P2P_LEVEL", "SYS"}}));
    REQUIRE(has_finding(made, "iommu-translating"));
    for (const auto& finding : made.findings) {
        CHECK(finding.fix == "unset NCCL_P2P_LEVEL");
        CHECK(finding.fix.find("measurement") == std::string::npos);
    }
    CHECK(finding_ids(plan(machine, job(4), user({{"NCCL_P2P_LEVEL", "PXB"}}))).empty());
}

TEST_CASE("NVLink that may be there is not switched off against a fault") {
    Machine machine = host(1, 32);
    add_gpus(machine, 4, "Tesla V100-SXM2-16GB", PathType::PIX);
    machine.software.iommu_translating = true;
    CHECK(exported(plan(machine, job(4)), "NCCL_P2P_DISABLE") == "1");
    for (auto& row : machine.gpu_links) row.assign(4, -1);
    const auto made = plan(machine, job(4));
    CHECK_FALSE(exported(made, "NCCL_P2P_DISABLE"));
    CHECK(exported(made, "NCCL_P2P_LEVEL") == "NVB");
    CHECK(setting(made, "NCCL_P2P_LEVEL").evidence.find("whether NVLink joins") !=
          std::string::npos);
}

TEST_CASE("a fault on the PCIe way takes PCIe P2P away and never NVLink") {
    struct Row {
        std::string name;
        Machine machine;
        std::optional<std::string> level, disable;
    };
    Machine mixed = switched();
    connect(mixed, 0, 1, PathType::NVL, 4);
    Machine refused = switched();
    set_peer_access(refused, PeerAccess::refused);
    std::vector<Row> rows = {
        {"switch", switched(), std::nullopt, "1"},
        {"switch and a bridge", mixed, "NVL", std::nullopt},
        {"all NVLink", hgx_h100(), "NVL", std::nullopt},
        {"bridges, rest on SHM", bridged_pairs(), std::nullopt, std::nullopt},
        {"refused already", refused, std::nullopt, std::nullopt},
    };
    for (const Row& row : rows) {
        for (const bool acs : {true, false}) {
            CAPTURE(row.name);
            CAPTURE(acs);
            Machine machine = row.machine;
            machine.software.acs_redirect = acs;
            if (acs) set_acs_redirect(machine, AcsRedirect::on);
            machine.software.iommu_translating = !acs;
            const auto made = plan(machine, job(4));
            CHECK(exported(made, "NCCL_P2P_LEVEL") == row.level);
            CHECK(exported(made, "NCCL_P2P_DISABLE") == row.disable);
            const bool said = !finding_ids(made).empty();
            CHECK(said == (row.name.starts_with("switch")));
            if (said) CHECK(finding_ids(made)[0] == (acs ? "acs-redirect" : "iommu-translating"));
        }
    }
}

TEST_CASE("ACS redirect counts for the pairs that it concerns") {
    struct Row {
        std::string name;
        Machine machine;
        std::vector<std::pair<int, int>> on;  ///< all others are off
        std::optional<std::string> level, disable;
    };
    Machine two_switches = switched();  // 0 and 1, 2 and 3 below one switch each
    for (const auto& [a, b] : {std::pair(0, 2), {0, 3}, {1, 2}, {1, 3}})
        connect(two_switches, a, b, PathType::PXB);
    Machine with_link = two_switches;
    connect(with_link, 0, 1, PathType::NVL, 4);
    Machine all_links = hgx_h100();
    const std::vector<Row> rows = {
        {"nowhere between GPUs", two_switches, {}, std::nullopt, std::nullopt},
        {"between the switches", two_switches, {{0, 2}, {1, 3}}, "PIX", std::nullopt},
        {"below a switch", two_switches, {{0, 1}}, std::nullopt, "1"},
        {"at an NVLink pair", with_link, {{0, 1}}, std::nullopt, std::nullopt},
        {"NVLink beside it", with_link, {{2, 3}}, "NVL", std::nullopt},
        {"between the switches, NVLink below", with_link, {{0, 2}}, "PIX", std::nullopt},
        {"every pair on NVLink", all_links, {{0, 1}}, "NVL", std::nullopt},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = row.machine;
        machine.software.acs_redirect = true;  // some bridge's, which proves nothing for a pair
        set_acs_redirect(machine, AcsRedirect::off);
        for (const auto& [a, b] : row.on) {
            const auto x = static_cast<std::size_t>(a), y = static_cast<std::size_t>(b);
            machine.gpu_acs_redirect[x][y] = machine.gpu_acs_redirect[y][x] = AcsRedirect::on;
        }
        const auto made = plan(machine, job(4));
        CHECK(exported(made, "NCCL_P2P_LEVEL") == row.level);
        CHECK(exported(made, "NCCL_P2P_DISABLE") == row.disable);
        const bool concerns = row.disable || (row.level && row.name != "every pair on NVLink");
        CHECK(finding_ids(made).empty() == !concerns);
        if (concerns) CHECK(finding_ids(made)[0] == "acs-redirect");
    }
}

TEST_CASE("a bit of the whole machine is said and changes nothing") {
    Machine machine = switched();
    machine.software.acs_redirect = true;
    const auto made = plan(machine, job(4));
    CHECK_FALSE(exported(made, "NCCL_P2P_LEVEL"));
    CHECK_FALSE(exported(made, "NCCL_P2P_DISABLE"));
    REQUIRE(finding_ids(made) == std::vector<std::string>{"acs-redirect"});
    CHECK(made.findings[0].what.find("not known") != std::string::npos);
    CHECK_FALSE(made.findings[0].fix.empty());
    machine.gpu_acs_redirect = {{}};  // a matrix of the wrong size is none
    CHECK(finding_ids(plan(machine, job(4))).size() == 1);
    machine.software.acs_redirect = false;
    CHECK(finding_ids(plan(machine, job(4))).empty());
}

TEST_CASE("a fault that no level of an old version avoids is said and left") {
    Machine machine = host(2, 16);
    add_gpus(machine, 4, "Tesla V100-SXM2-32GB", PathType::NVB);
    connect(machine, 0, 1, PathType::PIX);
    set_acs_redirect(machine, AcsRedirect::on);
    machine.software.nccl_version = "2.7.8";  // NVB is a name since 2.8
    const auto made = plan(machine, job(4));
    CHECK_FALSE(exported(made, "NCCL_P2P_LEVEL"));
    CHECK_FALSE(exported(made, "NCCL_P2P_DISABLE"));
    machine.software.nccl_version = "2.20.5";
    CHECK(exported(plan(machine, job(4)), "NCCL_P2P_LEVEL") == "NVB");
}

TEST_CASE("a row that decides takes P2P over PCIe away and never NVLink") {
    struct Row {
        std::string name;
        Machine machine;
        std::string driver;
        std::optional<std::string> level, disable;
        std::string ids;
    };
    constexpr const char* kAda = "NVIDIA GeForce RTX 4090";
    Machine mixed = geforce(kAda, PathType::SYS, PeerAccess::unknown);
    mixed.gpus[2].name = mixed.gpus[3].name = "NVIDIA RTX A6000";
    mixed.gpus[0].name = "NVIDIA RTX A6000";
    connect(mixed, 2, 3, PathType::NVL, 4);
    const Machine apart = geforce(kAda, PathType::SYS, PeerAccess::ok);
    Machine new_nccl = apart;
    new_nccl.software.nccl_version = "2.28.9";  // P2P up to PXB: nothing to take away
    const std::vector<Row> rows = {
        {"claimed", apart, "525.85.12", {}, "1", "p2p-known-bad"},
        {"not asked",
         geforce(kAda, PathType::SYS, PeerAccess::unknown),
         "520.61.05",
         {},
         "1",
         "p2p-known-bad"},
        {"refused", geforce(kAda, PathType::SYS, PeerAccess::refused), "525.85.12", {}, {}, ""},
        {"later driver, claimed", apart, "550.54.14", {}, {}, ""},
        {"another card",
         geforce("NVIDIA RTX A6000", PathType::SYS, PeerAccess::ok),
         "525.85.12",
         {},
         {},
         ""},
        {"SHM by itself", new_nccl, "525.85.12", {}, {}, ""},
        {"one such card", mixed, "525.85.12", {}, {}, ""},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        Machine machine = row.machine;
        machine.software.driver = row.driver;
        const auto made = plan(machine, job(4));
        CHECK(exported(made, "NCCL_P2P_LEVEL") == row.level);
        CHECK(exported(made, "NCCL_P2P_DISABLE") == row.disable);
        CHECK((finding_ids(made).empty() ? "" : finding_ids(made)[0]) == row.ids);
        if (!row.disable) continue;
        CHECK(count_transport(made, "P2P", true) == 6);
        CHECK(count_transport(made, "SHM", false) == 6);
        CHECK(setting(made, "NCCL_P2P_DISABLE").evidence.find("row 1 of") != std::string::npos);
        CHECK(made.findings[0].what.find("ACS") == std::string::npos);
    }
}

}  // namespace
