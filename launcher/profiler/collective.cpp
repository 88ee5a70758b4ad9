#include "launcher/profiler/collective.hpp"

#include <array>

namespace toporun::profiler {
namespace {

constexpr std::array<std::string_view, 12> kFunctionNames = {
    "Broadcast", "Reduce", "AllGather", "ReduceScatter", "AllReduce", "SendRecv",
    "Send",      "Recv",   "AlltoAll",  "Scatter",       "Gather",    "AllGatherV"};

constexpr std::array<int, 12> kDatatypeBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};

bool counts_all_ranks(std::uint8_t function) {
    return function == kAllGather || function == kReduceScatter || function == kAllToAll ||
           function == kScatter || function == kGather;
}

}  // namespace

std::string_view function_name(std::uint8_t function) {
    return function < kFunctionNames.size() ? kFunctionNames[function] : "Unknown";
}

int datatype_bytes(std::uint8_t datatype) {
    return datatype < kDatatypeBytes.size() ? kDatatypeBytes[datatype] : 0;
}

std::uint64_t size_bytes(const Collective& collective) {
    std::uint64_t size = static_cast<std::uint64_t>(datatype_bytes(collective.datatype));
    const bool all_ranks = counts_all_ranks(collective.function);
    if (all_ranks && collective.ranks <= 0) return 0;
    const std::uint64_t ranks = all_ranks ? static_cast<std::uint64_t>(collective.ranks) : 1;
    if (__builtin_mul_overflow(size, collective.count, &size)) return 0;
    if (__builtin_mul_overflow(size, ranks, &size)) return 0;
    return size;
}

double bus_factor(std::uint8_t function, int ranks) {
    if (ranks < 1) return 1;
    const double others = static_cast<double>(ranks - 1) / ranks;
    if (function == kAllReduce) return 2 * others;
    return counts_all_ranks(function) ? others : 1;
}

}  // namespace toporun::profiler
