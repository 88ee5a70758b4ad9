#pragma once

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string_view>

namespace toporun::detect::nccl_log {

/// Reads a text from left to right. A reader that does not match leaves the position as it is.
class Cursor {
  public:
    explicit Cursor(std::string_view text) : rest_(text) {}

    std::string_view rest() const { return rest_; }

    bool skip(std::string_view literal) {
        if (!rest_.starts_with(literal)) return false;
        rest_.remove_prefix(literal.size());
        return true;
    }
    /// The same for a literal whose length the compiler sees: much quicker.
    template <std::size_t N>
    bool skip(const char (&literal)[N]) {
        if (rest_.size() < N - 1 || std::memcmp(rest_.data(), literal, N - 1) != 0) return false;
        rest_.remove_prefix(N - 1);
        return true;
    }
    void skip_blanks() {
        rest_.remove_prefix(std::min(rest_.find_first_not_of(' '), rest_.size()));
    }

    /// The text before `end`, which is skipped too; nothing when `end` does not follow.
    std::optional<std::string_view> until(std::string_view end) {
        const std::size_t at = rest_.find(end);
        if (at == std::string_view::npos) return std::nullopt;
        const std::string_view before = rest_.substr(0, at);
        rest_.remove_prefix(at + end.size());
        return before;
    }
    /// The next word, up to a blank or the end; blanks before it are skipped.
    std::string_view word() {
        skip_blanks();
        const std::string_view found = rest_.substr(0, rest_.find(' '));
        rest_.remove_prefix(found.size());
        return found;
    }
    /// A decimal number that fits `Number`.
    template <typename Number>
    std::optional<Number> number() {
        Number value = 0;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value);
        if (error != std::errc()) return std::nullopt;
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }

    /// A hexadecimal number of at most 16 digits, in lower or upper case, without "0x".
    std::optional<std::uint64_t> hex() {
        std::uint64_t value = 0;
        const auto [end, error] =
            std::from_chars(rest_.data(), rest_.data() + rest_.size(), value, 16);
        if (error != std::errc()) return std::nullopt;
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }

    /// A number such as 240.0, without sign and exponent.
    std::optional<double> real() {
        double value = 0;
        if (rest_.empty() || rest_.front() < '0' || rest_.front() > '9') return std::nullopt;
        const auto [end, error] = std::from_chars(rest_.data(), rest_.data() + rest_.size(), value,
                                                  std::chars_format::fixed);
        if (error != std::errc()) return std::nullopt;
        rest_.remove_prefix(static_cast<std::size_t>(end - rest_.data()));
        return value;
    }

  private:
    std::string_view rest_;
};

/// All of `text` as a decimal number.
template <typename Number>
std::optional<Number> whole_number(std::string_view text) {
    Cursor cursor(text);
    const std::optional<Number> value = cursor.number<Number>();
    return cursor.rest().empty() ? value : std::nullopt;
}

/// All of `text` as a hexadecimal number without "0x".
inline std::optional<std::uint64_t> whole_hex(std::string_view text) {
    std::uint64_t value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value, 16);
    if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
    return value;
}

}  // namespace toporun::detect::nccl_log
