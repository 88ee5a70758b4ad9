#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace toporun::launcher::failures {

/// What a pattern took out of a line: name and text, in the pattern's order. Views into the line.
class Captures {
  public:
    void add(std::string_view name, std::string_view text) { values_.emplace_back(name, text); }
    void shrink(std::size_t size) { values_.resize(size); }
    std::size_t size() const { return values_.size(); }
    /// The text of that name, nothing when the pattern has no such capture.
    std::optional<std::string_view> text(std::string_view name) const;
    std::optional<std::int64_t> number(std::string_view name) const;
    /// `text` with each `{name}` replaced by the capture of that name, at most 128 bytes of it.
    std::string filled_in(std::string_view text) const;

  private:
    std::vector<std::pair<std::string_view, std::string_view>> values_;
};

/// A line of a program as text with holes. `…` stands for any text, `{name}` captures; `^` at the
/// beginning and `$` at the end bind it to the line's. A capture named as a number (rank,
/// local_rank, task, pid, signal, code, ...) takes a decimal number with or without a sign, one
/// named node, host, op or word all up to a blank or the following character of the pattern; any
/// other one all up to the following text. Matching takes time linear in the line: no regular
/// expressions.
class Pattern {
  public:
    /// Throws std::invalid_argument for an empty one or one without four literal bytes in a row.
    explicit Pattern(std::string_view text);

    std::optional<Captures> match(std::string_view line) const;
    /// The rarest four bytes that every matching line holds.
    std::uint32_t key() const { return key_; }
    /// The best anchor that every matching line holds (anchors.hpp); "" when there is none.
    const std::string& anchor() const { return anchor_; }
    /// The text of a pattern that is a whole line, word for word; "" for any other.
    std::string_view whole_line() const;

  private:
    enum class Kind { literal, number, word, text };
    struct Token {
        Kind kind = Kind::literal;
        std::string text;  ///< of a literal; the name of a capture, "" for `…`
        bool is_gap() const { return kind == Kind::text; }
    };

    void add_literal(std::string_view text);
    void add_hole(std::string_view name);
    std::size_t match_run(std::string_view line, std::size_t at, std::size_t token,
                          Captures& captures) const;

    std::vector<Token> tokens_;
    bool from_beginning_ = false;
    bool to_end_ = false;
    std::uint32_t key_ = 0;
    std::string anchor_;
};

/// Which of many patterns a line may match, in one pass over it.
class PatternFilter {
  public:
    void add(std::uint32_t key, std::uint16_t pattern);
    /// Numbers of the patterns whose key the line holds, each once, ascending.
    void find(std::string_view line, std::vector<std::uint16_t>& found) const;

  private:
    struct Entry {
        std::uint32_t key = 0;
        std::vector<std::uint16_t> patterns;
    };
    static std::size_t slot(std::uint32_t key) { return (key * 2654435761u) >> 18; }

    std::vector<bool> known_ = std::vector<bool>(std::size_t{1} << 14);
    std::vector<std::vector<Entry>> entries_ =
        std::vector<std::vector<Entry>>(std::size_t{1} << 14);
};

}  // namespace toporun::launcher::failures
