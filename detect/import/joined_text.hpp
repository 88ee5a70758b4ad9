#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "detect/import/lines.hpp"

namespace toporun::detect {

/// Lines with XML as one text again, and the way back to their places. Where a terminal or a mail
/// program broke a line within a tag, the two pieces are put together: no value that NCCL writes
/// holds a line end.
class JoinedText {
  public:
    explicit JoinedText(const Lines& lines);

    const std::string& text() const { return text_; }
    /// How many lines were broken in the middle of a value or of a word.
    int mended() const { return mended_; }
    /// Position in Lines::lines of the line that a byte of text() is in.
    std::size_t line_of(std::size_t byte) const;
    /// "file:line:column" of a byte of text().
    std::string place(std::size_t byte) const;

  private:
    const Lines& lines_;
    std::string text_;
    std::vector<std::size_t> starts_;
    int mended_ = 0;
};

}  // namespace toporun::detect
