#include "detect/nccl_log/collective.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>

#include "detect/nccl_log/cursor.hpp"
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace toporun::detect::nccl_log {
namespace {

// NCCL src/collectives.cc, in the order of Function.
constexpr std::array<std::string_view, kFunctions> kNames = {
    "AllReduce", "Broadcast", "Reduce", "AllGather", "ReduceScatter", "Send",
    "Recv",      "AlltoAll",  "Gather", "Scatter",   "AllGatherV"};

/// Whether the N bytes are equal: in words, which the compiler makes of no memcmp() of this size.
template <std::size_t N>
[[gnu::always_inline]] inline bool are_equal(const char* a, const char* b) {
    constexpr std::size_t kWord = N >= 8 ? 8 : N >= 4 ? 4 : N >= 2 ? 2 : 1;
    for (std::size_t i = 0; i + kWord <= N; i += kWord)
        if (std::memcmp(a + i, b + i, kWord) != 0) return false;
    return std::memcmp(a + N - kWord, b + N - kWord, kWord) == 0;
}

/// The same for sizes that are known late, from four to sixteen, without a call.
[[gnu::always_inline]] inline bool are_equal(const char* a, const char* b, std::size_t size) {
    if (size < 8) return are_equal<4>(a, b) && are_equal<4>(a + size - 4, b + size - 4);
    return are_equal<8>(a, b) && are_equal<8>(a + size - 8, b + size - 8);
}

/// The function whose name `message` begins with, up to the colon at `size`.
std::optional<Function> function_of(std::string_view message, std::size_t size) {
    static_assert(std::all_of(kNames.begin(), kNames.end(), [](std::string_view name) {
        return name.size() >= 4 && name.size() <= 16;
    }));
    for (std::size_t i = 0; i < kNames.size(); ++i)
        if (kNames[i].size() == size && are_equal(kNames[i].data(), message.data(), size))
            return static_cast<Function>(i);
    if (message.starts_with("AllToAll:")) return Function::all_to_all;  // RCCL
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

constexpr std::array<std::uint8_t, 256> hex_digits() {
    std::array<std::uint8_t, 256> values{};
    values.fill(255);
    for (std::uint8_t i = 0; i < 10; ++i) values[static_cast<std::size_t>('0') + i] = i;
    for (std::uint8_t i = 0; i < 6; ++i)
        values[static_cast<std::size_t>('a') + i] = static_cast<std::uint8_t>(10 + i);
    return values;
}
constexpr std::array<std::uint8_t, 256> kHexDigits = hex_digits();

/// Reads the usual line alone, byte by byte, without a check that its end may spare: these lines
/// are most of some logs. What it does not know the slow reader may.
class CallScanner {
  public:
    explicit CallScanner(std::string_view text) : at_(text.data()), end_(at_ + text.size()) {}

    template <std::size_t N>
    [[gnu::always_inline]] bool skip(const char (&literal)[N]) {
        constexpr std::size_t kSize = N - 1;
        if (static_cast<std::size_t>(end_ - at_) < kSize) return false;
        if (!are_equal<kSize>(at_, literal)) return false;
        at_ += kSize;
        return true;
    }
    [[gnu::always_inline]] bool hex(std::uint64_t& value) {
        const char* const begin = at_;
        std::uint64_t number = 0;
        for (; at_ != end_; ++at_) {
            const std::uint8_t digit = kHexDigits[static_cast<unsigned char>(*at_)];
            if (digit > 15) break;
            number = number << 4 | digit;
        }
        value = number;
        return at_ != begin && at_ - begin <= 16;
    }
    /// Digits whose value does not matter.
    [[gnu::always_inline]] bool skip_hex() {
#ifdef __SSE2__
        if (end_ - at_ > 16) {
            const __m128i text = _mm_loadu_si128(reinterpret_cast<const __m128i*>(at_));
            const auto in = [&](char first, char last) {  // no byte from 0x80 on is
                const __m128i above =
                    _mm_cmpgt_epi8(text, _mm_set1_epi8(static_cast<char>(first - 1)));
                return _mm_andnot_si128(_mm_cmpgt_epi8(text, _mm_set1_epi8(last)), above);
            };
            const __m128i digits = _mm_or_si128(in('0', '9'), in('a', 'f'));
            const auto others = ~static_cast<unsigned>(_mm_movemask_epi8(digits));
            const int count = std::countr_zero(others | 1u << 16);
            at_ += count;
            return count > 0 && (count < 16 || kHexDigits[static_cast<unsigned char>(*at_)] > 15);
        }
#endif
        std::uint64_t value = 0;
        return hex(value);
    }
    [[gnu::always_inline]] bool pointer(std::uint64_t& value) {
        return skip("0x") && hex(value);
    }
    /// At most 18 digits, which fit any 64 bits.
    template <typename Number>
    [[gnu::always_inline]] bool number(Number& value) {
        const char* const begin = at_;
        std::uint64_t sum = 0;
        for (; at_ != end_ && *at_ >= '0' && *at_ <= '9'; ++at_)
            sum = sum * 10 + static_cast<std::uint64_t>(*at_ - '0');
        value = static_cast<Number>(sum);
        constexpr std::ptrdiff_t kMost = sizeof(Number) == 8 ? 18 : 9;
        return at_ != begin && at_ - begin <= kMost;
    }
    bool at_end() const {
        return at_ == end_;
    }
    std::string_view rest() const {
        return {at_, static_cast<std::size_t>(end_ - at_)};
    }

  private:
    const char* at_;
    const char* end_;
};

/// ` comm 0x55.. [nranks=8] stream 0x56..`
bool scan_end(std::string_view text, Collective& call) {
    CallScanner scan(text);
    int ranks = 0;
    const bool whole = scan.skip(" comm ") && scan.pointer(call.communicator) &&
                       scan.skip(" [nranks=") && scan.number(ranks) && scan.skip("] stream ") &&
                       scan.pointer(call.stream);
    call.ranks = ranks;
    return whole && scan.at_end() && ranks > 0;
}

/// What stands behind `FUNCTION: opCount `.
[[gnu::always_inline]] inline bool scan_call(std::string_view text, CallEnd& end,
                                             Collective& call) {
    CallScanner scan(text);
    const bool begins = scan.hex(call.op_count) && scan.skip(" sendbuff 0x") && scan.skip_hex() &&
                        scan.skip(" recvbuff 0x") && scan.skip_hex() && scan.skip(" count ") &&
                        scan.number(call.count) && scan.skip(" datatype ") &&
                        scan.number(call.datatype) && scan.skip(" op ") && scan.number(call.op) &&
                        scan.skip(" root ") && scan.number(call.root);
    const std::string_view rest = scan.rest();
    if (!begins || rest.empty()) return false;
    if (rest != end.text) {
        constexpr std::size_t kLongest = 96;
        if (rest.size() > kLongest || !scan_end(rest, end.call)) {
            end.text.clear();
            return false;
        }
        end.text = rest;
    }
    call.communicator = end.call.communicator;
    call.ranks = end.call.ranks;
    call.stream = end.call.stream;
    call.usual = true;
    return true;
}

constexpr std::string_view kCalls = ": opCount ";

/// Where the name of a function ends; nothing when the message is no call.
[[gnu::always_inline]] inline std::optional<std::size_t> end_of_name(std::string_view message) {
    constexpr std::size_t kLongestName = 16;
    const std::size_t end = std::min(message.size(), kLongestName);
    std::size_t colon = 0;
    while (colon < end && message[colon] != ':') ++colon;
    if (message.size() - colon < kCalls.size() ||
        !are_equal<kCalls.size()>(message.data() + colon, kCalls.data()))
        return std::nullopt;
    return colon;
}

}  // namespace

std::string_view function_name(Function function) {
    return kNames[static_cast<std::size_t>(function)];
}

bool parse_collective(std::string_view message, CallEnd& end, Collective& call) {
    const auto colon = end_of_name(message);
    if (!colon) return false;
    const auto function = function_of(message, *colon);
    if (!function) return false;
    if (scan_call(message.substr(*colon + kCalls.size()), end, call)) {
        call.function = *function;
        return true;
    }
    const auto other = parse_collective(message);
    if (other) call = *other;
    return other.has_value();
}

std::optional<Collective> parse_collective(std::string_view message) {
    const auto colon = end_of_name(message);
    if (!colon) return std::nullopt;
    const auto function = function_of(message, *colon);
    if (!function) return std::nullopt;
    const std::string_view rest = message.substr(*colon + kCalls.size());
    Collective call;
    call.function = *function;
    if (CallEnd end; scan_call(rest, end, call)) return call;
    call = {};
    call.function = *function;
    Cursor cursor(rest);
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
