#include "detect/nccl_log/collective.hpp"

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

/// `0x7f51f2af7010`, `(nil)`; 0 for the masked "0x...".
std::optional<std::uint64_t> pointer(std::string_view word) {
    if (word == "(nil)" || word == "0x...") return 0;
    if (!word.starts_with("0x")) return std::nullopt;
    return whole_hex(word.substr(2));
}

template <typename Number>
bool read_number(std::string_view word, Number& value) {
    const auto number = whole_number<Number>(word);
    if (number) value = *number;
    return number.has_value();
}

bool read_pointer(std::string_view word, std::uint64_t& value) {
    const auto number = pointer(word);
    if (number) value = *number;
    return number.has_value();
}

/// `[nranks=8]`
bool read_ranks(std::string_view word, Collective& call) {
    if (!word.ends_with(']')) return false;
    word.remove_suffix(1);
    call.ranks = whole_number<int>(word);
    return call.ranks && *call.ranks > 0;
}

enum Field { kCount = 1, kDatatype = 2, kCommunicator = 4 };
constexpr int kNeeded = kCount | kDatatype | kCommunicator;

/// False when the value is not what the name promises.
bool read_field(std::string_view name, std::string_view value, Collective& call, int& seen) {
    if (name == "count") return seen |= kCount, read_number(value, call.count);
    if (name == "datatype") return seen |= kDatatype, read_number(value, call.datatype);
    if (name == "op") return read_number(value, call.op);
    if (name == "root") return read_number(value, call.root);
    if (name == "comm") return seen |= kCommunicator, read_pointer(value, call.communicator);
    if (name == "stream") return read_pointer(value, call.stream);
    if (name == "sendbuff" || name == "recvbuff") return pointer(value).has_value();
    return true;  // a field of a later version or of RCCL
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
    const auto op_count = whole_hex(cursor.word());
    if (!op_count) return std::nullopt;
    call.op_count = *op_count;
    int seen = 0;
    for (cursor.skip_blanks(); !cursor.rest().empty(); cursor.skip_blanks()) {
        if (cursor.skip("[nranks=")) {
            if (!read_ranks(cursor.word(), call)) return std::nullopt;
            continue;
        }
        const std::string_view name = cursor.word();
        if (!read_field(name, cursor.word(), call, seen)) return std::nullopt;
    }
    if (seen != kNeeded) return std::nullopt;
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
