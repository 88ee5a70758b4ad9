#include "launcher/failures/line_ends.hpp"

#include <algorithm>
#include <array>
#include <bit>
#include <cstddef>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace toporun::launcher::failures {
namespace {

constexpr bool is_control(char c) {
    return c == '\x1b' || c == '\r' || c == '\0';
}

}  // namespace

bool has_control(std::string_view text) {
    std::size_t at = 0;
#ifdef __SSE2__
    const __m128i escape = _mm_set1_epi8('\x1b'), carriage = _mm_set1_epi8('\r');
    for (; at + 16 <= text.size(); at += 16) {
        const __m128i bytes = _mm_loadu_si128(reinterpret_cast<const __m128i*>(text.data() + at));
        const __m128i found = _mm_or_si128(
            _mm_cmpeq_epi8(bytes, _mm_setzero_si128()),
            _mm_or_si128(_mm_cmpeq_epi8(bytes, escape), _mm_cmpeq_epi8(bytes, carriage)));
        if (_mm_movemask_epi8(found) != 0) return true;
    }
#endif
    text.remove_prefix(at);
    return std::any_of(text.begin(), text.end(), is_control);
}

bool find_line_ends(std::string_view block, std::vector<std::uint32_t>& ends) {
    ends.clear();
    std::size_t at = 0;
    bool control = false;
#ifdef __SSE2__
    // Escapes, carriage returns and NULs are all up to 0x1b, and few others but line feeds are.
    const __m128i feed = _mm_set1_epi8('\n'), highest = _mm_set1_epi8('\x1b');
    __m128i least = _mm_set1_epi8('\xff');  // but for line feeds
    std::array<std::uint32_t, 1024> some;   // added to `ends` at once
    std::size_t count = 0;
    const auto ends_in = [&](std::size_t from) -> std::uint64_t {  // of sixteen bytes
        const __m128i bytes =
            _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.data() + from));
        const __m128i ends_here = _mm_cmpeq_epi8(bytes, feed);
        least = _mm_min_epu8(least, _mm_or_si128(bytes, ends_here));
        return static_cast<unsigned>(_mm_movemask_epi8(ends_here));
    };
    for (; at + 64 <= block.size(); at += 64) {
        std::uint64_t feeds =
            ends_in(at) | ends_in(at + 16) << 16 | ends_in(at + 32) << 32 | ends_in(at + 48) << 48;
        const auto base = static_cast<std::uint32_t>(at);
        const auto take = [&] {
            some[count] = base + static_cast<std::uint32_t>(std::countr_zero(feeds));
            count += feeds != 0 ? 1 : 0;
            feeds &= feeds - 1;
        };
        // Few at once: to store what is not there is quicker than to ask.
        take();
        take();
        while (feeds != 0) take();
        if (count + 64 <= some.size()) continue;
        ends.insert(ends.end(), some.data(), some.data() + count);
        count = 0;
    }
    ends.insert(ends.end(), some.data(), some.data() + count);
    const __m128i low = _mm_cmpeq_epi8(_mm_min_epu8(least, highest), least);
    control = _mm_movemask_epi8(low) != 0 && has_control(block.substr(0, at));
#endif
    control |= has_control(block.substr(at));
    for (at = block.find('\n', at); at != block.npos; at = block.find('\n', at + 1))
        ends.push_back(static_cast<std::uint32_t>(at));
    return control;
}

}  // namespace toporun::launcher::failures
