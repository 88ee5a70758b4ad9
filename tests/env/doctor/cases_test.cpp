#include "support.hpp"

/// Publicly reported problems, composed as machines: what must be said, and what must not. Cases
/// whose fault is not in the machine have a row too, with the reason.
namespace toporun::tests {
namespace {

using Ids = std::vector<std::string>;

struct Row {
    std::string id;
    std::string report;  ///< where it was reported
    Machine machine;
    env::UserEnvironment user = {};
    std::optional<int> nodes = {};
    Ids expected = {};           ///< each must be found
    Ids forbidden = {};          ///< none may be found
    bool nothing = false;        ///< no finding at all
    std::string elsewhere = {};  ///< why the machine does not show it
};

Machine bare(int packages = 2) {
    Machine machine = host(packages, 16);
    know_limits(machine);
    return machine;
}

Machine with_interfaces(std::vector<detect::Nic> nics) {
    Machine machine = bare();
    add_nics(machine, std::move(nics));
    return machine;
}

Machine with_gpus(int count, const std::string& name, PathType path, int links = 0) {
    Machine machine = bare();
    add_gpus(machine, count, name, path, links);
    machine.peer_access.clear();
    return machine;
}

Machine without_loopback() {
    Machine machine = bare();
    machine.nics.push_back(nic("lo", NicKind::loopback, {}, "down"));
    return machine;
}

/// c012, c018: a new card with an old library; a card whose driver still advertises P2P.
Machine rtx_5090() {
    Machine machine = with_gpus(2, "NVIDIA GeForce RTX 5090", PathType::PHB);
    machine.software.nccl_version = "2.25.1";
    add_nics(machine, {nic("eno1", NicKind::ethernet, {"10.201.24.89/24"}),
                       nic("CloudflareWARP", NicKind::tunnel, {"172.16.0.2/32"})});
    return machine;
}

Machine rtx_4090() {
    Machine machine = with_gpus(4, "NVIDIA GeForce RTX 4090", PathType::SYS);
    machine.cpu.vendor = "AuthenticAMD";
    machine.cpu.packages = 1;
    machine.software.driver = "525.85.12";
    machine.software.nccl_version = "2.17.1";
    machine.software.iommu_translating = false;
    set_acs_redirect(machine, AcsRedirect::off);
    return machine;
}

/// c016: pairs below a switch hang, VT-d is on.
Machine hanging_pairs() {
    Machine machine = with_gpus(4, "NVIDIA A10", PathType::SYS);
    connect(machine, 0, 1, PathType::PXB);
    connect(machine, 2, 3, PathType::PIX);
    machine.software.nccl_version = "2.10.3";
    machine.software.iommu_translating = true;
    return machine;
}

Machine bridged_pairs(const std::string& name, const std::string& nccl) {
    Machine machine = with_gpus(8, name, PathType::SYS);
    for (int gpu = 0; gpu < 8; gpu += 2) connect(machine, gpu, gpu + 1, PathType::NVL, 4);
    machine.software.nccl_version = nccl;
    return machine;
}

Machine epyc_a40() {
    Machine machine = bridged_pairs("NVIDIA A40", "2.8.3");
    machine.cpu.vendor = "AuthenticAMD";
    machine.cpu.model = "AMD EPYC 7302 16-Core Processor";
    return machine;
}

Machine with_links(int count, const std::string& name, int links, const Ids& down,
                   std::size_t of_gpu) {
    Machine machine = with_gpus(count, name, PathType::NVL, 2);
    for (std::size_t gpu = 0; gpu < machine.gpus.size(); ++gpu)
        for (int i = 0; i < links; ++i) {
            detect::GpuLink link;
            link.link = i;
            link.active = of_gpu != gpu ||
                          std::find(down.begin(), down.end(), std::to_string(i)) == down.end();
            machine.gpus[gpu].links.push_back(link);
        }
    return machine;
}

Machine all_links_down(const std::string& name) {
    Machine machine = with_gpus(2, name, PathType::SYS);
    for (detect::Gpu& gpu : machine.gpus)
        for (int i = 0; i < 18; ++i) {
            detect::GpuLink link;
            link.link = i;
            link.active = false;
            gpu.links.push_back(link);
        }
    return machine;
}

Machine stale_fabric() {
    Machine machine = healthy_node();
    for (detect::Gpu& gpu : machine.gpus) gpu.fabric_status = "insufficient resources";
    return machine;
}

Machine far_adapter() {
    Machine machine = with_gpus(1, "NVIDIA A100 80GB PCIe", PathType::LOC);
    machine.nics.push_back(rdma_port(0, NicKind::infiniband, 200));
    machine.gpu_nic_paths = {{PathType::SYS}};
    return machine;
}

Machine unregistered_peermem() {
    Machine machine = far_adapter();
    machine.gpu_nic_paths = {{PathType::PIX}};
    machine.software.kernel = "6.8.0-45-generic";
    machine.software.driver_open = false;
    machine.software.modules = std::vector<std::string>{"nvidia_peermem"};
    machine.software.peer_memory_clients = std::vector<std::string>{};
    return machine;
}

Machine roce_with_four_gids() {
    Machine machine;
    machine.gpus_known = false;
    machine.nics.push_back(rdma_port(0, NicKind::roce, 100));
    machine.nics[0].mtu = 4096;
    machine.nics[0].gids = {gid(0, "fe80:0000:0000:0000:0000:0000:0000:0001", "RoCE v1"),
                            gid(1, "fe80::1", "RoCE v2"),
                            gid(2, "0000:0000:0000:0000:0000:ffff:c000:020a", "RoCE v1"),
                            gid(3, "::ffff:192.0.2.10", "RoCE v2")};
    return machine;
}

Machine small_shm(int count, const std::string& name, PathType path, int links) {
    Machine machine = with_gpus(count, name, path, links);
    machine.limits.shm_bytes = machine.limits.shm_free_bytes = 64 << 20;
    machine.software.nccl_version.reset();
    return machine;
}

Machine one_core() {
    Machine machine = with_gpus(8, "NVIDIA A100 80GB PCIe", PathType::PIX);
    machine.cpu.allowed = CpuSet({0, 32});
    return machine;
}

Machine p4d_container() {
    Machine machine = with_gpus(8, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
    machine.container = true;
    machine.vendor = "Amazon EC2";
    machine.product = "p4d.24xlarge";
    add_nics(machine, {nic("docker0", NicKind::bridge, {"172.17.0.1/16"}),
                       nic("eth0", NicKind::ethernet, {"172.31.16.64/20"})});
    return machine;
}

Machine half_p5() {
    Machine machine = with_gpus(4, "NVIDIA H100 80GB HBM3", PathType::NVL, 18);
    machine.product = "p5.48xlarge";
    machine.software.nccl_plugins = {"libnccl-net.so"};
    return machine;
}

Machine flat_guest() {
    Machine machine = with_gpus(4, "", PathType::PHB);
    machine.nics = {rdma_port(0, NicKind::infiniband, 400), rdma_port(1, NicKind::infiniband, 400)};
    machine.gpu_nic_paths.assign(4, {PathType::PHB, PathType::PHB});
    return machine;
}

Machine rack_container(int channels) {
    Machine machine = with_gpus(4, "NVIDIA GB200", PathType::NVL, 18);
    machine.container = true;
    machine.software.imex_channels = channels;
    return machine;
}

Machine balancing_on() {
    Machine machine = with_gpus(8, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12);
    machine.software.numa_balancing = true;
    return machine;
}

Machine p3_16xlarge() {
    Machine machine = with_gpus(8, "Tesla V100-SXM2-16GB", PathType::NVL, 1);
    add_nics(machine, {nic("ens3", NicKind::ethernet, {"172.31.1.5/20"})});
    machine.nics[1].speed_gbits = 25;
    return machine;
}

Machine v100_switched() {
    Machine machine = with_gpus(8, "Tesla V100-SXM3-32GB", PathType::NVL, 6);
    machine.software.nccl_version = "2.5.6";
    return machine;
}

Row elsewhere(const std::string& id, const std::string& report, const std::string& reason) {
    Row row;
    row.id = id;
    row.report = report;
    row.elsewhere = reason;
    return row;
}

std::vector<Row> network_cases() {
    const auto eno1 = nic("eno1", NicKind::ethernet, {"172.18.40.41/24"});
    return {
        {"c002",
         "Oneflow-Inc/oneflow 3586",
         with_interfaces({eno1, nic("veth25f2e72", NicKind::veth, {"fe80::1/64"})}),
         {},
         2,
         {"iface-pick-unreachable"}},
        {"c004",
         "horovod/horovod 584",
         with_interfaces({nic("eth0", NicKind::ethernet, {"10.151.40.240/24"}),
                          nic("eth1", NicKind::ethernet, {"fe80::1/64"})}),
         {},
         2,
         {"iface-pick-unreachable"}},
        {"c006",
         "pytorch/pytorch 29482",
         with_interfaces({eno1}),
         user({{"NCCL_SOCKET_IFNAME", "eth0"}}),
         {},
         {"iface-no-match"}},
        {"c008",
         "NVIDIA/nccl 1581",
         with_interfaces({nic("eno1", NicKind::ethernet, {"192.168.0.10/20"}),
                          nic("enp37s0f0", NicKind::ethernet, {"192.168.1.10/20"})}),
         user({{"NCCL_SOCKET_IFNAME", "enp37s0f0"}}),
         2,
         {"iface-same-subnet"},
         {"iface-no-match", "iface-unreachable"}},
        {"c010",
         "NVIDIA/nccl-tests 9",
         with_interfaces({nic("bond0", NicKind::bond, {"10.1.0.5/24"}),
                          nic("bond0.2093", NicKind::vlan, {"10.2.0.5/24"}),
                          nic("bond0.2093.1", NicKind::vlan, {"10.3.0.5/24"})}),
         user({{"NCCL_SOCKET_IFNAME", "bond0"}}),
         2,
         {"iface-prefix"},
         {"iface-same-subnet"}},
        {"c012",
         "NVIDIA/nccl 1637",
         rtx_5090(),
         user({{"NCCL_P2P_DISABLE", "1"}}),
         1,
         {"nccl-too-old-for-gpu"},
         {"p2p-takes-nvlink"}},
        {"c012 on two nodes",
         "NVIDIA/nccl 1637",
         rtx_5090(),
         {},
         2,
         {"nccl-too-old-for-gpu", "iface-pick-unreachable"}},
        {"c014", "NVIDIA/nccl 210", without_loopback(), {}, {}, {"iface-none"}},
        {"c082",
         "NVIDIA/nccl 209",
         with_interfaces({eno1}),
         user({{"NCCL_SOCKET_NTHREADS", "2"}, {"NCCL_MIN_NCHANNELS", "4"}}),
         2,
         {},
         {"socket-threads-range", "nccl-not-a-number"},
         true},
    };
}

std::vector<Row> gpu_cases() {
    return {
        {"c016", "NVIDIA/nccl 667", hanging_pairs(), {}, {}, {"iommu-translating"}},
        {"c018",
         "NVIDIA/nccl-tests 117",
         rtx_4090(),
         {},
         {},
         {"known-bad"},
         {"acs-redirect", "gdr-acs-redirect", "iommu-translating"}},
        {"c020", "NVIDIA/nccl-tests 74", epyc_a40(), {}, 1, {"p2p-across-packages"}},
        {"c022",
         "huggingface/accelerate 2328",
         with_gpus(2, "NVIDIA GeForce RTX 3090", PathType::NVL, 4),
         user({{"NCCL_P2P_DISABLE", "1"}, {"NCCL_IB_DISABLE", "1"}}),
         {},
         {"p2p-takes-nvlink"}},
        {"c024",
         "NVIDIA/nccl 1121",
         bridged_pairs("NVIDIA RTX A6000", "2.18.5"),
         {},
         {},
         {},
         {"nvls-disabled", "nvlink-missing-pair", "nvlink-uneven"},
         true},
        {"c026",
         "Azure/azhpc-diagnostics 73",
         with_links(4, "Tesla V100-SXM2-32GB", 6, {"3", "5"}, 3),
         {},
         {},
         {"nvlink-links-down"},
         {"nvlink-all-down"}},
        {"c028",
         "NVIDIA/DCGM 198",
         all_links_down(""),
         {},
         {},
         {"nvlink-all-down"},
         {"nvlink-links-down", "nvlink-missing"}},
        {"c028 without bridge",
         "NVIDIA/DCGM 198",
         all_links_down("NVIDIA A100 80GB PCIe"),
         {},
         {},
         {},
         {"nvlink-all-down", "nvlink-links-down", "nvlink-missing"},
         true},
        {"c030",
         "deepseek-ai/DeepEP 128",
         with_gpus(4, "NVIDIA H100 80GB HBM3", PathType::SYS),
         {},
         {},
         {"nvlink-missing"}},
        {"c032", "NVIDIA/nccl 976, 1488", stale_fabric(), {}, {}, {"fabric-failed"}},
        {"c074 on a rack",
         "microsoft/mscclpp 467",
         rack_container(0),
         {},
         {},
         {"imex-channel-missing"}},
        {"c074 on one node",
         "NVIDIA/nccl 1632",
         rack_container(0),
         {},
         1,
         {},
         {"imex-channel-missing"}},
        {"c074 on H100",
         "NVIDIA/nccl 1632",
         with_gpus(8, "NVIDIA H100 80GB HBM3", PathType::NVL, 18),
         {},
         {},
         {},
         {"imex-channel-missing"},
         true},
        {"c076",
         "pytorch/pytorch 130181",
         with_gpus(2, "NVIDIA A100 80GB PCIe", PathType::PIX),
         user({{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}}),
         {},
         {"mig-several-instances"},
         {"cuda-visible-invalid"}},
        {"c084",
         "NVIDIA/nccl 332",
         v100_switched(),
         user({{"NCCL_P2P_LEVEL", "NVL"}}),
         {},
         {"p2p-level-too-new"}},
    };
}

std::vector<Row> rdma_cases() {
    return {
        {"c034", "NVIDIA/nccl 1151", far_adapter(), {}, 2, {"gdr-far-adapter"}},
        {"c036",
         "peer memory on Ubuntu 24.04",
         unregistered_peermem(),
         {},
         2,
         {"gdr-peermem-unregistered"},
         {"gdr-no-peermem"}},
        {"c038",
         "RoCE on mlx5_bond_0",
         roce_with_four_gids(),
         user({{"NCCL_IB_GID_INDEX", "1"}}),
         2,
         {"roce-gid-link-local"},
         {"roce-gid-absent", "roce-no-routable-gid"}},
        {"c038 with index 3",
         "RoCE on mlx5_bond_0",
         roce_with_four_gids(),
         user({{"NCCL_IB_GID_INDEX", "3"}}),
         2,
         {},
         {"roce-gid-link-local"},
         true},
        {"c042",
         "one adapter missing in one container",
         healthy_node(),
         user({{"NCCL_IGNORE_NET_MISMATCH", "1"}}),
         2,
         {"variable-for-debugging"}},
        {"c064",
         "aws/aws-ofi-nccl 803",
         p4d_container(),
         user({{"NCCL_SOCKET_IFNAME", "^docker0"}}),
         2,
         {"efa-absent", "iface-loopback"}},
        {"c066", "aws/aws-ofi-nccl 476", half_p5(), {}, {}, {"topo-file-size"}},
        {"c070",
         "NVIDIA/nccl 1814",
         healthy_roce_node(),
         user({{"NCCL_IB_TIMEOUT", "18"}, {"NCCL_IB_RETRY_CNT", "7"}, {"NCCL_IB_TC", "128"}}),
         2,
         {},
         {"ib-timeout-range"},
         true},
        {"c072", "NVIDIA/nccl 1843", flat_guest(), {}, {}, {"pci-tree-flat"}},
        {"c080", "pytorch/pytorch 36298", p3_16xlarge(), {}, 2, {"network-thin"}},
    };
}

std::vector<Row> host_cases() {
    return {
        {"c044",
         "/dev/shm of 64 MiB",
         small_shm(4, "NVIDIA GeForce GTX 1080 Ti", PathType::PHB, 0),
         {},
         {},
         {"shm-too-small"}},
        {"c046",
         "bus error of loader workers",
         small_shm(2, "NVIDIA A100-SXM4-40GB", PathType::NVL, 12),
         {},
         {},
         {"shm-too-small"}},
        {"c048", "one core a rank", one_core(), {}, {}, {"cpus-few"}},
        {"c050",
         "loader workers on one CPU",
         with_gpus(1, "NVIDIA A100", PathType::LOC),
         user({{"OMP_PROC_BIND", "true"}}),
         {},
         {"omp-affinity"}},
        {"c078", "ROCm/rccl 696", balancing_on(), {}, {}, {"numa-balancing"}},
        {"c078 on AMD",
         "ROCm/rccl 696",
         [] {
             Machine machine = healthy_amd_node();
             machine.software.numa_balancing = true;
             return machine;
         }(),
         {},
         {},
         {"numa-balancing"}},
    };
}

std::vector<Row> cases_elsewhere() {
    return {
        elsewhere("c040", "rails without a way between them", "the fabric, seen in the log only"),
        elsewhere("c052", "AILab-CVC/YOLO-World 413", "the word of the command line"),
        elsewhere("c054", "pytorch/pytorch 115305", "a binding to choose, no fault"),
        elsewhere("c056", "ai4d-iasc/trixie 52", "the command line"),
        elsewhere("c058", "Lightning-AI/pytorch-lightning 20391", "the allocation"),
        elsewhere("c060", "NVIDIA/nccl-tests 300", "the command line"),
        elsewhere("c062", "horovod/horovod 3929", "the program, seen in the log"),
        elsewhere("c068", "NVIDIA/nccl 1911", "the course of a run"),
    };
}

TEST_CASE("reported problems that the machine shows are named, and nothing that is no fault") {
    std::vector<Row> rows = network_cases();
    for (const auto& more : {gpu_cases(), rdma_cases(), host_cases()})
        rows.insert(rows.end(), more.begin(), more.end());
    for (const Row& row : rows) {
        CAPTURE(row.id);
        CAPTURE(row.report);
        const auto diagnosis = examine(row.machine, row.user, doctor_job(row.nodes));
        const Ids found = ids(diagnosis);
        const std::string all = [&] {
            std::string text;
            for (const std::string& id : found) text += id + " ";
            return text;
        }();
        CAPTURE(all);
        for (const std::string& id : row.expected) CHECK_MESSAGE(has(diagnosis, id), id);
        for (const std::string& id : row.forbidden) CHECK_FALSE_MESSAGE(has(diagnosis, id), id);
        if (row.nothing) CHECK(found.empty());
    }
}

TEST_CASE("every identifier that a case names is in the list") {
    std::vector<Row> rows = network_cases();
    for (const auto& more : {gpu_cases(), rdma_cases(), host_cases()})
        rows.insert(rows.end(), more.begin(), more.end());
    const auto list = env::check_list();
    const auto listed = [&](const std::string& id) {
        return std::any_of(list.begin(), list.end(),
                           [&](const env::CheckInfo& check) { return check.id == id; });
    };
    for (const Row& row : rows)
        for (const auto& named : {row.expected, row.forbidden})
            for (const std::string& id : named) CHECK_MESSAGE(listed(id), id);
    for (const Row& row : cases_elsewhere()) CHECK_FALSE(row.elsewhere.empty());
}

TEST_CASE("the words of findings that people search for") {
    const auto shm = examine(small_shm(4, "NVIDIA GeForce GTX 1080 Ti", PathType::PHB, 0));
    CHECK(finding(shm, "shm-too-small").severity == env::Severity::broken);
    CHECK(finding(shm, "shm-too-small").fix.find("--shm-size") != std::string::npos);
    CHECK(finding(shm, "shm-too-small").fix.find("NCCL_SHM_DISABLE") == std::string::npos);
    const auto gid_index =
        examine(roce_with_four_gids(), user({{"NCCL_IB_GID_INDEX", "1"}}), doctor_job(2));
    CHECK(finding(gid_index, "roce-gid-link-local").what ==
          "GID 1 of mlx5_0:1 is link-local (fe80::1)");
    CHECK(finding(gid_index, "roce-gid-link-local").fix ==
          "export NCCL_IB_GID_INDEX=3 (index 3 is RoCE v2 of 192.0.2.10), the same on all nodes");
    const auto links = examine(with_links(4, "Tesla V100-SXM2-32GB", 6, {"3", "5"}, 3));
    CHECK(finding(links, "nvlink-links-down").what == "GPU 3: NVLinks 3 and 5 inactive, 4 of 6 up");
    CHECK(finding(links, "nvlink-links-down").effect ==
          "33 % of the GPU's NVLink bandwidth is lost, and every ring through it runs at that "
          "pace");
    CHECK(finding(examine(rtx_4090()), "known-bad").where == "row 1");
}

TEST_CASE("a newer driver or library silences the row of the table") {
    Machine machine = rtx_4090();
    machine.software.driver = "535.54.03";
    CHECK_FALSE(has(examine(machine), "known-bad"));
    machine.software.driver.reset();
    CHECK_FALSE(has(examine(machine), "known-bad"));
    machine.software.driver = "525.105.17";
    CHECK_FALSE(has(examine(machine), "known-bad"));
}

}  // namespace
}  // namespace toporun::tests
