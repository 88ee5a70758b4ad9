#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/cpu_set.hpp"
#include "detect/pci/pci_address.hpp"

/// What a machine is. Plain facts: nothing here decides. A fact that could not be learnt is empty,
/// and a line in Machine::notes says why. JSON and TOML keys are the member names
/// (docs/machine.md). A capture fills the part that it knows.
namespace toporun::detect {

/// NCCL's path types, nearest first. The order is the order of distance in NCCL 2.27.5 and later.
enum class PathType { LOC, NVL, NVB, C2C, PIX, PXB, P2C, PXN, PHB, SYS, NET, DIS };

std::string_view path_name(PathType path);
std::optional<PathType> parse_path_name(std::string_view name);  ///< exact upper-case name

/// One NVLink or xGMI link of a GPU, as its own end sees it.
struct GpuLink {
    int link = 0;                              ///< the driver's number
    std::optional<bool> active;                ///< empty = it exists, its state is unknown
    std::optional<int> version;                ///< NVLink generation, 1 to 6
    std::optional<PciAddress> peer;            ///< empty = hidden, as in VMs
    std::string peer_kind;                     ///< "gpu", "switch", "cpu", "" unknown
    std::optional<double> speed_gbytes_per_s;  ///< one direction, as the driver states it
    friend bool operator==(const GpuLink&, const GpuLink&) = default;
};

struct Gpu {
    int index = 0;       ///< NVML order, which is PCI order
    std::string name;    ///< "NVIDIA H100 80GB HBM3"; "" when unknown
    std::string vendor;  ///< "nvidia", "amd"
    std::optional<PciAddress> pci;
    std::string pci_id;               ///< vendor and device: "10de:2330"; "" unknown
    std::optional<std::string> uuid;  ///< "GPU-..."
    std::optional<int> numa_node;     ///< OS index
    /// OS index of the NUMA node that its own memory is, where the CPU reaches it coherently
    /// (Grace).
    std::optional<int> memory_numa_node;
    CpuSet cpus;  ///< PUs near the GPU; empty = unknown
    std::optional<std::uint64_t> memory_bytes;
    std::optional<int> pcie_generation;              ///< possible, not the present power state's
    std::optional<int> pcie_width;                   ///< likewise, lanes
    std::optional<bool> mig;                         ///< MIG mode is on
    std::optional<int> compute_capability;           ///< major*10 + minor: 90 for H100
    std::string architecture;                        ///< "Hopper", "gfx942"; "" unknown
    std::optional<std::uint64_t> memory_used_bytes;  ///< at the moment of the look, by anybody
    std::optional<int> pcie_generation_now;  ///< in the present power state: an idle GPU lowers it
    std::optional<int> pcie_width_now;       ///< lanes in use: fewer than possible is a fault
    std::optional<bool> persistence;         ///< persistence mode is on
    std::optional<bool> ecc;
    std::optional<bool> responding;  ///< false: the driver gets no answer from it
    std::string compute_mode;        ///< "default", "exclusive-process", "prohibited"; "" unknown
    std::optional<std::uint64_t> uncorrected_errors;  ///< of its memory, since the driver's start
    std::optional<bool> row_remap_failed;             ///< the memory could not be repaired
    std::optional<bool> row_remap_pending;            ///< repaired at the next reset
    /// Clocks held down by: "hw-slowdown", "hw-thermal", "sw-thermal", "power-brake", "power-cap".
    std::vector<std::string> throttle_reasons;
    std::vector<GpuLink> links;  ///< by number; empty = unknown or none
    std::string fabric_state;    ///< "not supported", "not started", "in progress", "completed", ""
    std::string fabric_status;   ///< of "completed": "success", or the driver's error; "" unknown
    std::optional<double> c2c_gbytes_per_s;  ///< NVLink-C2C to the CPU, one direction, all links
    /// The root port above it, where that port's ACS control redirects; nothing: it does not, or
    /// that is unknown.
    std::optional<PciAddress> acs_root_port;
    friend bool operator==(const Gpu&, const Gpu&) = default;
};

/// Whether PCIe access control (ACS) changes the way of a GPU pair's traffic: a switch that would
/// pass it on directly sends it up to the CPU's root complex, or, between root ports, it goes
/// through an IOMMU that translates (software/acs.hpp).
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

/// An entry of an RDMA port's GID table.
struct Gid {
    int index = 0;
    std::string address;    ///< in IPv6 form: "fe80::1", "::ffff:10.0.0.1"
    std::string type;       ///< "IB", "RoCE v1", "RoCE v2", "" unknown
    std::string interface;  ///< the network device it belongs to, "" unknown
    friend bool operator==(const Gid&, const Gid&) = default;
};

/// A counter of a port that is not zero.
struct PortCounter {
    std::string name;  ///< "link_downed", "symbol_error": as in sysfs
    std::uint64_t value = 0;
    friend bool operator==(const PortCounter&, const PortCounter&) = default;
};

/// A network interface, an RDMA device, or both in one when they are the same port.
struct Nic {
    std::string name;  ///< interface name, or RDMA device when it has none
    NicKind kind = NicKind::other;
    std::string state;  ///< "up", "down", "unknown"; up = carrier (RUNNING)
    std::optional<double> speed_gbits;
    std::optional<int> mtu;
    std::vector<std::string> addresses;  ///< with prefix length: "10.0.0.1/24", "fe80::1/64"
    std::optional<PciAddress> pci;
    std::string pci_id;  ///< vendor and device: "15b3:1021"; "" unknown
    std::optional<int> numa_node;
    std::optional<std::string> rdma_device;  ///< "mlx5_0"
    std::optional<int> port;
    int os_index = 0;                    ///< kernel order, which is NCCL's order of search
    bool default_route = false;          ///< carries the default route (IPv4, else IPv6)
    std::string master;                  ///< the bond or bridge it is a member of
    std::string parent;                  ///< of a VLAN or tunnel: the interface below it
    bool virtual_function = false;       ///< an SR-IOV VF, whatever the kind says
    std::string driver;                  ///< kernel module: "mlx5_core", "ena"
    std::string guid;                    ///< of the RDMA device: "b8ce:f603:00d3:1ed8"
    std::vector<Gid> gids;               ///< entries in use
    std::vector<PortCounter> errors;     ///< error counters since boot that are not zero
    std::optional<int> pcie_generation;  ///< possible
    std::optional<int> pcie_width;
    std::optional<int> pcie_generation_now;
    std::optional<int> pcie_width_now;
    /// Of the RDMA port, whatever its interface does: "active", "down", "init", "armed", ""
    /// unknown. An IPoIB interface that is switched off leaves its port usable.
    std::string port_state;
    bool iwarp = false;  ///< its RDMA device speaks iWARP (node type RNIC), not InfiniBand or RoCE
    friend bool operator==(const Nic&, const Nic&) = default;
};

/// NCCL's NET/IB and its kind may use the port: an RDMA port whose state is "active" or unknown. By
/// the interface's state alone a port is down with its interface, but for IPoIB, which can be
/// switched off by itself.
bool rdma_usable(const Nic& nic);

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
    /// Distances by the firmware (ACPI SLIT), 10 = local, rows and columns in the order of
    /// numa_nodes, not always symmetric. Empty = unknown.
    std::vector<std::vector<int>> numa_distances;
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
    /// This process holds CAP_IPC_LOCK, for which memlock_bytes does not count.
    std::optional<bool> ipc_lock;
    std::optional<std::uint64_t> nofile;
    std::optional<std::uint64_t> nproc;               ///< processes and threads of the user
    std::optional<double> cpu_quota;                  ///< CPUs; empty = none
    std::optional<std::uint64_t> memory_bytes;        ///< of the machine
    std::optional<std::uint64_t> memory_limit_bytes;  ///< of the cgroup; empty = none
    friend bool operator==(const Limits&, const Limits&) = default;
};
inline constexpr std::uint64_t kUnlimited = UINT64_MAX;

