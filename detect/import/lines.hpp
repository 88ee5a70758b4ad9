#pragma once

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.hpp"

namespace toporun::detect {

/// One line of a pasted text, ready to be read.
struct PastedLine {
    std::string text;        ///< without escape sequences, line end and log prefix
    std::size_t number = 0;  ///< in the file, from 1
    std::size_t offset = 0;  ///< bytes that were cut off before `text`
    std::size_t source = 0;  ///< who printed it: index into Lines::sources
};

/// A pasted text cut into lines: terminal escapes (ECMA-48 CSI and OSC) and carriage returns are
/// gone, so are a UTF-8 byte order mark, quotation marks of mails (`> `, `| `), line numbers of
/// `cat -n`, the bars of tables in Markdown, and prefixes of job logs (`[1,0]<stdout>:`, `0: `,
/// time stamps) where every line of a block has them. UTF-16 text (a Windows clipboard) is
/// converted, blanks of web pages (U+00A0) become blanks, of several blank lines one is kept. A
/// binary file has no lines, only `whole`. Anything else is left as it is.
struct Lines {
    std::string file;        ///< for messages
    std::string_view whole;  ///< the text as it was given
    std::vector<PastedLine> lines;
    /// Names that job logs put before the lines ("1" of srun -l, "1,0" of mpirun, a host). The
    /// first stands for lines without one.
    std::vector<std::string> sources = {""};

    /// An Error at a place: `column` counts bytes of PastedLine::text from 0.
    Error error(const PastedLine& line, std::size_t column, const std::string& what,
                const std::string& hint = {}) const;
    /// "file:line:column" of a byte of `whole`.
    std::string place(std::size_t byte) const;
};

/// `text` must outlive the result.
Lines read_lines(std::string_view text, std::string file);

/// Words between blanks and tabs.
std::vector<std::string_view> words(std::string_view line);

/// Cells of a table line, without the blanks around them: separated by tabs, or by two blanks or
/// more where there is no tab. Cells between two tabs may be empty.
std::vector<std::string_view> cells(std::string_view line);

}  // namespace toporun::detect
