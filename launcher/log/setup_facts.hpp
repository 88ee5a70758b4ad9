#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "detect/nccl_log/graph.hpp"
#include "detect/nccl_log/line.hpp"
#include "launcher/log/fabric_facts.hpp"

namespace toporun::launcher {

/// What the search for a graph found, distinct.
struct LogPattern {
    detect::nccl_log::Pattern pattern;
    std::uint64_t count = 0;  ///< lines
};

/// Algorithm and protocol that NCCL took for calls of one function and size class.
struct LogChoice {
    std::string function;          ///< "" up to 2.22
    std::uint64_t size_class = 0;  ///< as in LogCollective, of NCCL's own size
    std::string algorithm;
    std::string protocol;
    std::uint64_t count = 0;
};

/// A cell of the tuning table: what NCCL expects of a combination that it may use.
struct LogTuning {
    std::string function;
    std::string algorithm;  ///< "Ring", as in the table
    std::string protocol;   ///< "LL", "LL128", "Simple"
    double latency_us = 0;
    double gbytes_per_s = 0;  ///< algorithm bandwidth
};

/// The best adapter paths of a GPU.
struct LogGpuNic {
    std::string host;
    std::string gpu;        ///< "0000:18:00.0"
    std::uint64_t net = 0;  ///< number of the adapter in NCCL's topology
    std::string path;       ///< "PIX"
    double gbytes_per_s = 0;
};

/// GPUDirect RDMA of an adapter, by its name.
struct LogGpuDirect {
    std::string network;  ///< "NET/IB"
    std::string device;   ///< "mlx5_0"
    bool enabled = false;
    friend bool operator==(const LogGpuDirect&, const LogGpuDirect&) = default;
};

struct LogRing {
    int channel = 0;
    std::vector<int> ranks;
    bool cut = false;  ///< NCCL printed only the first ones
};

/// CPUs that NCCL binds its threads of a GPU to.
struct LogAffinity {
    std::string host;
    int device = 0;    ///< as NCCL numbers it
    std::string cpus;  ///< "0-31,64-95"; "" for none
    /// Of the GPU's NUMA node and of the process, "" where NCCL does not say (before 2.28).
    std::string gpu_cpus{}, process_cpus{};
    friend bool operator==(const LogAffinity&, const LogAffinity&) = default;
};

/// How communicators were set up. Lists are bounded and in order of first appearance.
struct LogSetup {
    std::optional<detect::nccl_log::ChannelCounts> channels;  ///< the most that a communicator has
    std::vector<LogRing> rings;  ///< of the largest communicator whose order was printed
    std::vector<LogPattern> patterns;
    std::vector<LogTuning> tuning;  ///< of the first process that printed the table
    std::vector<LogChoice> choices;
    std::vector<LogAffinity> affinity;
    std::vector<LogGpuNic> gpu_nics;  ///< nearest adapters of each GPU
    std::vector<LogGpuDirect> gpu_direct;
    std::optional<bool> nvls_supported;  ///< false when one device has not
    bool nvls_ready = false;
    /// Of the rank whose initialisation took longest.
    std::optional<detect::nccl_log::InitTimings> slowest_init;
    std::string provider;  ///< of libfabric, "efa"
    LogFabric fabric;
    std::uint64_t error_trails = 0;  ///< lines of the form `init.cc:1358 -> 2`
    std::uint64_t ended = 0;         ///< communicators that a rank destroyed or aborted
};

/// Collects it.
class SetupFacts {
  public:
    /// False for events that are not of set-up.
    bool add(std::optional<std::size_t> process, std::string_view host,
             const detect::nccl_log::Event& event);
    /// A message of no known kind may be a line of the topology.
    bool add_graph(std::string_view host, std::string_view message);
    void add_adapters(const std::string& host, const std::vector<std::string>& ports) {
        facts_.fabric.add_adapters(host, ports);
    }
    const LogSetup& facts() const { return facts_; }

  private:
    void add(const detect::nccl_log::RingOrder& ring);
    void add(const detect::nccl_log::Pattern& pattern);
    void add(const detect::nccl_log::Choice& choice);
    void add(const detect::nccl_log::TuningRow& row);
    void add_path(std::string_view host, const detect::nccl_log::PathLine& line);

    LogSetup facts_;
    std::optional<std::size_t> tuning_process_;
    std::vector<std::string> tuning_algorithms_;
};

}  // namespace toporun::launcher