/// A library that NCCL would load as a plugin.
struct NcclPlugin {
    std::string name;   ///< file name: "libnccl-net.so"
    std::string file;   ///< where it lies, links resolved
    std::string maker;  ///< "aws-ofi", "gib", "hpcx", "fastsocket", "tcpx", "tcpxo", "" unknown
    friend bool operator==(const NcclPlugin&, const NcclPlugin&) = default;
};

struct Software {
    std::optional<std::string> driver;        ///< NVIDIA driver "550.54.15"
    std::optional<std::string> nccl_version;  ///< "2.28.9"
    std::optional<std::string> nccl_library;  ///< the file it was read from
    std::string kernel;                       ///< uname release
    std::vector<std::string> nccl_plugins;    ///< "libnccl-net.so" ... found on the library path
    std::optional<bool> iommu_translating;    ///< DMA remapping on and not pass-through
    std::optional<bool> acs_redirect;         ///< by a bridge above a GPU; empty = not readable
    std::string iommu_mode;  ///< "off", "pass-through", "translating", "default", "" unknown
    std::optional<bool> driver_open;  ///< NVIDIA's open kernel modules
    /// Loaded modules that matter to NCCL ("nvidia_peermem", "gdrdrv", "efa"); nothing = unknown.
    std::optional<std::vector<std::string>> modules;
    /// Peer-memory clients registered with the RDMA core ("nv_mem", "nvidia-peermem"); nothing =
    /// unknown.
    std::optional<std::vector<std::string>> peer_memory_clients;
    std::optional<bool> numa_balancing;  ///< kernel.numa_balancing is on
    std::optional<int> imex_channels;    ///< of /dev/nvidia-caps-imex-channels; nothing = unknown
    std::optional<bool> fabric_manager;  ///< a fabric manager runs on this host
    std::optional<int> verbs_devices;    ///< /dev/infiniband/uverbs* that can be seen here
    /// GPUs on the PCI bus that the driver shows not to this process; nothing = unknown.
    std::optional<int> gpus_withheld;
    std::string container_kind;  ///< "docker", "kubernetes", "apptainer", "" none or unknown
    std::string hypervisor;      ///< "kvm", "xen", "microsoft", "" none or unknown
    std::string scheduler;       ///< "slurm", "kubernetes", "pbs", "lsf", "flux", ... or ""
    std::vector<std::string> conf_files;      ///< nccl.conf files that NCCL would read
    std::vector<std::string> topology_files;  ///< topology XML that NCCL would read or images ship
    std::vector<NcclPlugin> nccl_plugin_files;  ///< the files behind nccl_plugins, in search order
    std::vector<std::string> vendor_files;      ///< of cloud and fabric makers: "/usr/local/gib"
    friend bool operator==(const Software&, const Software&) = default;
};

