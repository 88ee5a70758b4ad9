#include <fmt/format.h>

#include <algorithm>
#include <array>

#include "launcher/report/judge.hpp"

namespace toporun::launcher {
namespace {

/// Programs of nccl-tests by the function that they measure.
constexpr std::array<std::pair<std::string_view, std::string_view>, 9> kPrograms = {
    {{"AllReduce", "all_reduce_perf"},
     {"AllGather", "all_gather_perf"},
     {"ReduceScatter", "reduce_scatter_perf"},
     {"Broadcast", "broadcast_perf"},
     {"Reduce", "reduce_perf"},
     {"AlltoAll", "alltoall_perf"},
     {"Gather", "gather_perf"},
     {"Scatter", "scatter_perf"},
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

/// As option -d of nccl-tests calls NCCL's data types, "" for one that it does not know.
std::string_view type_word(int datatype) {
    constexpr std::array<std::string_view, 12> kTypes = {"int8",   "uint8",    "int32",  "uint32",
                                                         "int64",  "uint64",   "half",   "float",
                                                         "double", "bfloat16", "f8e4m3", "f8e5m2"};
    const bool known = datatype >= 0 && datatype < static_cast<int>(kTypes.size());
    return known ? kTypes[static_cast<std::size_t>(datatype)] : std::string_view();
}

/// As option -o; mulsum is the nearest to an operation of the program's own.
std::string_view op_word(int op) {
    constexpr std::array<std::string_view, 6> kOps = {"sum", "prod", "max", "min", "avg", "mulsum"};
    return kOps[static_cast<std::size_t>(std::clamp(op, 0, 5))];
}

std::string command_of(const LogSummary& log, const LogCallRange& call, std::string_view program) {
    using detect::nccl_log::Function;
    const bool adds = call.function == Function::all_reduce || call.function == Function::reduce ||
                      call.function == Function::reduce_scatter;
    // Sends and receives go around a ring of all, whatever the pairs were.
    const int ranks =
        call.ranks ? *call.ranks : log.rank_count.value_or(static_cast<int>(log.ranks.size()));
    std::string command = ranks > 1 ? fmt::format("mpirun -np {} ", ranks) : "";
    command += fmt::format("{} -b {} -e {} -f 2 -g 1", program, size_word(call.least),
                           size_word(call.most));
    if (const auto type = type_word(call.datatype); !type.empty())
        command += fmt::format(" -d {}", type);
    if (adds) command += fmt::format(" -o {}", op_word(call.op));
    return command;
}

}  // namespace

std::vector<std::string> replay_commands(const LogSummary& log) {
    constexpr std::size_t kMostCommands = 12;
    std::vector<std::string> commands;
    for (const auto& [function, program] : kPrograms) {
        std::vector<LogCallRange> calls;
        for (const LogCallRange& call : log.calls)
            if (detect::nccl_log::function_name(call.function) == function && call.most > 0)
                calls.push_back(call);
        std::stable_sort(calls.begin(), calls.end(),
                         [](const auto& a, const auto& b) { return a.bytes > b.bytes; });
        for (const LogCallRange& call : calls) {
            if (commands.size() >= kMostCommands) return commands;
            commands.push_back(command_of(log, call, program));
        }
    }
    return commands;
}

}  // namespace toporun::launcher
