#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/report/judge.hpp"

namespace toporun::launcher {
namespace {

/// Programs of nccl-tests by the function that they measure.
constexpr std::array<std::pair<std::string_view, std::string_view>, 7> kPrograms = {
    {{"AllReduce", "all_reduce_perf"},
     {"AllGather", "all_gather_perf"},
     {"ReduceScatter", "reduce_scatter_perf"},
     {"Broadcast", "broadcast_perf"},
     {"Reduce", "reduce_perf"},
     {"AlltoAll", "alltoall_perf"},
     {"Send", "sendrecv_perf"}}};

/// A power of two as nccl-tests reads it: "64M".
std::string size_word(std::uint64_t bytes) {
    constexpr std::array<const char*, 4> kUnits = {"", "K", "M", "G"};
    std::size_t unit = 0;
    while (unit + 1 < kUnits.size() && bytes >= 1024) {
        bytes /= 1024;
        ++unit;
    }
    return std::to_string(bytes) + kUnits[unit];
}

}  // namespace

std::vector<std::string> replay_commands(const LogSummary& log) {
    std::vector<std::string> commands;
    for (const auto& [function, program] : kPrograms) {
        std::uint64_t least = 0, most = 0;
        for (const LogCollective& row : log.collectives) {
            if (row.function != function || row.size_class == 0) continue;
            least = least == 0 ? row.size_class : std::min(least, row.size_class);
            most = std::max(most, row.size_class);
        }
        if (most == 0) continue;
        const int ranks = log.rank_count.value_or(static_cast<int>(log.ranks.size()));
        commands.push_back(fmt::format("{}{} -b {} -e {} -f 2 -g 1",
                                       ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : "",
                                       program, size_word(least), size_word(most)));
    }
    return commands;
}

}  // namespace toporun::launcher
