#include "detect/nccl_log/collective.hpp"

#include <algorithm>
#include <array>

#include "detect/nccl_log/cursor.hpp"

namespace toporun::detect::nccl_log {
namespace {

// NCCL src/collectives.cc, in the order of Function.
constexpr std::array<std::string_view, kFunctions> kNames = {
    "AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send",
    "Recv",      "AlltoAll",  "Gather", "Scatter",   "AllGatherV"};

std::optional<Function> function_of(std::string_view printed) {
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i] == printed) return static_cast<Function>(i);
    if (printed == "AllToAll") return Function::all_to_all;  // RCCL
    return std::nullopt;
}

bool counts_all_ranks(Function function) {
    return function == Function::all_gather || function == Function::reduce_scatter ||
           function == Function::all_to_all || function == Function::gather ||
           function == Function::scatter;
}

/// `0x7f51f2af7010`, `(nil)`, the masked `0x...`, which both are 0.
bool skip_pointer(Cursor& cursor, std::uint64_t& value) {
    value = 0;
    if (cursor.skip("(nil)") || cursor.skip("0x...")) return true;
    if (!cursor.skip("0x")) return false;
    const auto number = cursor.hex();
    value = number.value_or(0);
    return number.has_value();
}

template <typename Number>
bool skip_number(Cursor& cursor, Number& value) {
    const auto number = cursor.number<Number>();
    value = number.value_or(0);
    return number.has_value();
}

/// `[nranks=8] `, which is not in all lines.
bool skip_ranks(Cursor& cursor, Collective& call) {
    if (!cursor.skip("[nranks=")) return true;
    call.ranks = cursor.number<int>();
    return call.ranks && *call.ranks > 0 && cursor.skip("]") &&
           (cursor.skip(" ") || cursor.rest().empty());
}

/// What later versions and RCCL append: pairs of a name and a value. Anything else is the rest of
/// another line.
bool are_fields(std::string_view rest) {
    Cursor cursor(rest);
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        const std::string_view name = cursor.word();
        const bool is_name = std::all_of(name.begin(), name.end(), [](char c) {
            return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_';
        });
        if (!is_name || cursor.word().empty()) return false;
    }
    return true;
}

}  // namespace

std::string_view function_name(Function function) {
    return kNames[static_cast<std::size_t>(function)];
}

std::optional<Collective> parse_collective(std::string_view message) {
    constexpr std::string_view kCalls = ": opCount ";
    constexpr std::size_t kLongestName = 16;
    const std::size_t colon = message.substr(0, kLongestName).find(':');
    if (colon == message.npos || !message.substr(colon).starts_with(kCalls)) return std::nullopt;
    const auto function = function_of(message.substr(0, colon));
    if (!function) return std::nullopt;
    Collective call;
    call.function = *function;
    Cursor cursor(message.substr(colon + kCalls.size()));
    const auto op_count = cursor.hex();
    if (!op_count) return std::nullopt;
    call.op_count = *op_count;
    std::uint64_t buffer = 0;
    const bool known = cursor.skip(" sendbuff ") && skip_pointer(cursor, buffer) &&
                       cursor.skip(" recvbuff ") && skip_pointer(cursor, buffer) &&
                       (!cursor.skip(" acc ") || skip_pointer(cursor, buffer)) &&  // RCCL
                       cursor.skip(" count ") && skip_number(cursor, call.count) &&
                       cursor.skip(" datatype ") && skip_number(cursor, call.datatype) &&
                       cursor.skip(" op ") && skip_number(cursor, call.op) &&
                       cursor.skip(" root ") && skip_number(cursor, call.root) &&
                       cursor.skip(" comm ") && skip_pointer(cursor, call.communicator);
    if (!known || (!cursor.rest().empty() && !cursor.skip(" ")) || !skip_ranks(cursor, call))
        return std::nullopt;
    if (cursor.skip("stream ") && !skip_pointer(cursor, call.stream)) return std::nullopt;
    if (!cursor.rest().empty() && !are_fields(cursor.rest())) return std::nullopt;
    return call;
}

int datatype_bytes(int datatype) {
    constexpr std::array<int, 12> kBytes = {1, 1, 4, 4, 8, 8, 2, 4, 8, 2, 1, 1};
    const bool known = datatype >= 0 && datatype < static_cast<int>(kBytes.size());
    return known ? kBytes[static_cast<std::size_t>(datatype)] : 0;
}

std::optional<std::uint64_t> size_bytes(const Collective& call) {
    std::uint64_t size = static_cast<std::uint64_t>(datatype_bytes(call.datatype));
    const bool all_ranks = counts_all_ranks(call.function);
    if (size == 0 || (all_ranks && !call.ranks)) return std::nullopt;
    const std::uint64_t parts = all_ranks ? static_cast<std::uint64_t>(*call.ranks) : 1;
    if (__builtin_mul_overflow(size, call.count, &size)) return std::nullopt;
    if (__builtin_mul_overflow(size, parts, &size)) return std::nullopt;
    return size;
}

}  // namespace toporun::detect::nccl_log
