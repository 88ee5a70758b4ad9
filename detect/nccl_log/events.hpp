#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

#include "detect/nccl_log/line.hpp"

namespace toporun::detect::nccl_log {

/// Some characters of ASCII, or all.
class FirstChars {
  public:
    /// "" for any character.
    constexpr FirstChars(const char* chars) {
        if (*chars == '\0') masks_ = {~std::uint64_t{0}, ~std::uint64_t{0}};
        any_ = *chars == '\0';
        for (; *chars != '\0'; ++chars)
            masks_[static_cast<std::size_t>(*chars) / 64 % 2] |= std::uint64_t{1} << (*chars % 64);
    }
    constexpr bool contain(char c) const {
        const auto code = static_cast<unsigned char>(c);
        return code < 128 ? (masks_[code / 64] >> (code % 64) & 1) != 0 : any_;
    }

  private:
    std::array<std::uint64_t, 2> masks_{};
    bool any_ = false;
};

/// Reads one kind of message.
struct Parser {
    FirstChars first;  ///< what it may begin with
    std::optional<Event> (*parse)(std::string_view message);
};

/// The event of the first parser that knows the message.
template <std::size_t N>
std::optional<Event> first_of(const Parser (&parsers)[N], std::string_view message) {
    if (message.empty()) return std::nullopt;
    for (const Parser& parser : parsers) {
        if (!parser.first.contain(message.front())) continue;
        if (std::optional<Event> event = parser.parse(message)) return event;
    }
    return std::nullopt;
}

/// The event in the message of an INFO record.
Event parse_message(std::string_view message);
/// The same of one that is no call (parse_collective()).
Event parse_other_message(std::string_view message);

/// The same of a version before 2.4: `comm 0x.. rank 0 nranks 2` is all it says of a rank.
Event parse_old_message(std::string_view message);

/// `NCCL version 2.28.9+cuda13.0`, `RCCL version : 2.27.7-HEAD:0d2c4fd`, `RCCL
/// version 2.18.6+hip6.0 HEAD:..`; nothing for anything else, sentences that mention a version
/// among them.
std::optional<Event> parse_version(std::string_view message);

/// How a communicator was set up (setup.hpp), in the message of an INFO record.
std::optional<Event> parse_setup(std::string_view message);

/// Driver, plugins, queue pairs (fabric.hpp), in the message of an INFO record.
std::optional<Event> parse_fabric(std::string_view message);

/// A rank of nccl-tests, in a line without a record.
std::optional<Event> parse_test_rank(std::string_view line);

}  // namespace toporun::detect::nccl_log
