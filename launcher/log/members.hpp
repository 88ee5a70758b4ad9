#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>

#include "detect/nccl_log/line.hpp"

namespace toporun::launcher {

/// One rank in one communicator, as its process reported it.
struct LogMember {
    std::size_t process = 0;
    std::size_t group = 0;              ///< the same for all members of one communicator
    std::optional<std::size_t> parent;  ///< group of the communicator it was split from
    bool split = false;                 ///< it is a part of another communicator
    std::uint64_t pointer = 0;          ///< the process's name for the communicator
    int rank = 0;
    int ranks = 0;
    std::optional<std::uint64_t> bus_id;
    std::optional<int> cuda_device;  ///< after CUDA_VISIBLE_DEVICES
    std::optional<int> nvml_device;  ///< physical index
    bool complete = false;
};

/// A connected pair as one process reported it: ranks of a communicator that is not named. Devices
/// are what stands in brackets, read as a hexadecimal number: a bus id up to 2.18.1, nvmlDev later.
struct LogPair {
    std::size_t process = 0;
    int from = 0;
    int to = 0;
    std::uint64_t from_device = 0;
    std::uint64_t to_device = 0;
    detect::nccl_log::Transport transport = detect::nccl_log::Transport::other;
    std::uint8_t network = 0;  ///< of Transport::net: number of a name
    bool operator==(const LogPair&) const = default;
};

/// What was seen of all connections of a pair.
struct LogPairFacts {
    std::string via;             ///< as NCCL prints it, of the first connection
    bool gpu_direct = false;     ///< of Transport::net: GPUDirect RDMA
    std::uint64_t channels = 0;  ///< bit n: channel n, the last bit: that one or a later one
};

struct LogPairHash {
    std::size_t operator()(const LogPair& pair) const {
        constexpr std::uint64_t kMix = 0x9e3779b97f4a7c15;  // Fibonacci hashing, Knuth TAOCP 6.4
        std::uint64_t hash = pair.process;
        const auto mix = [&](std::uint64_t value) {
            hash = (hash ^ value) * kMix, hash ^= hash >> 29;
        };
        mix(static_cast<std::uint64_t>(pair.from) << 32 | static_cast<std::uint32_t>(pair.to));
        mix(pair.from_device << 4 ^ pair.to_device);
        mix(static_cast<std::uint64_t>(pair.transport) << 8 | pair.network);
        return static_cast<std::size_t>(hash);
    }
};

}  // namespace toporun::launcher
