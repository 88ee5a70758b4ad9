#include <functional>
#include <set>

#include "support.hpp"

/// Every check: what makes it speak, on a machine on which it is silent without it.
namespace toporun::tests {
namespace {

struct Patient {
    Machine machine = healthy_node();
    env::UserEnvironment user = {};
    env::Job job = doctor_job();
};

struct Row {
    std::string id;
    std::string name;
    env::Severity severity;
    std::function<void(Patient&)> harm;
    std::function<Machine()> healthy = healthy_node;
};

constexpr auto broken = env::Severity::broken;
constexpr auto slow = env::Severity::slow;
constexpr auto note = env::Severity::note;

detect::Nic& port(Patient& patient, std::size_t number) {
    return patient.machine.nics.at(2 + number);
}

void set(Patient& patient, const std::string& name, const std::string& value) {
    patient.user.variables[name] = value;
}

void several_nodes(Patient& patient) {
    patient.job.nodes = 2;
}

Machine sockets_only() {
    Machine machine = healthy_workstation();
    add_nics(machine, {});
    machine.nics.clear();
    add_nics(machine, {nic("eno1", NicKind::ethernet, {"10.0.0.1/24"})});
    machine.nics[1].speed_gbits = 25;
    return machine;
}

Machine bonded() {
    Machine machine = sockets_only();
    for (const char* name : {"eno2", "eno3"}) {
        detect::Nic member = nic(name, NicKind::ethernet, {});
        member.master = "bond0";
        member.speed_gbits = 25;
        member.mtu = 1500;
        machine.nics.push_back(member);
    }
    machine.nics.push_back(nic("bond0", NicKind::bond, {"10.9.0.1/24"}));
    return machine;
}

Machine several_pcie_gpus(const std::string& name, int count, PathType path) {
    Machine machine = host(2, 16);
    add_gpus(machine, count, name, path);
    set_acs_redirect(machine, AcsRedirect::off);
    know_limits(machine);
    know_software(machine);
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.pcie_generation = gpu.pcie_generation_now = 4;
        gpu.pcie_width = gpu.pcie_width_now = 16;
    }
    add_nics(machine, {nic("eth0", NicKind::ethernet, {"10.0.0.1/24"})});
    return machine;
}

Machine rack_tray() {
    Machine machine = healthy_node();
    machine.gpus.clear();
    add_gpus(machine, 4, "NVIDIA GB200", PathType::NVL, 18);
    machine.software.imex_channels = 1;
    machine.gpu_nic_paths.clear();
    machine.gpu_nic_acs_redirect.clear();
    machine.gpu_acs_redirect.clear();
    return machine;
}

Machine efa_node() {
    Machine machine = healthy_node();
    for (detect::Nic& nic : machine.nics)
        if (nic.rdma_device) nic.kind = NicKind::efa;
    machine.vendor = "Amazon EC2";
    machine.product = "p5.48xlarge";
    machine.software.nccl_plugin_files = {
        {"libnccl-net.so", "/opt/amazon/ofi-nccl/lib/libnccl-net.so", "aws-ofi"}};
    machine.software.nccl_plugins = {"libnccl-net.so"};
    return machine;
}

std::vector<Row> interface_rows() {
    return {
        {"iface-same-subnet", "two ports in one subnet", slow,
         [](Patient& p) {
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.0.0.2/24"}));
         },
         sockets_only},
        {"iface-pick-unreachable", "a veth with an address", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("veth1", NicKind::veth, {"fe80::1/64"}));
         },
         sockets_only},
        {"iface-mixed-speeds", "1 Gb/s beside 25", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.7.0.2/24"}));
             p.machine.nics.back().speed_gbits = 1;
         },
         sockets_only},
        {"iface-low-speed", "100 Mb/s", slow,
         [](Patient& p) { p.machine.nics[1].speed_gbits = 0.1; }, sockets_only},
        {"iface-route-differs", "the other port has the route", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.push_back(nic("eno2", NicKind::ethernet, {"10.0.0.2/24"}));
             set(p, "NCCL_SOCKET_IFNAME", "eno2");
             p.machine.routes = {{"10.0.0.9", "eno1", "10.0.0.1"}};
         },
         sockets_only},
        {"bond-member-down", "a member down", slow,
         [](Patient& p) { p.machine.nics[2].state = "down"; }, bonded},
        {"bond-members-differ", "a member with another MTU", slow,
         [](Patient& p) { p.machine.nics[2].mtu = 9000; }, bonded},
        {"network-thin", "25 Gb/s for 8 V100", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.nics.resize(2);
             p.machine.nics[1].speed_gbits = 25;
             connect_adapters(p.machine);
         }},
    };
}

