#include "faults.hpp"

namespace toporun::tests {
namespace {

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

}  // namespace

std::vector<Fault> system_faults() {
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
        {"platform-nics", "two of 32 adapters did not start", slow,
         [](Patient& p) {
             p.machine.nics.resize(p.machine.nics.size() - 2);
             connect_adapters(p.machine);
         },
         efa_node},
        {"platform-nics", "one node needs none", note,
         [](Patient& p) {
             p.job.nodes = 1;
             p.machine.nics.resize(p.machine.nics.size() - 2);
             connect_adapters(p.machine);
         },
         efa_node},
        {"platform-gpus", "one fell off the bus", slow,
         [](Patient& p) {
             p.machine.gpus.resize(7);
             p.machine.gpu_paths.resize(7);
             for (auto& row : p.machine.gpu_paths) row.resize(7);
             p.machine.gpu_links.clear();
             p.machine.peer_access.clear();
             p.machine.gpu_acs_redirect.clear();
             p.machine.gpu_path_gbytes_per_s.clear();
             connect_adapters(p.machine);
         },
         efa_node},
        {"vendor-script-unused", "gIB without its script", slow,
         [](Patient& p) {
             several_nodes(p);
             p.machine.software.vendor_files = {"/usr/local/gib"};
         },
         google_node},
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

std::vector<Fault> setting_faults() {
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
        {"proto-ll128-forced", "for one function", slow,
         [](Patient& p) { set(p, "NCCL_PROTO", "allreduce:LL128"); }},
        {"proto-ll128-forced", "first of two entries", slow,
         [](Patient& p) { set(p, "NCCL_PROTO", "LL128;allgather:^simple"); }},
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

}  // namespace toporun::tests
