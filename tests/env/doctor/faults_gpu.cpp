#include "faults.hpp"

namespace toporun::tests {
namespace {

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

Machine l4_pair() {
    Machine machine = several_pcie_gpus("NVIDIA L4", 2, PathType::PHB);
    set_peer_access(machine, PeerAccess::refused);
    return machine;
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

/// As in a table that names no GPU.
void forget_names_and_links(Machine& machine) {
    for (detect::Gpu& gpu : machine.gpus) {
        gpu.name.clear();
        gpu.links.clear();
    }
}

void connect_all(Machine& machine, PathType path) {
    for (int a = 0; a < static_cast<int>(machine.gpus.size()); ++a)
        for (int b = 0; b < a; ++b) connect(machine, a, b, path);
}

}  // namespace

std::vector<Fault> gpu_faults() {
    return {
        {"known-bad", "L4 with NCCL 2.25 and driver 560", slow,
         [](Patient& p) {
             p.machine.software.driver = "560.35.03";
             p.machine.software.nccl_version = "2.25.1";
         },
         l4_pair},
        {"known-bad", "all-to-all of 2.19", note,
         [](Patient& p) { p.machine.software.nccl_version = "2.19.4"; }},
        {"p2p-refused", "A100 below one switch", slow,
         [](Patient& p) { set_peer_access(p.machine, PeerAccess::refused); }, a100_pcie},
        {"p2p-refused", "RTX A6000 below one switch", slow,
         [](Patient& p) { set_peer_access(p.machine, PeerAccess::refused); },
         [] { return several_pcie_gpus("NVIDIA RTX A6000", 2, PathType::PIX); }},
        {"p2p-refused", "RTX PRO 6000 below one switch", slow,
         [](Patient& p) { set_peer_access(p.machine, PeerAccess::refused); },
         [] {
             return several_pcie_gpus("NVIDIA RTX PRO 6000 Blackwell Server Edition", 4,
                                      PathType::PXB);
         }},
        {"p2p-across-packages", "the default of 2.22 on AMD", note,
         [](Patient& p) { p.machine.software.nccl_version = "2.22.3"; }, epyc_a40},
        {"acs-root-ports", "the default of 2.22 on AMD", note,
         [](Patient& p) {
             p.machine.software.nccl_version = "2.22.3";
             for (detect::Gpu& gpu : p.machine.gpus)
                 gpu.acs_root_port =
                     detect::PciAddress{0, static_cast<std::uint8_t>(gpu.index * 0x20), 1, 1};
         },
         epyc_a40},
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
             connect_all(p.machine, PathType::SYS);
             p.machine.nvswitch = false;
         }},
        {"nvlink-missing", "the same in a capture that is cut", note,
         [](Patient& p) {
             forget_names_and_links(p.machine);
             connect_all(p.machine, PathType::SYS);
             connect(p.machine, 6, 7, PathType::DIS);
             p.machine.gpu_links[6][7] = p.machine.gpu_links[7][6] = -1;
             p.machine.nvswitch = false;
         }},
        {"nvlink-missing", "no names, every pair SYS, an adapter each", note,
         [](Patient& p) {
             forget_names_and_links(p.machine);
             connect_all(p.machine, PathType::SYS);
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
        {"nvlink-uneven", "NV17 of NV18 behind switches, no names", slow,
         [](Patient& p) {
             forget_names_and_links(p.machine);
             for (int other = 0; other < 8; ++other)
                 if (other != 5) connect(p.machine, 5, other, PathType::NVL, 17);
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
        {"gpu-not-responding", "one GPU", broken,
         [](Patient& p) { p.machine.gpus[1].responding = false; }},
        {"gpu-compute-mode", "one GPU prohibited", broken,
         [](Patient& p) { p.machine.gpus[1].compute_mode = "prohibited"; }},
        {"gpu-compute-mode", "two ranks for an exclusive GPU", broken,
         [](Patient& p) {
             p.machine.gpus[1].compute_mode = "exclusive-process";
             p.job.ranks_per_node = 16;
         }},
        {"gpu-compute-mode", "exclusive and in use", broken,
         [](Patient& p) {
             p.machine.gpus[1].compute_mode = "exclusive-process";
             p.machine.gpus[1].memory_used_bytes = 40ull << 30;
         }},
        {"gpu-compute-mode", "exclusive, in use and not needed", note,
         [](Patient& p) {
             p.machine.gpus[1].compute_mode = "exclusive-process";
             p.machine.gpus[1].memory_used_bytes = 40ull << 30;
             p.job.ranks_per_node = 4;
         }},
        {"gpu-ecc-errors", "one GPU", slow,
         [](Patient& p) { p.machine.gpus[1].uncorrected_errors = 7; }},
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
        {"gpu-count-odd", "seven GPUs", slow, [](Patient& p) { drop_gpus(p.machine, 1); }},
        {"gpu-count-odd", "six GPUs of eight on the bus", note,
         [](Patient& p) {
             drop_gpus(p.machine, 2);
             p.machine.software.gpus_withheld = 2;
         }},
    };
}

}  // namespace toporun::tests