std::vector<Row> rdma_rows() {
    return {
        {"rdma-port-down", "the adapter of a GPU", slow,
         [](Patient& p) { port(p, 3).state = port(p, 3).port_state = "down"; }},
        {"rdma-none-usable", "all ports down", slow,
         [](Patient& p) {
             several_nodes(p);
             for (std::size_t i = 0; i < 8; ++i) port(p, i).port_state = "down";
         }},
        {"rdma-port-slow", "one of eight at half the rate", slow,
         [](Patient& p) { port(p, 5).speed_gbits = 200; }},
        {"rdma-port-errors", "damaged packets", note,
         [](Patient& p) {
             port(p, 1).errors = {{"port_rcv_errors", 12}, {"link_downed", 2}};
         }},
        {"verbs-devices-missing", "no device file in a container", slow,
         [](Patient& p) {
             p.machine.container = true;
             p.machine.software.verbs_devices = 0;
         }},
        {"verbs-devices-missing", "EFA without device files", slow,
         [](Patient& p) { p.machine.software.verbs_devices = 0; }, efa_node},
        {"memlock-small", "64 KiB in a container", broken,
         [](Patient& p) {
             p.machine.container = true;
             p.machine.limits.memlock_bytes = 65536;
         }},
        {"memlock-small", "8 MiB on a host", slow,
         [](Patient& p) { p.machine.limits.memlock_bytes = 8 << 20; }},
        {"ib-hca-no-match", "a device that is not there", slow,
         [](Patient& p) { set(p, "NCCL_IB_HCA", "ibp"); }},
        {"ib-hca-prefix", "mlx5_1 and mlx5_10", slow,
         [](Patient& p) {
             p.machine.nics.push_back(rdma_port(10, NicKind::infiniband, 400));
             connect_adapters(p.machine);
             set(p, "NCCL_IB_HCA", "mlx5_1");
         }},
        {"ib-disabled", "with ports up", slow, [](Patient& p) { set(p, "NCCL_IB_DISABLE", "1"); }},
        {"roce-gid-link-local", "index 1", slow,
         [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "1"); }, healthy_roce_node},
        {"roce-gid-link-local", "index 0 of old versions", slow,
         [](Patient& p) { p.machine.software.nccl_version = "2.20.5"; }, healthy_roce_node},
        {"roce-gid-v1", "index 2", slow, [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "2"); },
         healthy_roce_node},
        {"roce-gid-absent", "index 9", broken, [](Patient& p) { set(p, "NCCL_IB_GID_INDEX", "9"); },
         healthy_roce_node},
        {"roce-no-routable-gid", "RoCE v1 only", slow,
         [](Patient& p) { port(p, 0).gids = {gid(0, "::ffff:10.1.0.5", "RoCE v1")}; },
         healthy_roce_node},
        {"roce-mtu-small", "1500", note,
         [](Patient& p) {
             for (std::size_t i = 0; i < 8; ++i) port(p, i).mtu = 1500;
         },
         healthy_roce_node},
        {"roce-mtu-differs", "one with 4200", slow, [](Patient& p) { port(p, 0).mtu = 4200; },
         healthy_roce_node},
        {"gdr-no-peermem", "closed driver without the module", slow,
         [](Patient& p) {
             p.machine.software.modules = std::vector<std::string>{};
             p.machine.software.driver_open = false;
         }},
        {"gdr-peermem-unregistered", "loaded, no client", slow,
         [](Patient& p) {
             p.machine.software.peer_memory_clients = std::vector<std::string>{};
             p.machine.software.driver_open = false;
         }},
        {"gdr-peermem-unseen", "NCCL 2.22", slow,
         [](Patient& p) {
             p.machine.software.nccl_version = "2.22.3";
             p.machine.software.driver_open = false;
         }},
        {"gdr-far-adapter", "SYS to every adapter", note,
         [](Patient& p) {
             connect(p.machine, 0, 1, PathType::SYS);
             for (std::size_t other = 1; other < 8; ++other)
                 connect(p.machine, 0, static_cast<int>(other), PathType::SYS);
             p.machine.gpu_nic_paths[0][2] = PathType::SYS;
         }},
        {"gdr-acs-redirect", "ACS below the switch", slow,
         [](Patient& p) { p.machine.gpu_nic_acs_redirect[0][2] = AcsRedirect::on; }},
    };
}

