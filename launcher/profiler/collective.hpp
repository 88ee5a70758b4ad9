#pragma once

#include <compare>
#include <cstdint>
#include <string>
#include <string_view>

#include "launcher/profiler/record.hpp"

namespace toporun::profiler {

/// One process that wrote a ring file. `rank` is that of its first communicator.
struct RankKey {
    int rank = 0;
    int restart = 0;
    std::int64_t pid = 0;
    friend auto operator<=>(const RankKey&, const RankKey&) = default;
};

/// A communicator as one of its ranks sees it.
struct Communicator {
    std::uint64_t id = 0;  ///< equal on all ranks of the communicator
    int rank = 0;
    int ranks = 0;
    int nodes = 0;
    bool finalized = false;
    std::string name;  ///< untrusted bytes; "" when NCCL gave none
};

/// One operation on one GPU, complete. Codes are those of record.hpp.
struct Collective {
    std::uint64_t communicator = 0;  ///< id; 0 = unknown
    int rank = -1;                   ///< in the communicator; -1 = unknown
    int ranks = 0;                   ///< of the communicator; 0 = unknown
    std::uint8_t function = kUnknownCode;
    std::uint8_t datatype = kUnknownCode;
    std::uint8_t algorithm = kUnknownCode;
    std::uint8_t protocol = kUnknownCode;
    std::uint64_t sequence = 0;
    std::uint64_t count = 0;     ///< elements, as NCCL passes them
    int channels = 0;            ///< expected
    int channels_seen = 0;       ///< with both stamps
    std::uint64_t start_ns = 0;  ///< GPU clock: comparable on one GPU only
    std::uint64_t stop_ns = 0;
    int peer = -1;
};

/// "AllReduce", "Send", ...; "Unknown" for a code that is not in the list.
std::string_view function_name(std::uint8_t function);

/// Bytes of one element; 0 for an unknown code.
int datatype_bytes(std::uint8_t datatype);

/// Size of the operation in bytes as nccl-tests counts it (doc/PERFORMANCE.md): the whole buffer of
/// a rank, for AllGather and ReduceScatter the sum over the ranks. 0 when the datatype is unknown
/// or the product does not fit.
std::uint64_t size_bytes(const Collective& collective);

/// busbw / algbw of nccl-tests: 2(n-1)/n for AllReduce, (n-1)/n for AllGather, ReduceScatter,
/// AllToAll, Gather and Scatter, 1 for the others.
double bus_factor(std::uint8_t function, int ranks);

}  // namespace toporun::profiler
