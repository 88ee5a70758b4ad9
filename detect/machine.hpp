#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/cpu_set.hpp"
#include "detect/pci_address.hpp"

/// What a machine is. Plain facts: nothing here decides. A fact that could not be learnt is empty,
/// and a line in Machine::notes says why. JSON and TOML keys are the member names
/// (docs/machine.md).
namespace toporun::detect {

/// NCCL's path types, nearest first. The order is the order of distance in NCCL 2.27.5 and later.
enum class PathType { LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET, DIS };

std::string_view path_name(PathType path);
std::optional<PathType> parse_path_name(std::string_view name);  ///< exact upper-case name

struct Gpu {
    int index = 0;       ///< NVML order, which is PCI order
    std::string name;    ///< "NVIDIA H100 80GB HBM3"; "" when unknown
    std::string vendor;  ///< "nvidia", "amd"
    std::optional<PciAddress> pci;
    std::optional<std::string> uuid;  ///< "GPU-..."
    std::optional<int> numa_node;     ///< OS index
    CpuSet cpus;                      ///< PUs near the GPU; empty = unknown
    std::optional<std::uint64_t> memory_bytes;
    std::optional<int> pcie_generation;     ///< possible, not the present power state's
    std::optional<int> pcie_width;          ///< likewise, lanes
    std::optional<bool> mig;                ///< MIG mode is on
    std::optional<int> compute_capability;  ///< major*10 + minor: 90 for H100
    friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Whether PCIe access control (ACS) sends the traffic of a GPU pair up to the CPU's root complex
/// where the bridges would otherwise pass it on directly.
enum class AcsRedirect { unknown, off, on };

/// Driver's statement about peer access of a pair (NVML P2P status, read and write).
enum class PeerAccess { unknown, ok, refused };

enum class NicKind {
    ethernet,
    ipoib,
    infiniband,
    roce,
    efa,
    bond,
    vlan,
    bridge,
    veth,
    tunnel,
    vf,
    loopback,
    other
};
std::string_view nic_kind_name(NicKind kind);
std::optional<NicKind> parse_nic_kind(std::string_view name);

/// A network interface, an RDMA device, or both in one when they are the same port.
struct Nic {
    std::string name;  ///< interface name, or RDMA device when it has none
    NicKind kind = NicKind::other;
    std::string state;  ///< "up", "down", "unknown"; up = carrier (RUNNING)
    std::optional<double> speed_gbits;
    std::optional<int> mtu;
    std::vector<std::string> addresses;  ///< with prefix length: "10.0.0.1/24", "fe80::1/64"
    std::optional<PciAddress> pci;
    std::optional<int> numa_node;
    std::optional<std::string> rdma_device;  ///< "mlx5_0"
    std::optional<int> port;
    int os_index = 0;            ///< kernel order, which is NCCL's order of search
    bool default_route = false;  ///< carries the default route (IPv4, else IPv6)
    friend bool operator==(const Nic&, const Nic&) = default;
};

struct NumaNode {
    int os_index = 0;
    CpuSet cpus;  ///< all PUs of the node, also those not allowed
    std::optional<std::uint64_t> memory_bytes;
    friend bool operator==(const NumaNode&, const NumaNode&) = default;
};

struct Core {
    CpuSet pus;  ///< SMT siblings
    int package = 0;
    std::optional<int> numa_node;  ///< OS index
    std::optional<int> l3;         ///< number of its last-level cache on this machine
    friend bool operator==(const Core&, const Core&) = default;
};

struct Cpu {
    std::string vendor;  ///< "GenuineIntel", "AuthenticAMD", "ARM", "" unknown
    std::string model;
    std::optional<int> packages;
    std::vector<NumaNode> numa_nodes;
    std::vector<Core> cores;
    CpuSet allowed;             ///< cpuset and affinity mask, whichever is smaller
    std::optional<int> family;  ///< x86 family and model numbers
    std::optional<int> model_number;
    std::string architecture;  ///< uname: "x86_64", "aarch64"
    friend bool operator==(const Cpu&, const Cpu&) = default;
};

struct Limits {
    std::optional<std::uint64_t> shm_bytes;  ///< size of /dev/shm
    std::optional<std::uint64_t> shm_free_bytes;
    std::optional<std::uint64_t> memlock_bytes;  ///< kUnlimited when there is none
    std::optional<std::uint64_t> nofile;
    std::optional<double> cpu_quota;                  ///< CPUs; empty = none
    std::optional<std::uint64_t> memory_bytes;        ///< of the machine
    std::optional<std::uint64_t> memory_limit_bytes;  ///< of the cgroup; empty = none
    friend bool operator==(const Limits&, const Limits&) = default;
};
inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

struct Software {
    std::optional<std::string> driver;        ///< NVIDIA driver "550.54.15"
    std::optional<std::string> nccl_version;  ///< "2.28.9"
    std::optional<std::string> nccl_library;  ///< the file it was read from
    std::string kernel;                       ///< uname release
    std::vector<std::string> nccl_plugins;    ///< "libnccl-net.so" ... found on the library path
    std::optional<bool> iommu_translating;    ///< DMA remapping on and not pass-through
    std::optional<bool> acs_redirect;         ///< on a bridge above a GPU; empty = not readable
    friend bool operator==(const Software&, const Software&) = default;
};

struct Machine {
    std::vector<Gpu> gpus;
    /// GPU x GPU, symmetric, LOC on the diagonal, indexed by position in `gpus`.
    std::vector<std::vector<PathType>> gpu_paths;
    std::vector<std::vector<int>> gpu_links;           ///< NVLinks of the pair, 0 without
    std::vector<std::vector<PeerAccess>> peer_access;  ///< GPU x GPU
    /// GPU x GPU, symmetric, off on the diagonal; empty = no bridge could be read.
    std::vector<std::vector<AcsRedirect>> gpu_acs_redirect;
    bool nvswitch = false;  ///< the NVLinks lead to switches
    std::vector<Nic> nics;  ///< kernel order
    std::vector<std::vector<std::optional<PathType>>> gpu_nic_paths;  ///< GPU x NIC
    Cpu cpu;
    Limits limits;
    Software software;
    std::string hostname;
    std::string vendor;   ///< DMI sys_vendor
    std::string product;  ///< DMI product_name
    bool container = false;
    bool virtual_machine = false;
    std::vector<std::string> notes;  ///< why a fact is missing
    friend bool operator==(const Machine&, const Machine&) = default;
};

/// NCCL's version as a number, major*10000 + minor*100 + patch: 22809; nothing when unknown.
std::optional<int> nccl_version_code(const std::optional<std::string>& version);

}  // namespace toporun::detect