Machine l4_pair() {
    Machine machine = several_pcie_gpus("NVIDIA L4", 2, PathType::PHB);
    set_peer_access(machine, PeerAccess::refused);
    return machine;
}

Machine a100_pcie() {
    return several_pcie_gpus("NVIDIA A100 80GB PCIe", 4, PathType::PIX);
}

Machine epyc_a40() {
    Machine machine = several_pcie_gpus("NVIDIA A40", 8, PathType::SYS);
    machine.software.nccl_version = "2.23.4";
    machine.cpu.vendor = "AuthenticAMD";
    return machine;
}

Machine v100_module() {
    Machine machine = healthy_node();
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.name = "Tesla V100-SXM3-32GB";
        gpu.fabric_state.clear();
    }
    return machine;
}

std::vector<Row> gpu_rows() {
    return {
        {"known-bad", "L4 with NCCL 2.25 and driver 550", slow,
         [](Patient& p) {
             p.machine.software.driver = "550.54.15";
             p.machine.software.nccl_version = "2.25.1";
         },
         l4_pair},
        {"known-bad", "all-to-all of 2.19", note,
         [](Patient& p) { p.machine.software.nccl_version = "2.19.4"; }},
        {"p2p-refused", "A100 below one switch", slow,
         [](Patient& p) { set_peer_access(p.machine, PeerAccess::refused); }, a100_pcie},
        {"p2p-across-packages", "the default of 2.22 on AMD", note,
         [](Patient& p) { p.machine.software.nccl_version = "2.22.3"; }, epyc_a40},
        {"shm-disabled", "by the user", slow, [](Patient& p) { set(p, "NCCL_SHM_DISABLE", "1"); }},
        {"p2p-check-ignored", "level 2", slow,
         [](Patient& p) { set(p, "NCCL_IGNORE_DISABLED_P2P", "2"); }},
        {"nvlink-links-down", "two of 18", slow,
         [](Patient& p) {
             p.machine.gpus[3].links[3].active = p.machine.gpus[3].links[5].active = false;
         }},
        {"nvlink-all-down", "all GPUs of a board", broken,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus)
                 for (detect::GpuLink& link : gpu.links) link.active = false;
         }},
        {"nvlink-missing", "every pair SYS", broken,
         [](Patient& p) {
             for (int a = 0; a < 8; ++a)
                 for (int b = 0; b < a; ++b) connect(p.machine, a, b, PathType::SYS);
             p.machine.nvswitch = false;
         }},
        {"nvlink-missing-pair", "one pair by PCIe", slow,
         [](Patient& p) { connect(p.machine, 1, 2, PathType::PXB); }},
        {"nvlink-uneven", "NV16 of NV18", slow,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus) gpu.links.clear();
             for (int other = 0; other < 8; ++other)
                 if (other != 5) connect(p.machine, 5, other, PathType::NVL, 16);
         }},
        {"nvlink-speed-uneven", "one slower link", slow,
         [](Patient& p) { p.machine.gpus[2].links[0].speed_gbytes_per_s = 13.281; }},
        {"fabric-manager-down", "V100 with NVSwitches", broken,
         [](Patient& p) { p.machine.software.fabric_manager = false; }, v100_module},
        {"fabric-not-ready", "in progress", broken,
         [](Patient& p) { p.machine.gpus[0].fabric_state = "in progress"; }},
        {"fabric-failed", "completed with an error", broken,
         [](Patient& p) { p.machine.gpus[0].fabric_status = "insufficient resources"; }},
        {"imex-channel-missing", "a tray without a channel", slow,
         [](Patient& p) { p.machine.software.imex_channels = 0; }, rack_tray},
        {"gpu-pcie-width", "8 of 16 lanes", slow,
         [](Patient& p) { p.machine.gpus[4].pcie_width_now = 8; }},
        {"gpu-pcie-width", "all cards of a desktop at 8", note,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus) gpu.pcie_width_now = 8;
         },
         healthy_workstation},
        {"gpu-pcie-generation", "under load", slow,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus) {
                 gpu.memory_used_bytes = 10ull << 30;
                 gpu.pcie_generation_now = 5;
             }
             p.machine.gpus[7].pcie_generation_now = 3;
         }},
        {"gpu-pcie-slots-differ", "a slot of generation 4", slow,
         [](Patient& p) { p.machine.gpus[7].pcie_generation = 4; }},
        {"nic-pcie-slow", "400 Gb/s on generation 4", slow,
         [](Patient& p) { port(p, 2).pcie_generation_now = 4; }},
        {"gpu-row-remap-failed", "one GPU", broken,
         [](Patient& p) { p.machine.gpus[1].row_remap_failed = true; }},
        {"gpu-row-remap-pending", "one GPU", slow,
         [](Patient& p) { p.machine.gpus[1].row_remap_pending = true; }},
        {"gpu-throttled", "heat", slow,
         [](Patient& p) {
             p.machine.gpus[1].throttle_reasons = {"thermal", "power-cap"};
         }},
        {"gpu-memory-in-use", "half of it", note,
         [](Patient& p) { p.machine.gpus[1].memory_used_bytes = 40ull << 30; }},
        {"gpu-mixed-models", "two models", note,
         [](Patient& p) { p.machine.gpus[1].name = "NVIDIA GeForce RTX 3060"; },
         healthy_workstation},
        {"gpu-persistence-off", "on a server", note,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus) gpu.persistence = false;
         }},
        {"gpu-count-odd", "seven GPUs", slow,
         [](Patient& p) {
             p.machine.gpus.pop_back();
             for (auto* matrix : {&p.machine.gpu_paths}) {
                 matrix->pop_back();
                 for (auto& row : *matrix) row.pop_back();
             }
         }},
    };
}

