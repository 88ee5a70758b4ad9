#include "launcher/failures/line_ends.hpp"

#include <array>
#include <bit>
#include <cstddef>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

namespace toporun::launcher::failures {
namespace {

constexpr std::string_view kControls("\x1b\r\0", 3);

}  // namespace

bool has_control(std::string_view text) {
    return text.find_first_of(kControls) != text.npos;
}

bool find_line_ends(std::string_view block, std::vector<std::uint32_t>& ends) {
    ends.clear();
    std::size_t at = 0;
    bool control = false;
#ifdef __SSE2__
    const __m128i feed = _mm_set1_epi8('\n'), escape = _mm_set1_epi8('\x1b');
    const __m128i carriage = _mm_set1_epi8('\r'), zero = _mm_setzero_si128();
    __m128i found = zero;
    std::array<std::uint32_t, 1024> some;  // added to `ends` at once
    std::size_t count = 0;
    for (; at + 64 <= block.size(); at += 64) {
        std::uint64_t feeds = 0;
        for (int i = 0; i < 4; ++i) {
            const __m128i bytes =
                _mm_loadu_si128(reinterpret_cast<const __m128i*>(block.data() + at) + i);
            const auto bits = static_cast<unsigned>(_mm_movemask_epi8(_mm_cmpeq_epi8(bytes, feed)));
            feeds |= std::uint64_t{bits} << (16 * i);
            found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, escape));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, carriage));
            found = _mm_or_si128(found, _mm_cmpeq_epi8(bytes, zero));
        }
        for (; feeds != 0; feeds &= feeds - 1)
            some[count++] = static_cast<std::uint32_t>(at) +
                            static_cast<std::uint32_t>(std::countr_zero(feeds));
        if (count + 64 <= some.size()) continue;
        ends.insert(ends.end(), some.data(), some.data() + count);
        count = 0;
    }
    ends.insert(ends.end(), some.data(), some.data() + count);
    control = _mm_movemask_epi8(found) != 0;
#endif
    control |= has_control(block.substr(at));
    for (at = block.find('\n', at); at != block.npos; at = block.find('\n', at + 1))
        ends.push_back(static_cast<std::uint32_t>(at));
    return control;
}

}  // namespace toporun::launcher::failures
