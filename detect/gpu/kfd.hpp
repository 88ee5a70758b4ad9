#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "detect/files.hpp"
#include "detect/pci/pci_address.hpp"

/// What AMD's compute driver (KFD) tells of its nodes, CPUs and GPUs, in
/// /sys/class/kfd/kfd/topology/nodes. Numbers are as the kernel has them (kfd_topology.c,
/// kfd_crat.c of Linux 6.12), 0 where one is missing.
namespace toporun::detect {

struct KfdLink {
    std::uint64_t type = 0;
    std::uint64_t to = 0;  ///< number of a node
    std::uint64_t weight = 0;
    std::uint64_t least_mbytes_per_s = 0;  ///< of one link
    std::uint64_t most_mbytes_per_s = 0;   ///< of all links of the pair
};

struct KfdNode {
    int number = 0;
    std::uint64_t simd_count = 0;  ///< 0 for a CPU
    std::uint64_t gfx_target_version = 0;
    std::uint64_t unique_id = 0;
    std::uint64_t render_minor = 0;  ///< of /dev/dri/renderD*
    std::uint64_t device_id = 0;     ///< PCI
    PciAddress pci;                  ///< of the device; partitions of one device share it
    int partition = 0;
    std::uint64_t memory_bytes = 0;  ///< of the GPU's own memory banks
    std::vector<KfdLink> links;
};

struct KfdTopology {
    bool present = false;
    std::vector<KfdNode> nodes;  ///< by number, which is the order of HIP's devices
    int unreadable = 0;          ///< nodes that the kernel keeps from this process
};

KfdTopology read_kfd(const Files& files);

/// Links between a pair by one entry: 0 when it is no xGMI link or leads through other GPUs.
int xgmi_links(const KfdLink& link);

}  // namespace toporun::detect