Machine guest_with_switches() {
    Machine machine = healthy_guest();
    machine.software.topology_files.clear();
    return machine;
}

Machine google_node() {
    Machine machine = healthy_node();
    machine.product = "Google Compute Engine";
    machine.software.nccl_plugins = {"libnccl-net_gib.so"};
    machine.software.nccl_plugin_files = {
        {"libnccl-net_gib.so", "/usr/local/gib/lib64/libnccl-net_gib.so", "gib"}};
    return machine;
}

std::vector<Row> system_rows() {
    return {
        {"mig-several-instances", "two UUIDs", slow,
         [](Patient& p) { set(p, "CUDA_VISIBLE_DEVICES", "MIG-1,MIG-2"); }},
        {"mig-on", "whole GPUs split", note, [](Patient& p) { p.machine.gpus[0].mig = true; }},
        {"cuda-visible-invalid", "a GPU that is not there", slow,
         [](Patient& p) { set(p, "CUDA_VISIBLE_DEVICES", "0,1,9"); }},
        {"cuda-visible-invalid", "nothing left", broken,
         [](Patient& p) { set(p, "CUDA_VISIBLE_DEVICES", "9"); }},
        {"cuda-device-order", "numbers of mixed GPUs", note,
         [](Patient& p) {
             p.machine.gpus[1].name = "NVIDIA GeForce RTX 3060";
             set(p, "CUDA_VISIBLE_DEVICES", "0");
         },
         healthy_workstation},
        {"cpus-one-numa-node", "CPUs of node 0 only", slow,
         [](Patient& p) { p.machine.cpu.allowed = p.machine.cpu.numa_nodes[0].cpus; }},
        {"cpus-few", "two CPUs for eight ranks", slow,
         [](Patient& p) {
             p.machine.cpu.allowed = CpuSet({0, 56});
         }},
        {"numa-balancing", "on", note,
         [](Patient& p) { p.machine.software.numa_balancing = true; }},
        {"numa-balancing", "on with AMD GPUs", slow,
         [](Patient& p) { p.machine.software.numa_balancing = true; }, healthy_amd_node},
        {"gpu-numa-unknown", "a guest that hides it", note,
         [](Patient& p) {
             for (detect::Gpu& gpu : p.machine.gpus) gpu.numa_node.reset(), gpu.cpus = {};
         }},
        {"numa-split-package", "two NUMA nodes of a package", note,
         [](Patient& p) {
             for (detect::Core& core : p.machine.cpu.cores) core.package = 0;
         },
         [] { return several_pcie_gpus("NVIDIA A40", 2, PathType::SYS); }},
        {"nofile-small", "256 files", slow, [](Patient& p) { p.machine.limits.nofile = 256; }},
        {"nproc-small", "512 threads for eight ranks", slow,
         [](Patient& p) { p.machine.limits.nproc = 512; }},
        {"cpu-quota-small", "four CPUs for eight ranks", slow,
         [](Patient& p) { p.machine.limits.cpu_quota = 4; }},
        {"shm-too-small", "Docker's default with NVLink", slow,
         [](Patient& p) {
             p.machine.limits.shm_bytes = p.machine.limits.shm_free_bytes = 64 << 20;
         }},
        {"shm-too-small", "Docker's default with shared memory", broken,
         [](Patient& p) {
             p.machine.limits.shm_bytes = p.machine.limits.shm_free_bytes = 64 << 20;
             p.machine.software.nccl_version = "2.21.5";
         },
         healthy_workstation},
        {"shm-full", "left over segments", slow,
         [](Patient& p) { p.machine.limits.shm_free_bytes = 1 << 20; }},
        {"driver-library-mismatch", "NVML refuses", broken,
         [](Patient& p) {
             p.machine.notes = {"NVML: nvmlInit failed: Driver/library version mismatch (18)"};
         }},
        {"pci-tree-flat", "a guest without switches", slow,
         [](Patient& p) {
             for (int a = 0; a < 8; ++a)
                 for (int b = 0; b < a; ++b) connect(p.machine, a, b, PathType::PHB);
             for (auto& row : p.machine.gpu_nic_paths)
                 for (auto& cell : row)
                     if (cell) cell = PathType::PHB;
         },
         guest_with_switches},
        {"topo-file-unused", "the image's file", slow,
         [](Patient& p) { p.machine.software.topology_files = {"/opt/microsoft/ndv5-topo.xml"}; },
         guest_with_switches},
        {"topo-file-size", "four GPUs with the file of eight", note,
         [](Patient& p) { set(p, "NCCL_TOPO_FILE", "/opt/microsoft/ndv4-topo.xml"); }, a100_pcie},
        {"nccl-too-old-for-gpu", "Blackwell with 2.25", broken,
         [](Patient& p) {
             p.machine.software.nccl_version = "2.25.1";
             for (detect::Gpu& gpu : p.machine.gpus) gpu.compute_capability = 120;
         },
         healthy_workstation},
        {"nvidia-module-missing", "nouveau in its place", broken,
         [](Patient& p) {
             p.machine.software.driver.reset();
             p.machine.software.modules = std::vector<std::string>{"nouveau"};
         }},
        {"efa-plugin-missing", "no plugin", slow,
         [](Patient& p) {
             p.machine.software.nccl_plugins.clear();
             p.machine.software.nccl_plugin_files.clear();
         },
         efa_node},
        {"efa-absent", "a container without adapters", slow,
         [](Patient& p) {
             p.machine.nics.resize(2);
             p.machine.software.verbs_devices = 0;
             connect_adapters(p.machine);
         },
         efa_node},
        {"google-plugin-missing", "an A3 machine", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.software.nccl_plugins.clear();
             p.machine.software.nccl_plugin_files.clear();
         },
         google_node},
        {"amd-iommu-translating", "all xGMI", note,
         [](Patient& p) { p.machine.software.iommu_translating = true; }, healthy_amd_node},
        {"rccl-gdr-read", "set to 1", note, [](Patient& p) { set(p, "NCCL_NET_GDR_READ", "1"); },
         healthy_amd_node},
        {"xgmi-small-group", "two of eight", note, [](Patient& p) { p.job.ranks_per_node = 2; },
         healthy_amd_node},
        {"rocm-visible-twice", "both lists", slow,
         [](Patient& p) {
             set(p, "ROCR_VISIBLE_DEVICES", "4,5");
             set(p, "HIP_VISIBLE_DEVICES", "4,5");
         },
         healthy_amd_node},
    };
}