/// The kernel's answer to "how would you reach this address?" (rtnetlink).
struct Route {
    std::string destination;  ///< an address: "10.0.0.1"
    std::string interface;
    std::string source;  ///< the address that the peer would see
    friend bool operator==(const Route&, const Route&) = default;
};

/// Bounds of a Machine: its matrices grow with the square. No operating system shows as many GPUs,
/// no host has as many interfaces that matter; what a tree or a file lists beyond them is left out.
inline constexpr std::size_t kMostMachineGpus = 256;
inline constexpr std::size_t kMostMachineNics = 1024;
/// Bounds of figures: what is beyond them in a file is a slip, in a damaged line no figure.
inline constexpr int kMostGpuLinks = 36;  ///< of one GPU (NVML_NVLINK_MAX_LINKS of CUDA 13)
inline constexpr int kMostDirectLinks =
    18;  ///< up to NVLink 5; GPUs with more stand behind switches
inline constexpr int kMostPcieGeneration = 9;
inline constexpr int kMostPcieLanes = 32;
inline constexpr int kMostRdmaPort = 255;
inline constexpr int kMostOsIndex = 1 << 24;

struct Machine {
    bool gpus_known = true;  ///< false: a capture that says nothing of GPUs; `gpus` is then empty
    bool nics_known = true;  ///< likewise
    std::vector<Gpu> gpus;
    /// GPU x GPU, symmetric, LOC on the diagonal, indexed by position in `gpus`. Empty = unknown;
    /// DIS for a pair that a cut capture does not tell.
    std::vector<std::vector<PathType>> gpu_paths;
    std::vector<std::vector<int>> gpu_links;  ///< NVLinks of the pair, 0 without, -1 unknown
    /// Bandwidth of the path in GB/s, one direction, by NCCL's constants (estimated); nothing =
    /// unknown. Same shape as gpu_paths, or empty.
    std::vector<std::vector<std::optional<double>>> gpu_path_gbytes_per_s;
    std::vector<std::vector<PeerAccess>> peer_access;  ///< GPU x GPU
    /// GPU x GPU, symmetric, off on the diagonal; empty = no bridge could be read.
    std::vector<std::vector<AcsRedirect>> gpu_acs_redirect;
    bool nvswitch = false;  ///< the NVLinks lead to switches
    std::vector<Nic> nics;  ///< kernel order
    std::vector<std::vector<std::optional<PathType>>> gpu_nic_paths;  ///< GPU x NIC
    /// GPU x NIC: ACS redirects what goes between them although they share a PCIe switch (GPUDirect
    /// RDMA). unknown for every other pair and what could not be read; empty = nothing was read.
    std::vector<std::vector<AcsRedirect>> gpu_nic_acs_redirect;
    Cpu cpu;
    Limits limits;
    std::vector<Route> routes;  ///< to the addresses that were asked for
    Software software;
    std::string hostname;
    std::string vendor;         ///< DMI sys_vendor
    std::string product;        ///< DMI product_name
    std::string asset_tag;      ///< DMI chassis_asset_tag: some clouds name themselves here
    std::string board;          ///< DMI board_vendor and board_name
    std::string instance_type;  ///< as the cloud told cloud-init: "Standard_ND96isr_H100_v5"
    bool container = false;
    bool virtual_machine = false;
    std::vector<std::string> notes;  ///< why a fact is missing
    friend bool operator==(const Machine&, const Machine&) = default;
};

/// NCCL's version as a number, major*10000 + minor*100 + patch: 22809; nothing when unknown.
std::optional<int> nccl_version_code(const std::optional<std::string>& version);

}  // namespace toporun::detect
