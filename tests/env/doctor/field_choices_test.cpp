#include <doctest/doctest.h>

#include "case_machines.hpp"
#include "detect/import/import.hpp"
#include "files.hpp"

/// Machines of reports on which something wrong was said or chosen.
namespace toporun::tests {
namespace {

Machine field_machine(const std::string& file) {
    const std::string text = read_file(std::string(TOPORUN_TEST_DATA) + "/env/field/" + file);
    const detect::Capture capture{"capture.txt", text};
    return detect::import_captures({&capture, 1});
}

/// Whether the plan is by that profile; fails the test when none is named so.
bool has_profile(const env::Plan& made, std::string_view name) {
    static const auto knowledge = profiles::builtin_knowledge();
    const auto named = [&](const auto& profile) { return profile.name == name; };
    REQUIRE(std::any_of(knowledge.profiles.begin(), knowledge.profiles.end(), named));
    return std::any_of(made.profiles.begin(), made.profiles.end(), named);
}

TEST_CASE("modules on adapters have no NVLink, and everything runs") {
    const env::Finding found =
        finding(examine(field_machine("v100-sxm2-adapter.txt")), "nvlink-missing");
    CHECK(found.severity == env::Severity::slow);
    CHECK(found.effect.find("CUDA") == std::string::npos);
    CHECK(found.remark.find("normal for modules on adapters") != std::string::npos);
    const env::Finding board =
        finding(examine(with_gpus(8, "NVIDIA A100-SXM4-80GB", PathType::SYS)), "nvlink-missing");
    CHECK(board.severity == env::Severity::broken);
    CHECK(board.effect.find("CUDA") != std::string::npos);
    Machine guest = with_gpus(2, "NVIDIA H100 80GB HBM3", PathType::PHB);
    guest.virtual_machine = true;
    CHECK(finding(examine(guest), "nvlink-missing").severity == env::Severity::broken);
    CHECK_FALSE(
        has(examine(with_gpus(2, "NVIDIA H100 80GB HBM2e", PathType::PHB)), "nvlink-missing"));
}

TEST_CASE("the second port of a card without a cable is missed by no GPU") {
    Machine card = field_machine("dual-port-card.txt");
    CHECK_FALSE(has(examine(card, {}, doctor_job(2, 8)), "rdma-port-down"));
    for (detect::Nic& nic : card.nics)
        if (nic.rdma_device == "mlx5_0") nic.port_state = nic.state = "down";
    CHECK(has(examine(card, {}, doctor_job(2, 8)), "rdma-port-down"));
    // Two adapters below each switch, by their places on the bus two cards: one is not in use.
    Machine machine = healthy_node();
    for (std::size_t gpu = 0; gpu < 8; ++gpu)
        for (std::size_t nic = 2; nic < machine.nics.size(); ++nic)
            if ((nic - 2) / 2 == gpu / 2) machine.gpu_nic_paths[gpu][nic] = PathType::PXB;
    machine.nics[2].port_state = machine.nics[2].state = "down";
    const env::Finding found = finding(examine(machine, {}, doctor_job(2, 8)), "rdma-port-down");
    CHECK(found.severity == env::Severity::note);
    machine.nics[3].port_state = machine.nics[3].state = "down";
    CHECK(finding(examine(machine, {}, doctor_job(2, 8)), "rdma-port-down").severity ==
          env::Severity::slow);
}

TEST_CASE("a redirect of unknown pairs sets nothing and does not say so") {
    Machine machine = field_machine("acs-two-ports.txt");
    const auto made = plan(machine, job(2));
    CHECK_FALSE(exported(made, "NCCL_P2P_DISABLE"));
    CHECK_FALSE(exported(made, "NCCL_P2P_LEVEL"));
    CHECK(finding(examine(machine), "acs-redirect").remark.find("toporun sets it") ==
          std::string::npos);
    set_acs_redirect(machine, AcsRedirect::on);
    const auto known = plan(machine, job(2));
    CHECK((exported(known, "NCCL_P2P_DISABLE") || exported(known, "NCCL_P2P_LEVEL")));
    CHECK(finding(examine(machine), "acs-redirect").remark.find("toporun sets it") !=
          std::string::npos);
}

TEST_CASE("inside a rack NVLink carries the data, and two variables take it away") {
    struct Row {
        std::string name, value, id;
        env::Severity severity;
    };
    const Machine machine = field_machine("gb200-tray.txt");
    for (const Row& row :
         std::vector<Row>{{"NCCL_CUMEM_ENABLE", "0", "variable-dangerous", env::Severity::slow},
                          {"NCCL_MNNVL_ENABLE", "0", "variable-for-debugging", env::Severity::note},
                          {"NCCL_IB_DISABLE", "1", "ib-disabled", env::Severity::note}}) {
        CAPTURE(row.name);
        const auto set = user({{row.name, row.value}});
        CHECK(finding(examine(machine, set, doctor_job(2, 4)), row.id).severity == row.severity);
        CHECK_FALSE(has(examine(machine, set, doctor_job(1, 4)), row.id));
    }
    const auto both = user({{"NCCL_IB_DISABLE", "1"}, {"NCCL_MNNVL_ENABLE", "0"}});
    CHECK(finding(examine(machine, both, doctor_job(2, 4)), "ib-disabled").severity ==
          env::Severity::slow);
    CHECK_FALSE(has(examine(healthy_node(), user({{"NCCL_CUMEM_ENABLE", "0"}}), doctor_job(2, 8)),
                    "variable-dangerous"));
}

TEST_CASE("one finding on NCCL_IB_HCA, with the list that toporun would set") {
    const env::Diagnosis found = examine(field_machine("hca-extra-and-prefix.txt"),
                                         user({{"NCCL_IB_HCA", "mlx5_1"}}), doctor_job(2, 8));
    CHECK_FALSE(has(found, "ib-hca-prefix"));
    CHECK(finding(found, "ib-hca-extra").fix.starts_with("export NCCL_IB_HCA==mlx5_0:1,"));
    CHECK(finding(found, "ib-hca-extra").what.find("also") == std::string::npos);
    // The same prefix where toporun has no list of its own to set.
    CHECK(finding(examine(field_machine("hca-extra-and-prefix.txt"),
                          user({{"NCCL_IB_HCA", "mlx5_1"}}), doctor_job(1, 8)),
                  "ib-hca-prefix")
              .what.find("also takes") != std::string::npos);
}

TEST_CASE("a port that carries no data of the job may have a small MTU") {
    Machine machine = field_machine("mtu-of-left-out-port.txt");
    CHECK_FALSE(has(examine(machine, {}, doctor_job(2, 8)), "roce-mtu-small"));
    for (detect::Nic& nic : machine.nics)
        if (nic.kind == NicKind::roce) nic.mtu = 1024;
    CHECK(has(examine(machine, {}, doctor_job(2, 8)), "roce-mtu-small"));
}

TEST_CASE("P2P of some versions is not called NCCL's choice") {
    const auto made = plan(field_machine("would-use-p2p.txt"), job(4));
    REQUIRE(has_finding(made, "p2p-known-bad"));
    const auto words = [](const env::Plan& plan, std::string_view text) {
        return std::any_of(plan.findings.begin(), plan.findings.end(), [&](const auto& found) {
            return found.evidence.find(text) != std::string::npos;
        });
    };
    CHECK_FALSE(words(made, "NCCL would use P2P"));
    CHECK(words(made, "that this may be would use P2P"));
    Machine near = with_gpus(4, "NVIDIA GeForce RTX 4090", PathType::PIX);
    near.software.driver = rtx_4090().software.driver;
    near.software.nccl_version = rtx_4090().software.nccl_version;
    CHECK(words(plan(near, job(4)), "NCCL would use P2P"));
}

TEST_CASE("P2P that a patched driver allows on RTX 30 is in the table, too") {
    CHECK(
        finding(examine(field_machine("patched-3090.txt")), "known-bad").evidence.find("row 45") !=
        std::string::npos);
}

TEST_CASE("no index is advised that is not right for every port") {
    for (const char* file : {"gid-index-differs.txt", "gid-one-port-without.txt"}) {
        CAPTURE(file);
        const env::Diagnosis found = examine(field_machine(file), {}, doctor_job(2, 8));
        const auto all = ids(found);
        CHECK(std::count(all.begin(), all.end(), "roce-gid-link-local") == 1);
        CHECK(finding(found, "roce-gid-link-local").fix == "use NCCL 2.21.5 or later");
        CHECK_FALSE(exported(plan(field_machine(file), job(8, 2)), "NCCL_IB_GID_INDEX"));
    }
    Machine alike = field_machine("gid-one-port-without.txt");
    for (detect::Nic& nic : alike.nics) nic.gids = alike.nics.front().gids;
    CHECK(exported(plan(alike, job(8, 2)), "NCCL_IB_GID_INDEX") == "3");
}

TEST_CASE("NVLink between GPUs whose P2P is refused is hardware all the same") {
    const Machine machine = field_machine("nvlink-p2p-refused.txt");
    const env::Diagnosis found = examine(machine, {}, doctor_job(1, 8));
    CHECK(finding(found, "nvlink-p2p-refused").severity == env::Severity::broken);
    const auto made = plan(machine, job(8));
    CHECK_FALSE(has_profile(made, "pcie-no-p2p"));
    CHECK(setting(made, "NCCL_P2P_LEVEL").reason.find("end with an error") != std::string::npos);
}

TEST_CASE(
    "a list that leaves out the ports beside GPUs is told, and RDMA switched off by NCCL_NET") {
    const Machine machine = field_machine("user-hca-one-of-nine.txt");
    for (const std::string value : {"mlx5_ib0", "mlx5_an0"}) {
        CAPTURE(value);
        const auto found = examine(machine, user({{"NCCL_IB_HCA", value}}), doctor_job(2, 8));
        CHECK(finding(found, "ib-hca-missing").severity == env::Severity::slow);
        CHECK(finding(found, "ib-hca-missing").fix.starts_with("export NCCL_IB_HCA==mlx5_ib0:1,"));
    }
    CHECK_FALSE(has(examine(machine, user({{"NCCL_IB_HCA", "mlx5_ib"}}), doctor_job(2, 8)),
                    "ib-hca-missing"));
    const auto socket = examine(machine, user({{"NCCL_NET", "Socket"}}), doctor_job(2, 8));
    CHECK(finding(socket, "ib-disabled").fix == "unset NCCL_NET");
}

TEST_CASE("ACS of root ports is told with the ports, and asks for nothing that is there") {
    Machine machine = field_machine("acs-root-ports.txt");
    CHECK(machine.notes.empty());
    CHECK(machine.software.acs_redirect == false);
    const env::Finding found = finding(examine(machine, {}, doctor_job(1, 2)), "acs-root-ports");
    CHECK(found.evidence.find("0000:40:01.1 (GPU 0), 0000:60:01.1 (GPU 1)") != std::string::npos);
    CHECK_FALSE(exported(plan(machine, job(2)), "NCCL_P2P_DISABLE"));
    CHECK_FALSE(has(examine(machine, {}, doctor_job(1, 2)), "acs-redirect"));
    set_acs_redirect(machine, AcsRedirect::on);
    CHECK(exported(plan(machine, job(2)), "NCCL_P2P_DISABLE") == "1");
    CHECK(has(examine(machine, {}, doctor_job(1, 2)), "acs-redirect"));
}

TEST_CASE("a command line without a word on the IOMMU leaves its mode open on AMD's hosts") {
    Machine machine = field_machine("pro6000-amd.txt");
    CHECK(finding(examine(machine), "iommu-translating").severity == env::Severity::note);
    machine.cpu.vendor = "GenuineIntel";
    CHECK_FALSE(has(examine(machine), "iommu-translating"));
    CHECK(
        finding(examine(field_machine("amd-no-iommu-pt.txt")), "amd-iommu-translating").severity ==
        env::Severity::note);
}

TEST_CASE("Grace is known by its GPUs") {
    const Machine machine = field_machine("arch-by-gpu-name.txt");
    CHECK(machine.cpu.architecture == "aarch64");
    const auto made = plan(machine, job(4, 2));
    REQUIRE_FALSE(made.profiles.empty());
    CHECK(made.profiles.front().name == "gh200-slingshot");
}

TEST_CASE("four GB200 that are joined directly are no tray of a rack") {
    Machine board = with_gpus(4, "NVIDIA GB200 NVL4", PathType::NVL, 6);
    board.software.imex_channels = 0;
    CHECK_FALSE(has(examine(board, {}, doctor_job(2, 4)), "imex-channel-missing"));
    Machine tray = with_gpus(4, "NVIDIA GB200", PathType::NVL, 18);
    tray.software.imex_channels = 0;
    CHECK(has(examine(tray, {}, doctor_job(2, 4)), "imex-channel-missing"));
}

TEST_CASE("iWARP is no RoCE") {
    const Machine machine = field_machine("iwarp.txt");
    const auto found = examine(machine, {}, doctor_job(2, 4));
    CHECK(finding(found, "roce-mtu-small").what.find("rocep24s0f0") == std::string::npos);
    CHECK(finding(found, "roce-mtu-small").what.find("rocep59s0f0") != std::string::npos);
    const auto made = plan(machine, job(4, 2));
    CHECK(setting(made, "NCCL_IB_HCA").value == "=rocep59s0f0:1");
    CHECK(setting(made, "NCCL_IB_HCA").reason.find("iWARP") != std::string::npos);
    CHECK_FALSE(has(found, "iwarp-ports"));
    CHECK(has(examine(machine, user({{"NCCL_IB_HCA", "rocep24s0f0"}}), doctor_job(2, 4)),
              "iwarp-ports"));
}

TEST_CASE("cards that are sold bridged and have no NVLink are a note") {
    const auto found = examine(field_machine("h100-nvl-no-link.txt"));
    CHECK(finding(found, "nvlink-missing").severity == env::Severity::note);
    CHECK_FALSE(has(examine(with_gpus(2, "NVIDIA H100 PCIe", PathType::SYS)), "nvlink-missing"));
}

TEST_CASE("a container's way out through its host is not taken beside the proven one") {
    const Machine machine = field_machine("overlay-second-veth.txt");
    const auto made = plan(machine, job(1, 2), user({{"MASTER_ADDR", "10.0.9.4"}}));
    CHECK(setting(made, "NCCL_SOCKET_IFNAME").value == "eth0");
    const auto open = plan(machine, job(1, 2));
    CHECK_FALSE(exported(open, "NCCL_SOCKET_IFNAME"));
    CHECK(setting(open, "NCCL_SOCKET_IFNAME").reason.find("known not to") != std::string::npos);
}

TEST_CASE("an address on lo alone is put on an interface that NCCL can name") {
    const auto found = examine(field_machine("bgp-unnumbered.txt"), {}, doctor_job(2, 4));
    CHECK(
        finding(found, "iface-pick-unreachable").fix.starts_with("ip link add dummy0 type dummy"));
}

TEST_CASE("the profile of GeForce cards is not that of patched drivers") {
    CHECK_FALSE(
        has_profile(plan(field_machine("patched-geforce.txt"), job(8)), "geforce-no-nvlink"));
    CHECK(has_profile(plan(with_gpus(2, "NVIDIA GeForce RTX 4090", PathType::PHB), job(2)),
                      "geforce-no-nvlink"));
}

}  // namespace
}  // namespace toporun::tests
