#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

/// How a communicator was set up: channels, rings, trees, search results, tuning, NVLS, affinity,
/// timings (NCCL src/init.cc, graph/, transport/nvls.cc). Pure like line.hpp.
namespace toporun::detect::nccl_log {

/// `24 coll channels, 24 collnet channels, 16 nvls channels, 32 p2p channels, 32 p2p channels per
/// peer`
struct ChannelCounts {
    int coll = 0;
    std::optional<int> collnet;  ///< 2.20 and later
    std::optional<int> nvls;     ///< 2.17 and later
    int p2p = 0;
    int p2p_per_peer = 0;
};

/// `Channel 00/08 :    0   1   2   3`: rank 0 prints the order of the ring.
struct RingOrder {
    int channel = 0;
    int channels = 0;
    std::vector<int> ranks;
    bool cut = false;  ///< 2.23 and later: ends in "..."
};

/// `Ring 00 : 7 -> 0 -> 1`
struct RingLink {
    int channel = 0;
    int previous = 0;
    int rank = 0;
    int next = 0;
};

struct TreeLink {
    int channel = 0;
    int rank = 0;
    int parent = -1;                             ///< -1: the root
    std::array<int, 3> children = {-1, -1, -1};  ///< -1: none
    friend bool operator==(const TreeLink&, const TreeLink&) = default;
};

/// `Trees [0] 1/-1/-1->0->-1 [1] ..`, `Tree 0 : -1 -> 0 -> 1/-1/-1`.
struct Trees {
    std::vector<TreeLink> links;
};

/// `Pattern 4, crossNic 0, nChannels 12, bw 20.000000/20.000000, type NVL/PIX, sameChannels 1`:
/// what the search for a graph found.
struct Pattern {
    int pattern = 0;  ///< 1 balanced tree, 2 split tree, 3 tree, 4 ring, 5 NVLS, 6 CollNet direct
    int cross_nic = 0;
    int channels = 0;
    double intra_gbytes_per_s = 0;  ///< of one channel
    double inter_gbytes_per_s = 0;
    std::string intra_type;  ///< path type, "NVL"
    std::string inter_type;
};

/// `Setting affinity for GPU 0 to ffffffff` (a mask up to 2.26, a list later),
/// `ncclTopoGetCpuAffinity: Affinity for GPU 0 is 0-31. (GPU affinity = 0-31 ; CPU affinity =
/// 0-127).`; "is empty, ignoring" where the two have no CPU in common.
struct Affinity {
    int device = 0;
    std::string cpus;          ///< list form, "0-31,64-95"; "" for none
    std::string gpu_cpus;      ///< of the GPU's NUMA node, 2.28 and later, else ""
    std::string process_cpus;  ///< the mask of the process, 2.28 and later, else ""
};

/// `Init timings - ncclCommInitRank: rank 0 nranks 8 total 1.02 (kernels 0.21, ...)`, seconds.
struct InitTimings {
    int rank = 0;
    int ranks = 0;
    double total = 0;
    std::vector<std::pair<std::string, double>> parts;  ///< in NCCL's order
};

/// `NVLS multicast support is available on dev 0 (NVLS_NCHANNELS 16)`
struct NvlsSupport {
    bool available = false;
    int device = 0;
};

/// `NVLS comm 0x.. headRank 0 nHeads 8 ..`: NVLS is set up.
struct NvlsReady {};

/// `GPU Direct RDMA Enabled for GPU 0 / HCA 0 (distance 4 <= 4), read 1 mode Default` and the form
/// of 2.29.
struct GpuDirect {
    bool enabled = false;
    std::string gpu;   ///< as printed: bus id up to 2.23, rank later, "0-106496" in 2.29
    std::string nic;   ///< number of the adapter as printed
    int distance = 0;  ///< a number of the path type, which depends on the version
    int limit = 0;     ///< GPUDirect is used up to this distance
};

/// `AllReduce: 4194304 Bytes -> Algo RING proto SIMPLE channel{Lo..Hi}={0..15}` and older forms;
/// `AllReduce [Symmetric]: 1048576 Bytes -> Kernel AllReduce_AGxLL_R nchannels 8 nthreads 512`,
/// `AllGather [Copy Engine]: 8388608 Bytes -> cudaMemcpy...`, 2.27 and later.
struct Choice {
    std::string_view function;  ///< part of the line; "" up to 2.22, which do not say
    std::uint64_t bytes = 0;
    std::string_view algorithm;  ///< "RING"; of numbers the name in 2.14 and later; "SYMMETRIC"
    std::string_view protocol;   ///< "LL", "LL128", "SIMPLE"; of "SYMMETRIC" the kernel
    std::optional<int> channels;
};

/// `  Algorithm   |   Tree  |   Ring  |   CollNetDirect  |`, up to 2.17 `Latency/AlgBw |    Tree/
/// LL | ...`: columns of the rows that follow.
struct TuningAlgorithms {
    std::vector<std::string> names;
};

/// `    AllReduce |    15.2/  43.6 | ...`: latency in us and algorithm bandwidth in GB/s, three
/// protocols (LL, LL128, Simple) for each algorithm.
struct TuningRow {
    std::string function;
    std::vector<std::pair<double, double>> cells;
};

/// `init.cc:1358 -> 2 [Async thread]`: how an error went up.
struct ErrorTrail {
    std::string source;  ///< "init.cc:1358"
    int code = 0;        ///< ncclResult_t
};

/// `comm 0x.. rank 0 nranks 8 cudaDev 0 busId 1a000 - Destroy COMPLETE`
struct CommunicatorEnd {
    std::string communicator;
    int rank = 0;
    bool abort = false;
};

/// `NET/OFI Selected Provider is efa`: the provider of libfabric.
struct Provider {
    std::string name;
};

/// `#   Rank  0 Pid 433602 on node-a device  0 [0x0f] NVIDIA GeForce RTX 3090`, from nccl-tests
/// (src/common.cu); no record of NCCL.
struct TestRank {
    int rank = 0;
    std::int64_t pid = 0;
    std::string host;
    int device = 0;
    std::string gpu;  ///< "NVIDIA GeForce RTX 3090"
};

}  // namespace toporun::detect::nccl_log
