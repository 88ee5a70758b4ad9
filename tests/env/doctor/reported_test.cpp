#include "case_machines.hpp"

/// Rules that came from reports of users, one at a time: what is said, when, and when no more.
namespace toporun::tests {
namespace {

TEST_CASE("rows of the table on nodes and adapters need as many of them") {
    Machine rack = healthy_node();
    for (detect::Gpu& gpu : rack.gpus) gpu.name = "NVIDIA GB200";
    rack.software.nccl_version = "2.21.5";
    CHECK_FALSE(has(examine(rack, {}, doctor_job(1)), "known-bad"));
    CHECK_FALSE(has(examine(rack, {}, doctor_job(8)), "known-bad"));
    CHECK(has(examine(rack, {}, doctor_job(9)), "known-bad"));
    Machine old = healthy_node();
    old.software.nccl_version = "2.18.1";
    CHECK_FALSE(has(examine(old, {}, doctor_job(1)), "known-bad"));
    CHECK(has(examine(old), "known-bad"));
    old.nics.pop_back();
    CHECK_FALSE(has(examine(old), "known-bad"));
}

TEST_CASE("L4 with drivers before 560 takes no cuMem for shared memory") {
    Machine machine = with_gpus(2, "NVIDIA L4", PathType::PHB);
    machine.software.nccl_version = "2.25.1";
    machine.software.driver = "535.183.01";
    CHECK_FALSE(has(examine(machine), "known-bad"));
    machine.software.driver = "560.35.03";
    CHECK(has(examine(machine), "known-bad"));
    machine.peer_access = {{PeerAccess::ok, PeerAccess::refused},
                           {PeerAccess::refused, PeerAccess::ok}};
    CHECK(has(examine(machine), "known-bad"));
    set_peer_access(machine, PeerAccess::ok);  // these have P2P
    CHECK_FALSE(has(examine(machine), "known-bad"));
}

TEST_CASE("a plugin of Google without its script comes with a line for the shell") {
    struct Script {
        std::string directory, variable, fix;  ///< fix "": the script was sourced
    };
    const std::string gib = "/usr/local/gib", tcpxo = "/var/lib/tcpxo";
    const std::string source_gib = "source /usr/local/gib/scripts/set_nccl_env.sh";
    const std::string source_tcpxo =
        "NCCL_LIB_DIR=/var/lib/tcpxo/lib64 source /var/lib/tcpxo/lib64/nccl-env-profile.sh";
    const std::vector<Script> rows = {
        {gib, "", source_gib},
        {gib, "NCCL_NET", ""},
        {gib, "NCCL_NET_GDR_LEVEL", source_gib},
        {gib, "NCCL_NET_PLUGIN", source_gib},
        {gib, "NCCL_NETDEVS_POLICY", source_gib},
        {gib, "NCCL_FASTRAK_IFNAME", source_gib},
        {tcpxo, "", source_tcpxo},
        {tcpxo, "NCCL_NET", source_tcpxo},
        {tcpxo, "NCCL_FASTRAK_IFNAME", ""},
    };
    for (const Script& row : rows) {
        CAPTURE(row.directory);
        CAPTURE(row.variable);
        Machine machine = healthy_node();
        machine.software.vendor_files = {row.directory};
        env::UserEnvironment environment;
        if (!row.variable.empty()) environment.variables[row.variable] = "x";
        const env::Diagnosis found = examine(machine, environment, doctor_job(2));
        CHECK(has(found, "vendor-script-unused") == !row.fix.empty());
        for (const env::Finding& finding : found.findings)
            if (finding.id == "vendor-script-unused") CHECK(finding.fix == row.fix);
    }
}

TEST_CASE("P2P that the driver allows on GeForce cards comes with what to do until it is proved") {
    Machine machine = healthy_workstation();
    set_peer_access(machine, PeerAccess::ok);
    const env::Finding found = finding(examine(machine), "known-bad");
    CHECK(found.fix.find("NCCL_P2P_DISABLE=1") != std::string::npos);
    CHECK(found.where == "GPUs 0 and 1");
}

TEST_CASE("faults of P2P come with the setting that avoids them until they are gone") {
    const env::Finding found = finding(examine(hanging_pairs()), "iommu-translating");
    CHECK(found.fix.find("iommu=pt") != std::string::npos);
    CHECK(found.remark.find("until then NCCL_P2P_DISABLE=1") != std::string::npos);
}

TEST_CASE("what is RCCL's default is no finding on AMD GPUs") {
    const auto off = user({{"NCCL_CUMEM_ENABLE", "0"}, {"NCCL_DMABUF_ENABLE", "0"}});
    CHECK(ids(examine(healthy_amd_node(), off)) == Ids{});
    Machine machine = healthy_amd_node();
    machine.software.nccl_version = "2.26.2";
    CHECK(ids(examine(machine, off)) == Ids{});
}

TEST_CASE("instance types without EFA adapters are told where they need them") {
    struct Type {
        std::string product;
        std::optional<int> nodes;
        bool found;
    };
    for (const Type& row : std::vector<Type>{{"p5.48xlarge", {}, true},
                                             {"p5.48xlarge", 1, false},
                                             {"g5.48xlarge", {}, false},
                                             {"g5.48xlarge", 2, true},
                                             {"trn1n.32xlarge", 2, false}}) {
        CAPTURE(row.product);
        Machine machine = with_gpus(2, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
        machine.product = row.product;
        add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
        CHECK(has(examine(machine, {}, doctor_job(row.nodes)), "efa-absent") == row.found);
    }
    Machine bare = with_interfaces({nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    bare.gpus.clear();
    bare.product = "p5.48xlarge";
    CHECK_FALSE(has(examine(bare, {}, doctor_job(2)), "efa-absent"));
}

TEST_CASE("the flat tree of a machine that is no guest is its own") {
    Machine machine = flat_guest();
    machine.virtual_machine = false;
    machine.vendor = "Supermicro";
    CHECK_FALSE(has(examine(machine), "pci-tree-flat"));
}

TEST_CASE("ports that wait for a subnet manager are not called down") {
    Machine machine = healthy_node();
    machine.nics[3].port_state = "init";
    const env::Finding found = finding(examine(machine), "rdma-port-down");
    CHECK(found.what ==
          "RDMA port mlx5_1:1 is without a subnet manager (state Initializing) while 7 others are "
          "up");
    CHECK(found.fix == "ibstat");
    CHECK(found.remark.find("subnet manager") != std::string::npos);
    CHECK(found.remark.find("cable") == std::string::npos);
}

TEST_CASE("the words of findings that people search for") {
    const auto shm = examine(small_shm(4, "NVIDIA GeForce GTX 1080 Ti", PathType::PHB, 0));
    CHECK(finding(shm, "shm-too-small").severity == env::Severity::broken);
    CHECK(finding(shm, "shm-too-small").fix.find("--shm-size") != std::string::npos);
    CHECK(finding(shm, "shm-too-small").remark.find("NCCL_SHM_DISABLE") == std::string::npos);
    const auto gid_index =
        examine(roce_with_four_gids(), user({{"NCCL_IB_GID_INDEX", "1"}}), doctor_job(2));
    CHECK(finding(gid_index, "roce-gid-link-local").what ==
          "GID 1 of mlx5_0:1 is link-local (fe80::1)");
    CHECK(finding(gid_index, "roce-gid-link-local").fix == "export NCCL_IB_GID_INDEX=3");
    CHECK(finding(gid_index, "roce-gid-link-local").remark ==
          "index 3 is RoCE v2 of 192.0.2.10; look with show_gids that it is so on all nodes");
    const auto links = examine(with_links(4, "Tesla V100-SXM2-32GB", 6, {"3", "5"}, 3));
    CHECK(finding(links, "nvlink-links-down").what == "GPU 3: NVLinks 3 and 5 inactive, 4 of 6 up");
    CHECK(finding(links, "nvlink-links-down").effect ==
          "33 % of the GPU's NVLink bandwidth is lost, and every ring through it runs at that "
          "pace");
    const auto part = examine(with_gpus(4, "NVIDIA H100 80GB HBM3", PathType::SYS));
    CHECK(finding(part, "nvlink-missing").remark.find("passthrough") != std::string::npos);
    const auto claimed = examine(rtx_4090());
    CHECK(finding(claimed, "p2p-known-bad").fix.find("newer driver") != std::string::npos);
    CHECK_FALSE(has(claimed, "known-bad"));  // the row is told once
}

TEST_CASE("a newer driver or library silences the row of the table") {
    Machine machine = rtx_4090();
    for (const std::optional<std::string>& driver :
         {std::optional<std::string>("535.54.03"), {}, std::optional<std::string>("525.105.17")}) {
        machine.software.driver = driver;
        CHECK_FALSE((has(examine(machine), "known-bad") || has(examine(machine), "p2p-known-bad")));
    }
}

}  // namespace
}  // namespace toporun::tests
