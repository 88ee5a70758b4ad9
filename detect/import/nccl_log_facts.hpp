#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "detect/import/lines.hpp"
#include "detect/nccl_log/graph.hpp"
#include "detect/nccl_log/line.hpp"

/// What NCCL's log says of one host, from the lines of all its processes.
namespace toporun::detect {

/// A device of the tree (=== System ...), by kind and number: {"GPU", 0x1a000}.
using LogNode = std::pair<std::string, std::uint64_t>;

/// Where a device hangs in the tree.
struct LogPlace {
    std::uint64_t cpu = 0;             ///< NUMA node
    std::optional<std::uint64_t> nic;  ///< of a NET: the PCI device it is a port of
    double gbytes_per_s = 0;           ///< of the link above it
};

struct LogCpu {
    std::uint64_t numa_node = 0;
    std::string kind;  ///< "1/1/3": architecture, vendor, model
};

struct LogPath {
    std::string type;
    double gbytes_per_s = 0;
};

/// A rank of the host, by its Init lines.
struct LogRank {
    std::string bus_id;  ///< as printed, "1a000"; "" when not printed
    std::optional<int> nvml_device;
};

struct LogFacts {
    std::string host;
    std::size_t hosts = 0;  ///< of the whole log
    std::string version;    ///< "2.28.9"
    bool rccl = false;
    std::map<LogNode, std::map<LogNode, LogPath>> paths;
    std::map<LogNode, LogPlace> places;
    std::map<std::uint64_t, LogCpu> cpus;
    bool nvswitch = false;
    bool cut = false;              ///< a path line ends early
    bool several_systems = false;  ///< the tree spans hosts (multi-node NVLink): the first is read
    std::map<int, LogRank> ranks;
    std::set<std::string> bus_ids;  ///< of GPUs in connections within the host, as printed
    /// CUDA's numbers of GPUs by bus id as printed, each number that was said.
    std::map<std::string, std::set<int>> cuda_devices;
    std::map<std::string, std::set<int>> bus_ranks;  ///< likewise the ranks of connections
    /// Pairs of bus ids to which the driver refused peer access.
    std::set<std::pair<std::string, std::string>> refused;
    std::vector<nccl_log::Interface> interfaces;  ///< in NCCL's order, each once
    std::vector<std::string> bootstrap;           ///< names of those that the bootstrap uses
    std::vector<std::string> devices;             ///< of NET/IB, "mlx5_0:1/IB", position = number
    std::string network;                          ///< of `Using network`
    std::map<int, std::string> device_names;      ///< of NETs, by number
    std::vector<nccl_log::GpuDirectDistance> distances;
    std::set<std::string> net_devices;  ///< of NET connections, where the network is a plugin's
    std::string provider;               ///< of libfabric: "efa"
    std::vector<std::string> path_variables;  ///< "NCCL_P2P_LEVEL=SYS": they change what is printed
    std::vector<std::string> network_variables;  ///< "NCCL_SOCKET_IFNAME=lo", likewise
    std::size_t records = 0;                     ///< lines of NCCL
    std::size_t torn = 0;                        ///< lines that another process wrote into
    std::vector<bool> understood;
};

/// Reads the first host that printed its tree, else the first host. Names are torn where several
/// processes write to one file: a host with few lines beside another's many is none, and one whose
/// name is the end of another's, or ends with it, is that other one.
LogFacts read_nccl_log(const Lines& lines);

}  // namespace toporun::detect