std::vector<Row> setting_rows() {
    return {
        {"variable-dangerous", "flush off", slow,
         [](Patient& p) { set(p, "NCCL_GDR_FLUSH_DISABLE", "1"); }},
        {"variable-dangerous", "a prefix, with EFA", slow,
         [](Patient& p) { set(p, "RDMAV_FORK_SAFE", "1"); }, efa_node},
        {"variable-obsolete", "an old name", note,
         [](Patient& p) { set(p, "NCCL_LL_THRESHOLD", "0"); }},
        {"variable-for-debugging", "a fixed algorithm", note,
         [](Patient& p) { set(p, "NCCL_ALGO", "Ring"); }},
        {"nccl-not-a-number", "true is 0", slow,
         [](Patient& p) { set(p, "NCCL_CROSS_NIC", "true"); }},
        {"gdr-level-not-a-level", "lower case", slow,
         [](Patient& p) { set(p, "NCCL_NET_GDR_LEVEL", "sys"); }},
        {"proto-ll128-forced", "alone", slow, [](Patient& p) { set(p, "NCCL_PROTO", "LL128"); }},
        {"nvls-disabled", "on H100", note, [](Patient& p) { set(p, "NCCL_NVLS_ENABLE", "0"); }},
        {"socket-threads-range", "16 x 8", note,
         [](Patient& p) {
             set(p, "NCCL_SOCKET_NTHREADS", "16");
             set(p, "NCCL_NSOCKS_PERTHREAD", "8");
         }},
        {"ib-timeout-range", "a value of 40", slow,
         [](Patient& p) { set(p, "NCCL_IB_TIMEOUT", "40"); }},
        {"nccl-net-absent", "IB without ports", broken,
         [](Patient& p) { set(p, "NCCL_NET", "IB"); }, sockets_only},
        {"conf-file-values", "a value in /etc/nccl.conf", note,
         [](Patient& p) {
             p.user.conf = {{"NCCL_CROSS_NIC", "0", "/etc/nccl.conf:3"}};
         }},
    };
}

