#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

namespace toporun::launcher::failures {

/// Which lines hold one of many literal texts, at the speed of the memory: only every fourth place
/// of a line is looked at, since of the four bytes in a row at four places of an anchor one is
/// there.
class Anchors {
  public:
    static constexpr std::size_t kBytes = 7;  ///< of an anchor

    /// The rarest seven bytes in a row of `literal`, "" when it is shorter. As rare as the most
    /// common four of them: each may be looked up.
    static std::string_view rarest(std::string_view literal);
    /// How good an anchor is: the higher, the rarer. -1 for "".
    static int score(std::string_view anchor);

    /// `literal` has seven bytes at least; with fewer every line holds it.
    void add(std::string_view literal);
    /// A level of NCCL before 2.4, ` INFO `, behind what may stand before one.
    void add_level(std::string_view level);

    /// Where four bytes of the first anchor that begins at `from` or later stand in `text`, npos
    /// for none.
    std::size_t find(std::string_view text, std::size_t from = 0) const;
    bool any_in(std::string_view text) const { return find(text) != std::string_view::npos; }

  private:
    struct Entry {
        std::uint32_t four = 0;  ///< bytes at `offset` of the anchor
        std::uint32_t next = 0;  ///< position + 1 of the next one of the same hash
        char anchor[kBytes] = {};
        std::uint8_t offset = 0;
        bool level = false;  ///< of add_level(): the first byte is any that may be there
    };
    static constexpr int kBits = 17;
    /// With this factor, of many tried, few windows of usual logs share a place with an anchor's.
    static std::uint32_t hash(std::uint32_t four) { return (four * 0xaf6a8b93u) >> (32 - kBits); }
    void add_window(std::string_view anchor, std::size_t offset, bool level);
    std::size_t first_of(std::string_view text, std::size_t at, std::uint32_t kinds) const;
    bool confirmed(std::string_view text, std::size_t at) const;

    static constexpr std::size_t kHeads = 1 << 13;

    static constexpr std::uint8_t kText = 1, kLevel = 2;  ///< kLevel + the offset in the anchor

    /// Which four bytes are of an anchor, by hash: 0 for none, kText, or of a level alone. Few of
    /// them, and the same again and again.
    std::vector<std::uint8_t> known_ = std::vector<std::uint8_t>(std::size_t{1} << kBits);
    std::vector<std::uint32_t> heads_ = std::vector<std::uint32_t>(kHeads);
    std::vector<Entry> entries_;
    bool always_ = false;
};

}  // namespace toporun::launcher::failures
