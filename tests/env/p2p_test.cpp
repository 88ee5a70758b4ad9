#include <string>
#include <vector>

#include "machines.hpp"

namespace {

using namespace toporun::tests;
namespace env = toporun::env;

TEST_CASE("every pair on NVLink exports NVL with the profile's reason") {
    const auto made = plan(hgx_h100(), job(8));
    const env::Setting level = setting(made, "NCCL_P2P_LEVEL");
    CHECK(level.value == "NVL");
    CHECK(level.exported);
    CHECK(env::origin_text(level) == "profile:hgx-h100");
    CHECK(level.evidence == "28 GPU pairs: 28 NVL");
    CHECK(level.nccl_default.find("P2P up to PXB") != std::string::npos);
    CHECK(made.profile == "hgx-h100");
    CHECK_FALSE(has_setting(made, "NCCL_P2P_DISABLE"));
}

TEST_CASE("NVL is detected on a machine that no profile knows") {
    Machine machine = host(1, 16);
    add_gpus(machine, 2, "NVIDIA GeForce RTX 3090", PathType::NVL, 4);
    const auto level = setting(plan(machine, job(2)), "NCCL_P2P_LEVEL");
    CHECK(level.value == "NVL");
    CHECK(env::origin_text(level) == "detected");
}

TEST_CASE("NVLink through a third GPU exports NVB") {
    Machine machine = host(2, 16);
    add_gpus(machine, 8, "Tesla V100-SXM2-32GB", PathType::NVB);
    for (int i = 0; i < 7; ++i) connect(machine, i, i + 1, PathType::NVL, 2);
    CHECK(exported(plan(machine, job(8)), "NCCL_P2P_LEVEL") == "NVB");
    machine.software.nccl_version = "2.7.8";  // NVB is a name since 2.8
    CHECK_FALSE(exported(plan(machine, job(8)), "NCCL_P2P_LEVEL"));
}

TEST_CASE("what is left to NCCL says why") {
    struct Row {
        std::string name;
        Machine machine;
        std::string reason;
    };
    Machine none = host(1, 4);
    Machine unknown = host(1, 4);
    unknown.gpus_known = false;
    Machine one = host(1, 4);
    add_gpus(one, 1, "NVIDIA L40S", PathType::SYS);
    Machine no_matrix = switched();
    no_matrix.gpu_paths.clear();
    Machine ragged = switched();
    ragged.gpu_paths[2].pop_back();
    Machine old = hgx_h100();
    old.software.nccl_version = "2.5.6";
    Machine amd = hgx_h100();
    for (auto& gpu : amd.gpus) gpu.vendor = "amd", gpu.name = "AMD Instinct MI300X";
    Machine geforce = host(1, 16);
    add_gpus(geforce, 4, "NVIDIA GeForce RTX 4090", PathType::PHB);
    set_peer_access(geforce, PeerAccess::refused);
    const std::vector<Row> rows = {
        {"no GPU", none, "no GPU"},
        {"no word of GPUs", unknown, "the GPUs are not known"},
        {"one GPU", one, "one GPU"},
        {"no matrix", no_matrix, "not known"},
        {"ragged matrix", ragged, "not known"},
        {"pairs", bridged_pairs(), "a question for a measurement"},
        {"switch", switched(), "a question for a measurement"},
        {"2.5", old, "number 0"},
        {"AMD", amd, "RCCL"},
        {"refused", geforce, "the driver refuses P2P"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.name);
        const auto level = setting(plan(row.machine, job(4)), "NCCL_P2P_LEVEL");
        CHECK_FALSE(level.value);
        CHECK_FALSE(level.exported);
        CHECK(env::origin_text(level) == "left-to-nccl");
        CHECK(level.reason.find(row.reason) != std::string::npos);
    }
}

TEST_CASE("an unknown version still exports NVL and says that it holds in all") {
    Machine machine = hgx_h100();
    machine.software.nccl_version.reset();
    const auto level = setting(plan(machine, job(8)), "NCCL_P2P_LEVEL");
    CHECK(level.value == "NVL");
    CHECK(level.reason.find("every version") != std::string::npos);
}

TEST_CASE("a pair without NVLink keeps NVL away however it shows") {
    std::vector<Machine> machines(5, hgx_h100());
    connect(machines[0], 3, 5, PathType::SYS, 0);
    machines[1].gpu_paths[6][2] = PathType::PHB;  // the two directions differ
    machines[2].gpu_links[0][1] = 0;              // a path of links without a link
    machines[3].peer_access[1][0] = PeerAccess::refused;
    machines[4].gpus[7].mig = true;
    for (std::size_t i = 0; i < machines.size(); ++i) {
        CAPTURE(i);
        CHECK_FALSE(exported(plan(machines[i], job(8)), "NCCL_P2P_LEVEL"));
    }
}

TEST_CASE("the level and the default are those of the GPUs in the job") {
    Machine machine = host(1, 32);
    machine.cpu.vendor = "AuthenticAMD";
    add_gpus(machine, 8, "NVIDIA RTX 6000 Ada", PathType::PHB);
    connect(machine, 0, 1, PathType::NVL, 4);
    const auto two_ranks = plan(machine, job(2));
    REQUIRE(two_ranks.pairs.size() == 1);
    CHECK(exported(two_ranks, "NCCL_P2P_LEVEL") == "NVL");  // their own pair has NVLink
    const auto two_visible = plan(machine, job(2), user({{"CUDA_VISIBLE_DEVICES", "4,6"}}));
    REQUIRE(two_visible.pairs.size() == 1);
    CHECK(two_visible.pairs[0].a == 4);
    CHECK(two_visible.pairs[0].b == 6);
    CHECK(two_visible.pairs[0].transport_default == "P2P");  // AMD, two GPUs: up to SYS
    const auto all = plan(machine, job(8));
    CHECK(count_transport(all, "P2P", true) == 1);
    CHECK(exported(plan(machine, job(2), user({{"CUDA_VISIBLE_DEVICES", "1,0"}})),
                   "NCCL_P2P_LEVEL") == "NVL");
}

TEST_CASE("tasks that see one GPU each are decided for with all GPUs of the host") {
    const auto one_visible = user({{"CUDA_VISIBLE_DEVICES", "3"}});
    env::Job task = job(8);
    task.launcher = "plain";
    const auto full = plan(hgx_h100(), task, one_visible);
    CHECK(exported(full, "NCCL_P2P_LEVEL") == "NVL");
    CHECK(full.pairs.size() == 28);
    CHECK(setting(full, "NCCL_P2P_LEVEL").evidence.find("one GPU is visible to each task") !=
          std::string::npos);
    task.ranks_per_node = 4;  // four of the eight, nobody knows which
    const auto half = plan(hgx_h100(), task, one_visible);
    CHECK(exported(half, "NCCL_P2P_LEVEL") == "NVL");
    CHECK(half.pairs.empty());
    task.ranks_per_node = 1;
    CHECK_FALSE(exported(plan(hgx_h100(), task, one_visible), "NCCL_P2P_LEVEL"));
}

TEST_CASE("what a stock driver refuses is assumed where nobody asked it") {
    struct Row {
        std::string gpu;
        std::string driver;
        bool guest;
        PathType path;
        PeerAccess access;
        std::string transport;
    };
    constexpr auto kUnknown = PeerAccess::unknown;
    const std::vector<Row> rows = {
        {"NVIDIA GeForce RTX 4090", "", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce RTX 4090", "550.54", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce RTX 4090", "550.54", false, PathType::PIX, PeerAccess::ok, "P2P"},
        {"NVIDIA GeForce RTX 4060 Ti", "", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce RTX 5090", "", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce RTX 3090", "", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce RTX 3090", "", false, PathType::NVL, kUnknown, "P2P"},
        {"NVIDIA GeForce RTX 2080 Ti", "", false, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA GeForce GTX 1080 Ti", "", false, PathType::PIX, kUnknown, "P2P"},
        {"NVIDIA L4", "", true, PathType::PIX, kUnknown, "SHM"},
        {"NVIDIA L4", "", false, PathType::PIX, kUnknown, "P2P"},
        {"NVIDIA L40S", "", false, PathType::PIX, kUnknown, "P2P"},
        {"Tesla T4", "", true, PathType::PIX, kUnknown, "P2P"},
        {"Tesla T4", "", false, PathType::PIX, kUnknown, "P2P"},
        {"NVIDIA T400", "", true, PathType::PIX, kUnknown, "P2P"},
        {"NVIDIA RTX A6000", "", false, PathType::PIX, kUnknown, "P2P"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.gpu);
        CAPTURE(row.driver);
        Machine machine = geforce(row.gpu, row.path, row.access);
        machine.virtual_machine = row.guest;
        if (!row.driver.empty()) machine.software.driver = row.driver;
        const auto made = plan(machine, job(4));
        CHECK(count_transport(made, row.transport, true) == 6);
        const auto level = setting(made, "NCCL_P2P_LEVEL");
        const bool assumed = row.transport == "SHM";
        CHECK((level.evidence.find("assumed to refuse") != std::string::npos) == assumed);
        CHECK((level.reason.find("most likely refuses") != std::string::npos) == assumed);
    }
}

TEST_CASE("one card of the pair is enough for a refusal and the evidence counts the pairs") {
    Machine machine = geforce("NVIDIA RTX A6000", PathType::PIX, PeerAccess::unknown);
    machine.gpus[3].name = "NVIDIA GeForce RTX 4090";
    const auto made = plan(machine, job(4));
    CHECK(count_transport(made, "SHM", true) == 3);
    CHECK(setting(made, "NCCL_P2P_LEVEL").evidence.find("not known for 3 of them") !=
          std::string::npos);
}

TEST_CASE("each word of the user that NCCL does not understand has one finding") {
    struct Row {
        std::string value;
        std::vector<std::string> ids;
        std::string fix;
    };
    const std::vector<Row> rows = {
        {"NV", {"p2p-level-not-a-level"}, "NCCL_P2P_LEVEL=NVL"},
        {"nvl", {"p2p-level-not-a-level"}, "NCCL_P2P_LEVEL=NVL"},
        {" NVL", {"p2p-level-not-a-level"}, "NCCL_P2P_LEVEL=NVL"},
        {"NVLL", {"p2p-level-not-a-level"}, "did you mean"},
        {"everything", {"p2p-level-not-a-level"}, "unset"},
        {"\x1b[31m", {"p2p-level-not-a-level"}, "unset"},
        {"", {"p2p-level-empty"}, "unset"},
        {"4", {"p2p-level-digit"}, "NCCL_P2P_LEVEL=SYS"},
        {"NVL", {}, ""},
        {"SYS", {}, ""},
        {"LOC", {"p2p-takes-nvlink"}, "NVL"},
    };
    for (const Row& row : rows) {
        CAPTURE(row.value);
        const auto made = plan(hgx_h100(), job(8), user({{"NCCL_P2P_LEVEL", row.value}}));
        CHECK(finding_ids(made) == row.ids);
        if (!row.ids.empty()) {
            const auto& found = made.findings[0];
            CHECK((found.fix + "; " + found.remark).find(row.fix) != std::string::npos);
        }
        const auto level = setting(made, "NCCL_P2P_LEVEL");
        CHECK(level.value == row.value);
        CHECK(env::origin_text(level) == "user");
        CHECK_FALSE(level.exported);
    }
}

TEST_CASE("P2P switched off by the user is kept and said where NVLink is lost") {
    const auto with_links = plan(hgx_h100(), job(8), user({{"NCCL_P2P_DISABLE", "1"}}));
    CHECK(finding_ids(with_links) == std::vector<std::string>{"p2p-takes-nvlink"});
    CHECK(setting(with_links, "NCCL_P2P_DISABLE").value == "1");
    CHECK_FALSE(exported(with_links, "NCCL_P2P_LEVEL"));
    CHECK(count_transport(with_links, "SHM", false) == 28);

    CHECK(finding_ids(plan(switched(), job(4), user({{"NCCL_P2P_DISABLE", "1"}}))) ==
          std::vector<std::string>{"p2p-level-differs"});
    CHECK(finding_ids(plan(switched(), job(4), user({{"NCCL_P2P_DISABLE", "true"}}))) ==
          std::vector<std::string>{"p2p-disable-no-number"});
    CHECK(finding_ids(plan(switched(), job(4), user({{"NCCL_P2P_DISABLE", "0"}}))).empty());
}

TEST_CASE("a level that changes no transport is no finding and one that does is") {
    CHECK(finding_ids(plan(switched(), job(4), user({{"NCCL_P2P_LEVEL", "PXB"}}))).empty());
    CHECK(finding_ids(plan(switched(), job(4), user({{"NCCL_P2P_LEVEL", "NVL"}}))) ==
          std::vector<std::string>{"p2p-level-differs"});
}

TEST_CASE("names on a version before 2.6 are said to mean LOC") {
    Machine machine = hgx_h100();
    machine.software.nccl_version = "2.5.6";
    const auto made = plan(machine, job(8), user({{"NCCL_P2P_LEVEL", "NVL"}}));
    REQUIRE(finding_ids(made).size() == 2);
    CHECK(finding_ids(made)[0] == "p2p-level-too-new");
    CHECK(finding_ids(made)[1] == "p2p-takes-nvlink");
    CHECK(count_transport(made, "P2P", false) == 0);
}

TEST_CASE("a conf file's level counts as set") {
    env::UserEnvironment environment;
    environment.conf = {{"NCCL_P2P_LEVEL", "PXB", "/etc/nccl.conf:3"}};
    const auto level = setting(plan(hgx_h100(), job(8), environment), "NCCL_P2P_LEVEL");
    CHECK(env::origin_text(level) == "conf");
    CHECK(level.value == "PXB");
    CHECK(level.reason.find("/etc/nccl.conf:3") != std::string::npos);
    CHECK_FALSE(level.exported);
}

TEST_CASE("a profile's level that would take NVLink is not followed") {
    toporun::profiles::Profile profile;
    profile.name = "bad";
    profile.match.gpu_count = 4;
    profile.values = {{"NCCL_P2P_LEVEL", "LOC", "r", "s", "", "", ""}};
    const auto decide = [&](const Machine& machine) {
        return env::decide(job(4), machine, {{profile}, {}, {}, {}}, {}, options());
    };
    CHECK_FALSE(exported(decide(bridged_pairs()), "NCCL_P2P_LEVEL"));
    CHECK(exported(decide(switched()), "NCCL_P2P_LEVEL") == "LOC");
    profile.values[0].value = "SYS";
    const auto raised = setting(decide(bridged_pairs()), "NCCL_P2P_LEVEL");
    CHECK(raised.value == "SYS");
    CHECK(env::origin_text(raised) == "profile:bad");
    profile.values[0].since = "2.29";
    CHECK_FALSE(exported(decide(bridged_pairs()), "NCCL_P2P_LEVEL"));
}

}  // namespace
