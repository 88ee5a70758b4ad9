#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

/// Rows of tables that a terminal or a mail program wrapped. Private to gpu_table.cpp.
namespace toporun::detect {

/// Whether a word is a cell of the table that is looked for ("NV18", "OK", "XGMI").
using IsCell = bool (*)(std::string_view word);

bool all_digits(std::string_view text);

/// A word that only stands in the columns behind the matrix: "0-7,64-71", "1", "N/A".
bool is_affinity(std::string_view word);

/// Parts of a word in which blanks were lost: "PIXNODE", "SYS0-23". Empty when it is none.
std::vector<std::string> unglue(std::string_view word, IsCell is_cell);

/// The words of one row. A wrap at a fixed width cuts words in two ("52-103,1" and "56-207"), one
/// at blanks does not, and the text alone often does not say which of the two it was.
class WrappedRow {
  public:
    explicit WrappedRow(IsCell is_cell) : is_cell_(is_cell) {}

    /// The next line of the row, the first one without the row's name.
    void add_line(std::string_view line);
    std::size_t size() const { return words_.size(); }

    /// The words, joined such that there are `cells` and then, where the row has any, `behind`. In
    /// doubt a cell is whole and words behind the cells stay apart.
    std::vector<std::string> take(std::size_t cells, std::size_t behind);
    /// After take(): what is behind the cells is not certain.
    bool unclear() const { return unclear_; }

  private:
    std::vector<std::string> joined(unsigned choice) const;
    bool fits(const std::vector<std::string>& words, std::size_t cells, std::size_t behind) const;

    IsCell is_cell_;
    std::vector<std::string> words_;
    std::vector<std::size_t> joints_;  ///< words that may be the rest of the one before
    bool blank_end_ = false;           ///< the line before ended with a blank
    bool unclear_ = false;
};

}  // namespace toporun::detect
