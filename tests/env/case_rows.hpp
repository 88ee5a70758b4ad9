#pragma once

#include <functional>
#include <string>
#include <vector>

#include "doctor/case_machines.hpp"

/// Publicly reported problems of interfaces, P2P and GPUs as rows: what is chosen on the machine of
/// each, what is said, and what must be neither.
namespace toporun::tests {

inline constexpr const char* kLeft = "left alone";

/// An exported value, kLeft, or `kept` with the user's own value.
struct Expected {
    std::string name;
    std::string value;
    bool kept = false;
};

inline Expected kept(const std::string& name, const std::string& value) {
    return {name, value, true};
}

struct CaseRow {
    std::string id;
    Machine machine = {};
    env::Job job = {};
    env::UserEnvironment user = {};
    std::vector<Expected> settings = {};
    Ids said = {};      ///< findings of the plan or of doctor
    Ids not_said = {};  ///< none of these
    std::function<void(const env::Plan&)> more = {};
    std::string elsewhere = {};  ///< why no decision answers the case, or a part of it
};

inline CaseRow elsewhere(const std::string& id, const std::string& why) {
    CaseRow row;
    row.id = id;
    row.elsewhere = why;
    return row;
}

inline env::Job nodes(int count) {
    return job(8, count);
}

inline const std::string kIfname = "NCCL_SOCKET_IFNAME";
inline const std::string kLevel = "NCCL_P2P_LEVEL";
inline const std::string kDisable = "NCCL_P2P_DISABLE";

inline std::vector<CaseRow> network_rows() {
    const auto eno1 = nic("eno1", NicKind::ethernet, {"172.18.40.41/24"});
    const auto bond =
        with_interfaces({nic("bond0", NicKind::bond, {"10.1.0.5/24"}),
                         nic("bond0.2093", NicKind::vlan, {"10.2.0.5/24"}),
                         nic("bond0.2093.1", NicKind::vlan, {"10.3.0.5/24"}, "down")});
    const auto one_subnet =
        with_interfaces({nic("eno1", NicKind::ethernet, {"192.168.0.10/20"}),
                         nic("enp37s0f0", NicKind::ethernet, {"192.168.1.10/20"})});
    return {
        {"c002",
         with_interfaces({eno1, nic("veth25f2e72", NicKind::veth, {"fe80::1/64"})}),
         nodes(2),
         {},
         {{kIfname, "eno1"}},
         {"iface-pick-unreachable"}},
        {"c004",
         with_interfaces({nic("eth0", NicKind::ethernet, {"10.151.40.240/24"}),
                          nic("eth1", NicKind::ethernet, {"fe80::1/64"})}),
         nodes(2),
         {},
         {{kIfname, "eth0"}},
         {"iface-pick-unreachable"}},
        {"c006",
         with_interfaces({eno1}),
         nodes(1),
         user({{kIfname, "eth0"}}),
         {kept(kIfname, "eth0")},
         {"iface-no-match"}},
        {"c008",
         one_subnet,
         nodes(2),
         user({{kIfname, "enp37s0f0"}}),
         {kept(kIfname, "enp37s0f0")},
         {"iface-same-subnet"},
         {"iface-unreachable"}},
        {"c010",
         bond,
         nodes(2),
         {},
         {},
         {},
         {"iface-prefix"},
         [](const env::Plan& made) {
             // The exact name, or NCCL's own pick: its VLANs may be the right ones too.
             CHECK(exported(made, kIfname).value_or("=bond0") == "=bond0");
         }},
        {"c010 with the user's bond0",
         bond,
         nodes(2),
         user({{kIfname, "bond0"}}),
         {kept(kIfname, "bond0")},
         {"iface-prefix"}},
        {"c012",
         rtx_5090(),
         job(2, 1),
         user({{kDisable, "1"}}),
         {kept(kDisable, "1"), {kIfname, kLeft}},
         {"nccl-too-old-for-gpu"},
         {"p2p-takes-nvlink"}},
        {"c012 on two nodes",
         rtx_5090(),
         job(2, 2),
         {},
         {{kIfname, "eno1"}, {kLevel, kLeft}},
         {"nccl-too-old-for-gpu", "iface-pick-unreachable"}},
        {"c014", without_loopback(), nodes(1), {}, {{kIfname, kLeft}}, {"iface-none"}},
        {"c064",
         p4d_container(),
         nodes(2),
         user({{kIfname, "^docker0"}}),
         {kept(kIfname, "^docker0")},
         {"efa-absent", "iface-loopback"}},
        {"c082",
         with_interfaces({eno1}),
         nodes(2),
         user({{"NCCL_SOCKET_NTHREADS", "2"}, {"NCCL_MIN_NCHANNELS", "4"}}),
         {{"NCCL_NSOCKS_PERTHREAD", kLeft}},
         {},
         {"socket-threads-range", "nccl-not-a-number"},
         [](const env::Plan& made) {
             CHECK_FALSE(exported(made, "NCCL_SOCKET_NTHREADS"));
             CHECK_FALSE(exported(made, "NCCL_MIN_NCHANNELS"));
         },
         "that the bandwidth falls is seen in the measurement of the user"},
    };
}

inline void nothing_but_p2p_pairs(const env::Plan& made) {
    CHECK(count_transport(made, "SHM", false) == 0);
    CHECK(count_transport(made, "NET", false) == 0);
}

inline void all_shared_memory(const env::Plan& made) {
    CHECK(count_transport(made, "SHM", false) == static_cast<int>(made.pairs.size()));
}

inline void same_as_default(const env::Plan& made) {
    for (const env::Pair& pair : made.pairs) CHECK(pair.transport == pair.transport_default);
}

inline Machine hanging_pairs_of_unknown_state() {
    Machine machine = hanging_pairs();
    machine.software.iommu_translating.reset();
    return machine;
}

inline std::vector<CaseRow> p2p_rows() {
    return {
        {"c016",
         hanging_pairs(),
         job(4),
         {},
         {{kDisable, "1"}},
         {"iommu-translating"},
         {},
         all_shared_memory},
        {"c016 without the state of VT-d",
         hanging_pairs_of_unknown_state(),
         job(4),
         {},
         {{kDisable, kLeft}, {kLevel, kLeft}},
         {},
         {"iommu-translating", "acs-redirect"},
         same_as_default},
        {"c018",
         rtx_4090(),
         job(4),
         {},
         {{kDisable, "1"}},
         {"p2p-known-bad"},
         {"acs-redirect", "gdr-acs-redirect", "iommu-translating"},
         all_shared_memory},
        {"c020",
         epyc_a40(),
         job(8),
         {},
         {{kDisable, kLeft}},
         {"p2p-across-packages"},
         {},
         [](const env::Plan& made) {
             // NVL or NCCL's own choice until a measurement says more.
             CHECK(exported(made, kLevel).value_or("NVL") == "NVL");
         }},
        {"c022",
         with_gpus(2, "NVIDIA GeForce RTX 3090", PathType::NVL, 4),
         job(2),
         {},
         {{kLevel, "NVL"}, {kDisable, kLeft}},
         {},
         {"known-bad"},
         nothing_but_p2p_pairs},
        {"c022 switched off by the user",
         with_gpus(2, "NVIDIA GeForce RTX 3090", PathType::NVL, 4),
         job(2),
         user({{kDisable, "1"}, {"NCCL_IB_DISABLE", "1"}}),
         {kept(kDisable, "1")},
         {"p2p-takes-nvlink"}},
        {"c024",
         bridged_pairs("NVIDIA RTX A6000", "2.18.5"),
         job(8),
         {},
         {{"NCCL_NVLS_ENABLE", kLeft}, {kDisable, kLeft}},
         {},
         {"nvls-disabled", "nvlink-missing-pair", "nvlink-uneven"}},
        {"c084",
         v100_switched(),
         job(8),
         {},
         {{kLevel, kLeft}, {kDisable, kLeft}},
         {},
         {"p2p-level-too-new"},
         nothing_but_p2p_pairs},
        {"c084 with the user's name",
         v100_switched(),
         job(8),
         user({{kLevel, "NVL"}}),
         {kept(kLevel, "NVL")},
         {"p2p-level-too-new"}},
    };
}

inline std::vector<CaseRow> gpu_rows() {
    return {
        {"c026",
         with_links(4, "Tesla V100-SXM2-32GB", 6, {"3", "5"}, 3),
         job(4),
         {},
         {{kDisable, kLeft}},
         {"nvlink-links-down"},
         {"nvlink-all-down"}},
        {"c028",
         all_links_down(""),
         job(2),
         {},
         {{kLevel, kLeft}, {kDisable, kLeft}},
         {"nvlink-all-down"},
         {"nvlink-links-down", "nvlink-missing"}},
        {"c028 without a bridge",
         all_links_down("NVIDIA A100 80GB PCIe"),
         job(2),
         {},
         {{kLevel, kLeft}, {kDisable, kLeft}},
         {},
         {"nvlink-all-down", "nvlink-links-down", "nvlink-missing"}},
        {"c030",
         with_gpus(4, "NVIDIA H100 80GB HBM3", PathType::SYS),
         job(4),
         {},
         {{kLevel, kLeft}, {kDisable, kLeft}},
         {"nvlink-missing"}},
        {"c032",
         stale_fabric(),
         job(8),
         {},
         {{"NCCL_NVLS_ENABLE", kLeft}},
         {"fabric-failed"},
         {},
         {},
         "NCCL_NVLS_ENABLE=0 is for those who saw the error of the log"},
        {"c066", half_p5(), job(4), {}, {{"NCCL_TOPO_FILE", kLeft}}, {"topo-file-size"}},
        {"c072",
         flat_guest(),
         job(4, 2),
         {},
         {{"NCCL_TOPO_FILE", kLeft}},
         {"pci-tree-flat"},
         {},
         [](const env::Plan& made) {
             for (const env::Pair& pair : made.pairs) CHECK(pair.path == PathType::PHB);
         }},
        {"c074", rack_container(0), nodes(2), {}, {}, {"imex-channel-missing"}},
        {"c074 on one node",
         rack_container(0),
         nodes(1),
         {},
         {{"NCCL_MNNVL_ENABLE", kLeft}},
         {},
         {"imex-channel-missing"}},
        {"c076",
         with_gpus(2, "NVIDIA A100 80GB PCIe", PathType::PIX),
         job(1),
         user({{"CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b"}}),
         {kept("CUDA_VISIBLE_DEVICES", "MIG-a,MIG-b")},
         {"mig-several-instances"},
         {"cuda-visible-invalid"}},
    };
}

}  // namespace toporun::tests