std::vector<Row> all_rows() {
    std::vector<Row> all;
    for (const auto& rows :
         {interface_rows(), rdma_rows(), gpu_rows(), system_rows(), setting_rows()})
        all.insert(all.end(), rows.begin(), rows.end());
    return all;
}

TEST_CASE("each check speaks of its fault and is silent without it") {
    for (const Row& row : all_rows()) {
        CAPTURE(row.id);
        CAPTURE(row.name);
        Patient patient;
        patient.machine = row.healthy();
        CHECK_FALSE(has(examine(patient.machine, patient.user, patient.job), row.id));
        row.harm(patient);
        const auto diagnosis = examine(patient.machine, patient.user, patient.job);
        REQUIRE(has(diagnosis, row.id));
        const env::Finding found = finding(diagnosis, row.id);
        CHECK(env::severity_text(found.severity) == env::severity_text(row.severity));
        CHECK_FALSE(found.what.empty());
        CHECK_FALSE(found.evidence.empty());
        CHECK_FALSE(found.effect.empty());
        CHECK_FALSE(found.fix.empty());
    }
}

TEST_CASE("every check of the list has a row here, unless decide finds it") {
    std::set<std::string> known;
    for (const Row& row : all_rows()) known.insert(row.id);
    for (const env::CheckInfo& check : env::check_list()) {
        CAPTURE(check.id);
        if (check.family == "decision") continue;
        CHECK(known.contains(std::string(check.id)));
    }
}

TEST_CASE("no finding is graver than its check announces") {
    for (const Row& row : all_rows())
        for (const env::CheckInfo& check : env::check_list())
            if (check.id == row.id) {
                CAPTURE(row.id);
                CHECK(check.worst <= row.severity);
            }
}

}  // namespace
}  // namespace toporun::tests
