#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "detect/pci/pci_address.hpp"

/// NCCL's own picture of a node (src/graph/topo.cc): NUMA domains, PCIe switches, GPUs, adapters
/// and their links. Live detection and captures fill it, compute_paths() judges it.
namespace toporun::detect {

/// Stands for a version of NCCL that is not known: newer than all.
inline constexpr int kNewestNccl = 99'99'99;

/// What a device hangs on: the nearest PCIe switch (position in SystemTree::switches), or a CPU
/// directly (position in SystemTree::cpus).
struct TreeParent {
    std::size_t cpu = 0;
    std::optional<std::size_t> pci_switch;
    friend bool operator==(const TreeParent&, const TreeParent&) = default;
};

/// A NUMA domain, which NCCL calls a CPU.
struct TreeCpu {
    int numa_node = -1;        ///< OS index, -1 unknown
    std::string architecture;  ///< "x86_64", "aarch64" (NCCL says "arm64"), "ppc64", "" unknown
    std::string vendor;        ///< "GenuineIntel", "AuthenticAMD", ...; "" unknown
    int family = 0;            ///< x86 family and model numbers, 0 unknown
    int model = 0;
    std::string host;  ///< CPUs of different hosts are not connected (NCCL's host_hash)
};

struct PciIds {
    unsigned vendor = 0;
    unsigned device = 0;
    unsigned subsystem_vendor = 0;
    unsigned subsystem_device = 0;
    friend bool operator==(const PciIds&, const PciIds&) = default;
};

/// A PCIe switch, named by its upstream port. Its parent comes before it in SystemTree::switches.
struct TreeSwitch {
    PciAddress address;
    TreeParent parent;
    double gbytes_per_s = 0;  ///< of the link upwards
    PciIds ids;
    std::vector<PciAddress> peers;  ///< switches joined to it by Broadcom's virtual links
};

enum class LinkTarget { gpu, nvswitch, cpu };

/// NVLinks (on AMD: xGMI links) of a GPU to one target.
struct TreeNvLink {
    LinkTarget target = LinkTarget::nvswitch;
    PciAddress address;  ///< of a GPU
    int count = 1;
};

struct TreeGpu {
    PciAddress address;
    TreeParent parent;
    double gbytes_per_s = 0;                ///< of the PCIe link upwards
    int index = 0;                          ///< NVML's number, NCCL's "dev"
    std::optional<int> compute_capability;  ///< major*10 + minor
    /// Of an AMD GPU: "gfx942". NCCL's constants are NVIDIA's, these links have RCCL's.
    std::string amd_architecture;
    std::vector<TreeNvLink> links;
    double c2c_gbytes_per_s = 0;  ///< NVLink-C2C to the CPU, 0 without
    bool gpu_direct = true;       ///< adapters may reach its memory (GPUDirect RDMA)
};

/// A port that NCCL's network uses.
struct TreeNet {
    std::string name;
    double gbytes_per_s = 0;
    bool relay = true;       ///< other GPUs may reach it through the GPU beside it (PXN)
    bool gpu_direct = true;  ///< it may reach the memory of GPUs
};

struct TreeAdapter {
    std::optional<PciAddress> address;  ///< empty: a virtual one, on the CPU
    TreeParent parent;
    double gbytes_per_s = 0;  ///< of the PCIe link upwards
    std::vector<TreeNet> nets;
};

struct SystemTree {
    std::vector<TreeCpu> cpus;
    std::vector<TreeSwitch> switches;
    std::vector<TreeGpu> gpus;
    std::vector<TreeAdapter> adapters;
};

/// Bandwidth of a PCIe link by NCCL's reckoning, GB/s in one direction. NCCL takes an unknown
/// generation for 3 and an unknown width for 16 (src/graph/topo.cc).
double pcie_gbytes_per_s(std::optional<int> generation, std::optional<int> width);

}  // namespace toporun::detect
