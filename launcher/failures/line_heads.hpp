#pragma once

#include <array>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <string_view>
#include <vector>

namespace toporun::launcher::failures {

/// Beginnings of lines of which it is known that they tell of no rank that is not known yet: the
/// lines of a training begin in a few ways. One digit is as good as another, but for `[`, behind
/// which a rank may stand. A place for each of some, the last one there wins.
class LineHeads {
  public:
    static constexpr std::size_t kBytes = 32;

    /// What lines with the same head have in common, but for digits not behind `[`.
    static std::string_view common(std::string_view line) {
        return line.substr(0, line.starts_with('[') ? kExact : kBytes);
    }
    /// `line`: kBytes can be read from there; what is behind a short line is a part of its head.
    bool contains(const char* line) const {
        const Head head = head_at(line);
        const Head& known = heads_[head.place()];
        const auto other = std::bit_cast<Pair>((head.a ^ known.a) | (head.b ^ known.b));
        return (other[0] | other[1]) == 0;
    }
    void add(const char* line) {
        const Head head = head_at(line);
        heads_[head.place()] = head;
    }

  private:
    static constexpr std::size_t kExact = 16;  ///< behind a `[`
    static constexpr int kPlaceBits = 9;

    using Bytes = std::uint8_t __attribute__((vector_size(16)));  // of GCC and Clang
    using Pair = std::array<std::uint64_t, 2>;

    struct Head {
        Bytes a = {}, b = {};

        std::size_t place() const {
            const auto all = std::bit_cast<Pair>(a ^ (b << 1));
            return (all[0] * 0x9e3779b97f4a7c15 + all[1] * 0xc2b2ae3d27d4eb4f) >> (64 - kPlaceBits);
        }
    };

    static Head head_at(const char* line) {
        Head head;
        std::memcpy(&head.a, line, sizeof head.a);
        std::memcpy(&head.b, line + sizeof head.a, sizeof head.b);
        const auto any =
            static_cast<std::uint8_t>((*line == '[') - 1);  // no branch: they take turns
        const auto digit = static_cast<std::uint8_t>(any & 0x0f);
        head.a &= ~(static_cast<Bytes>(head.a - '0' < 10) & digit);
        head.b &= ~(static_cast<Bytes>(head.b - '0' < 10) & digit) & any;
        return head;
    }

    /// No line begins with NULs alone that gets here.
    std::vector<Head> heads_ = std::vector<Head>(std::size_t{1} << kPlaceBits);
};

}  // namespace toporun::launcher::failures
