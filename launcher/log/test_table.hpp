#pragma once

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

/// The tables that nccl-tests prints (NVIDIA/nccl-tests src/common.cu, 2.0 to 2.17;
/// doc/PERFORMANCE.md).
namespace toporun::launcher {

/// A row: `  8388608  2097152  float  sum  -1  3597.6  2.33  4.52  0  3955.7  2.12  4.11  0`,
/// behind whatever prefix of a launcher.
struct TestRow {
    std::uint64_t bytes = 0;
    std::string type;  ///< "float"
    std::string op;    ///< "sum", "none"; "" in the tables of old versions that have no operation
    double algbw_gbytes_per_s = 0;
    double busbw_gbytes_per_s = 0;  ///< the better of out of place and in place
    std::uint64_t wrong = 0;        ///< values, of both; 0 where they were not checked
};

/// Whether there are two blanks in a row among the last sixteen bytes.
inline bool ends_behind_blanks(std::string_view line) {
    constexpr std::uint64_t kOnes = 0x0101010101010101;
    std::uint64_t found = 0;
    for (const std::size_t before : {16u, 9u, 8u}) {
        std::uint64_t word = 0;
        std::memcpy(&word, line.data() + line.size() - before, sizeof word);
        word ^= kOnes * ' ';
        const std::uint64_t blanks = (word - kOnes) & ~word & kOnes * 0x80;  // and `!` behind one
        found |= blanks & (blanks >> 8);
    }
    return found != 0;
}

/// True of a row and of few other lines, by its end alone: a number or "N/A" behind two blanks.
inline bool may_be_test_row(std::string_view line) {
    constexpr std::size_t kLeast = 60, kLastColumn = 12;  // `1.34218e+08`
    if (line.size() < kLeast || !ends_behind_blanks(line)) return false;
    std::size_t at = line.size();
    while (at > 0 && (line[at - 1] == '\r' || line[at - 1] == ' ')) --at;
    const std::size_t end = at;
    while (at > 1 && line[at - 1] != ' ' && end - at <= kLastColumn) --at;
    return at < end && at > 1 && line[at - 1] == ' ' && line[at - 2] == ' ';
}

/// Nothing for a line that is none: size, time and bandwidth must fit.
std::optional<TestRow> parse_test_row(std::string_view line);

/// One table, of one program and data type: sizes ascend.
struct LogTest {
    std::string function;  ///< "AllReduce" where the factor of the bus bandwidth proves it, else ""
    std::string type, op;
    std::size_t rows = 0;
    std::uint64_t least_bytes = 0;
    std::uint64_t most_bytes = 0;
    double peak_gbytes_per_s = 0;  ///< bus bandwidth
    std::uint64_t peak_bytes = 0;
    double last_gbytes_per_s = 0;  ///< the better of the two largest sizes
    std::uint64_t wrong = 0;
    std::uint64_t wrong_bytes = 0;  ///< smallest size with wrong values
};

/// Collects tables, in bounded memory.
class TestTables {
  public:
    void add(const TestRow& row);
    const std::vector<LogTest>& tables() const { return tables_; }

  private:
    std::vector<LogTest> tables_;
    double before_last_ = 0;  ///< bus bandwidth of the row before the last
};

}  // namespace toporun::launcher
