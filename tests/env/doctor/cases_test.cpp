#include <filesystem>
#include <set>

#include "case_machines.hpp"

/// Publicly reported problems, composed as machines: what must be said, and what must not. Cases
/// whose fault is not in the machine have a row too, with the reason.
namespace toporun::tests {
namespace {

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
         {"p2p-known-bad"},
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
}

TEST_CASE("each case of the shared collection has a row") {
    const std::filesystem::path folder = std::filesystem::path(TOPORUN_SHARED) / "cases";
    if (!std::filesystem::exists(folder)) {
        MESSAGE("skipped: no cases in " TOPORUN_SHARED);
        return;
    }
    std::set<std::string> known;
    for (const auto& rows :
         {network_cases(), gpu_cases(), rdma_cases(), host_cases(), cases_elsewhere()})
        for (const Row& row : rows) known.insert(row.id.substr(0, row.id.find(' ')));
    int cases = 0;
    for (const auto& entry : std::filesystem::directory_iterator(folder)) {
        if (entry.path().extension() != ".toml") continue;
        ++cases;
        const std::string name = entry.path().filename().string();
        CHECK_MESSAGE(known.contains(name.substr(0, name.find('-'))), name);
    }
    CHECK(cases > 20);
}

}  // namespace
}  // namespace toporun::tests
