#include "detect/import/gpu_table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "base/text.hpp"
#include "detect/import/wrapped_row.hpp"

namespace toporun::detect {
namespace {

constexpr std::size_t kMostTableColumns = 2048;
constexpr std::size_t kMostRowLines = 8192;   ///< of a table whose rows are wrapped
constexpr std::size_t kMostHeaderLines = 16;  ///< of a header wrapped by a narrow terminal
constexpr int kLargestCpu = 8191;

/// The number of "GPU12"; nothing for other words, "GPU012" among them: no tool writes it, and it
/// would be a second column of GPU 12.
std::optional<int> gpu_number(std::string_view word) {
    if (!word.starts_with("GPU") || word.size() > 8 || !all_digits(word.substr(3)) ||
        (word.size() > 4 && word[3] == '0'))
        return std::nullopt;
    return static_cast<int>(*to_integer(word.substr(3)));
}

/// "NIC11NIC12" as two names: where a terminal or a web page lost the blank between columns.
std::vector<std::string_view> part_names(std::string_view word) {
    constexpr std::string_view kStarts[] = {"GPU", "NIC", "mlx5_", "CPU", "NUMA"};
    std::vector<std::string_view> parts;
    std::size_t begin = 0;
    for (std::size_t at = 1; at < word.size(); ++at) {
        const bool number_before = word[at - 1] >= '0' && word[at - 1] <= '9';
        const bool start =
            std::any_of(std::begin(kStarts), std::end(kStarts),
                        [&](std::string_view name) { return word.substr(at).starts_with(name); });
        if (!number_before || !start) continue;
        parts.push_back(word.substr(begin, at - begin));
        begin = at;
    }
    parts.push_back(word.substr(begin));
    return parts;
}

/// Where a header starts in the words of a line: at a GPU name that no cell follows.
std::optional<std::size_t> header_start(const std::vector<std::string_view>& word, IsCell is_cell) {
    for (std::size_t i = 0; i < word.size(); ++i) {
        if (!gpu_number(part_names(word[i]).front())) continue;
        if (i + 1 < word.size() && (is_cell(word[i + 1]) || !unglue(word[i + 1], is_cell).empty()))
            return std::nullopt;
        return i;
    }
    return std::nullopt;
}

/// "GPU0  X  NV18 ..." or, cut behind the name, "GPU0".
bool starts_row(const std::vector<std::string_view>& word, IsCell is_cell) {
    return word.size() > 1 &&
           (is_cell(word[1]) || !unglue(word[1], is_cell).empty() || word[1] == kUnknownCell);
}

class TableReader {
  public:
    TableReader(const Lines& lines, IsCell is_cell) : lines_(lines), is_cell_(is_cell) {}

    std::optional<GpuTable> read(std::size_t start) {
        for (std::size_t i = start; i < lines_.lines.size(); ++i) {
            const auto word = words(lines_.lines[i].text);
            const auto at = header_start(word, is_cell_);
            if (!at) continue;
            const auto row = first_row(i + 1);
            if (!row) continue;
            const auto [header, column] = last_header(i, *at, *row);
            read_header(header, column, *row);
            for (std::size_t line = header; line < *row; ++line) lines_read_.push_back(line);
            read_rows(*row);
            return std::move(table_);
        }
        return read_without_header(start);
    }

    /// A table of another kind that begins alike: "GPU0 X" stands in several.
    bool foreign() const { return unknown_cells_ > known_cells_; }
    const std::vector<std::size_t>& lines_read() const { return lines_read_; }

  private:
    /// The header was not copied: the rows name the columns, if there are as many as cells.
    std::optional<GpuTable> read_without_header(std::size_t start) {
        std::size_t first = start, cells = 0;
        std::vector<std::string> names;
        for (std::size_t i = start; i < lines_.lines.size(); ++i) {
            const auto word = words(lines_.lines[i].text);
            const bool row = starts_row(word, is_cell_);
            if (names.empty() && !(row && gpu_number(word[0]))) continue;
            if (!row) break;
            const auto behind = std::find_if_not(word.begin() + 1, word.end(), is_cell_);
            if (names.empty())
                first = i, cells = static_cast<std::size_t>(behind - word.begin()) - 1;
            names.emplace_back(word[0]);
        }
        if (names.size() < 2 || names.size() != cells) return std::nullopt;
        for (const std::string& name : names) add_column(name);
        if (table_.columns.size() != cells) return std::nullopt;
        table_.cpu_affinity = table_.numa_affinity = true;
        table_.affinity_columns = 2;
        table_.header = first;
        table_.notes.emplace_back("the header is missing, the rows name the columns");
        read_rows(first);
        return std::move(table_);
    }

    /// The first line that is a GPU's row, when only a wrapped header or blank lines come before.
    std::optional<std::size_t> first_row(std::size_t from) const {
        const std::size_t end = std::min(lines_.lines.size(), from + kMostHeaderLines);
        for (std::size_t i = from; i < end; ++i) {
            const auto word = words(lines_.lines[i].text);
            if (word.empty()) continue;
            if (gpu_number(word[0]) && starts_row(word, is_cell_)) return i;
            if (word[0].ends_with(":") || (is_cell_(word[0]) && !header_start(word, is_cell_)))
                return std::nullopt;
        }
        return std::nullopt;
    }

    /// Prose above a table ("GPU0 and GPU1 are slow") looks like a header too: the last line that
    /// starts with the GPU of the first row is the one.
    std::pair<std::size_t, std::size_t> last_header(std::size_t first, std::size_t at,
                                                    std::size_t row) const {
        const std::string_view gpu = words(lines_.lines[row].text).front();
        for (std::size_t i = row; i-- > first;) {
            const auto word = words(lines_.lines[i].text);
            const auto start = header_start(word, is_cell_);
            if (start && part_names(word[*start]).front() == gpu) return {i, *start};
        }
        return {first, at};
    }

    void read_header(std::size_t first, std::size_t at, std::size_t row) {
        table_.header = first;
        std::vector<std::string> names;
        std::set<std::string, std::less<>> rows;
        for (std::size_t i = first; i < row; ++i) {
            const std::vector<std::string_view> word =
                header_words(lines_.lines[i].text, i == first ? at : 0);
            std::size_t from = 0;
            if (i > first && from < word.size() && rows.empty()) rows = row_names(row);
            if (from < word.size() && i > first && !names.empty() &&
                wrapped_name(names.back(), word[from], rows))
                names.back() += word[from++];
            for (; from < word.size(); ++from) names.emplace_back(word[from]);
        }
        std::size_t end = 0;
        while (end < names.size() && names[end] != "CPU" && names[end] != "NUMA" &&
               names[end] != "GPU" && names[end] != "CPU-affinity" && names[end] != "Affinity")
            add_column(names[end++]);
        for (std::size_t i = end; i < names.size(); ++i) {
            const bool cpu = names[i].starts_with("CPU"), numa = names[i] == "NUMA";
            table_.cpu_affinity |= cpu;
            table_.numa_affinity |= numa && names[i - (i > end ? 1 : 0)] != "GPU";
            if (cpu || numa) ++table_.affinity_columns;
        }
        table_.header_cut = table_.affinity_columns > 0 && !names.back().ends_with("ffinity") &&
                            names.back() != "ID";
    }

    static std::vector<std::string_view> header_words(std::string_view line, std::size_t from) {
        std::vector<std::string_view> out;
        const std::vector<std::string_view> word = words(line);
        for (; from < word.size(); ++from)
            for (const std::string_view name : part_names(word[from])) out.push_back(name);
        return out;
    }

    /// The names at the start of the rows, which tell those of a wrapped header.
    std::set<std::string, std::less<>> row_names(std::size_t row) const {
        std::set<std::string, std::less<>> names;
        const std::size_t end = std::min(lines_.lines.size(), row + kMostRowLines);
        for (std::size_t i = row; i < end; ++i) {
            const auto word = words(lines_.lines[i].text);
            if (starts_row(word, is_cell_)) names.emplace(word[0]);
        }
        return names;
    }

    static bool wrapped_name(std::string_view a, std::string_view b,
                             const std::set<std::string, std::less<>>& rows) {
        const auto known = [&](std::string_view name) {
            return gpu_number(name) || rows.contains(name) || name == "CPU" || name == "Affinity" ||
                   name == "NUMA" || name == "GPU" || name == "ID" || name == "CPU-affinity";
        };
        if (known(std::string(a) + std::string(b)) && !(known(a) && known(b))) return true;
        if (gpu_number(a) || a.starts_with("NIC")) return all_digits(b);
        return a.ends_with("_") || b.starts_with("_") || a == "N" || a == "NI";
    }

    void add_column(const std::string& name) {
        const auto gpu = gpu_number(name);
        const bool misplaced = gpu && table_.gpus.size() < table_.columns.size();
        const bool full =
            gpu ? table_.gpus.size() >= kMostTableGpus : table_.columns.size() >= kMostTableColumns;
        if (misplaced || full || !columns_.try_emplace(name, table_.columns.size()).second) {
            if (ignored_columns_++ == 0)
                table_.notes.push_back(fmt::format("column '{}' of the header is left out",
                                                   printable(name.substr(0, 40))));
            return;
        }
        table_.columns.push_back(name);
        if (gpu) table_.gpus.push_back(*gpu);
    }

    void read_rows(std::size_t first) {
        seen_.assign(table_.columns.size(), false);
        bool open = false;  // the line before was a row, which this one may continue
        table_.end = first;
        for (std::size_t i = first; i < lines_.lines.size(); ++i) {
            const auto word = words(lines_.lines[i].text);
            if (word.empty()) {
                open = false;
                continue;
            }
            if (word[0] == "Legend:" || (i > first && header_start(word, is_cell_))) break;
            if (const auto column = row_column(word)) {
                if (seen_[*column]) break;  // another copy of the table
                finish_row();
                row_ = {*column, {}, {}, i};
                words_ = WrappedRow(is_cell_);
                words_.add_line(
                    lines_.lines[i].text.substr(lines_.lines[i].text.find(name()) + name().size()));
                seen_[*column] = open_row_ = open = true;
            } else if (open && continues(word)) {
                words_.add_line(lines_.lines[i].text);
            } else {
                open = false;
                continue;
            }
            lines_read_.push_back(i);
            table_.end = i + 1;
        }
        finish_row();
    }

    std::optional<std::size_t> row_column(const std::vector<std::string_view>& word) const {
        const auto found = columns_.find(word[0]);
        if (found == columns_.end() || (word.size() > 1 && !starts_row(word, is_cell_)))
            return std::nullopt;
        return found->second;
    }

    /// Whether a line is the rest of the row above, wrapped by a terminal.
    bool continues(const std::vector<std::string_view>& word) const {
        if (words_.size() >= table_.columns.size() + affinity_columns() + 1) return false;
        for (std::size_t i = 0; i < word.size(); ++i) {
            if (is_affinity(word[i]) || is_cell_(word[i]) || !unglue(word[i], is_cell_).empty())
                continue;
            // The end of a cell that began in the line above, or the beginning of one: "DE", "NO".
            const bool at_the_edge = i == 0 || i + 1 == word.size();
            if (!at_the_edge || word[i].size() > 4) return false;
        }
        return true;
    }

    std::size_t affinity_columns() const {
        return table_.cpu_affinity || table_.numa_affinity ? 3 : 0;
    }

    const std::string& name() const { return table_.columns[row_.column]; }

    void finish_row() {
        if (!open_row_) return;
        open_row_ = false;
        std::size_t at = 0;
        const bool gpu = row_.column < table_.gpus.size();
        word_ = words_.take(table_.columns.size(), gpu ? table_.affinity_columns : 0);
        for (; at < word_.size() && row_.cells.size() < table_.columns.size(); ++at)
            if (!take_cell(word_[at], word_.size() - at)) break;
        // A glued word may bring the CPU list with it.
        if (row_.cells.size() > table_.columns.size()) {
            row_.affinity.assign(
                row_.cells.begin() + static_cast<std::ptrdiff_t>(table_.columns.size()),
                row_.cells.end());
            row_.cells.resize(table_.columns.size());
        }
        const std::size_t most = row_.affinity.size() + word_.size() - at;
        for (; at < word_.size() && row_.affinity.size() < 8; ++at)
            row_.affinity.push_back(std::move(word_[at]));
        if (is_cell_(row_.affinity.empty() ? "" : row_.affinity.front())) leave_out_surplus(most);
        if (words_.unclear() && !row_.affinity.empty()) {
            row_.affinity.clear();
            if (unclear_rows_++ == 0)
                table_.notes.push_back(
                    fmt::format("row {}: it was wrapped so that its CPUs and NUMA nodes are not "
                                "certain, they are left out",
                                printable(name())));
        }
        table_.rows.push_back(std::move(row_));
    }

    /// A column's name is lost: what stands under the names behind it, and behind the cells, is
    /// not certain. GPUs come first.
    void leave_out_surplus(std::size_t words) {
        table_.notes.push_back(
            fmt::format("row {} has {} cells more than the header: what is behind the GPUs is left "
                        "out",
                        printable(name()), words));
        row_.affinity.clear();
        for (std::size_t i = table_.gpus.size(); i < row_.cells.size(); ++i)
            row_.cells[i] = kUnknownCell;
    }

    /// Puts a word into the cells. False when the cells have ended before it.
    bool take_cell(const std::string& word, std::size_t words_left) {
        if (is_cell_(word)) {
            row_.cells.push_back(word);
            if (word != "X") ++known_cells_;
            return true;
        }
        const std::vector<std::string> parts = unglue(word, is_cell_);
        if (!parts.empty()) {
            row_.cells.insert(row_.cells.end(), parts.begin(), parts.end());
            table_.notes.push_back(fmt::format("row {}: '{}' is {} cells glued together",
                                               printable(name()), printable(word.substr(0, 40)),
                                               parts.size()));
            return true;
        }
        if (is_affinity(word) && words_left <= affinity_columns()) return false;
        row_.cells.emplace_back(kUnknownCell);
        if (unknown_cells_++ < 8)
            table_.notes.push_back(fmt::format("row {}: '{}' is not a known cell",
                                               printable(name()), printable(word.substr(0, 40))));
        return true;
    }

    const Lines& lines_;
    IsCell is_cell_;
    std::vector<std::size_t> lines_read_;
    GpuTable table_;
    std::map<std::string, std::size_t, std::less<>> columns_;
    std::vector<bool> seen_;
    std::size_t ignored_columns_ = 0, unknown_cells_ = 0, known_cells_ = 0, unclear_rows_ = 0;
    bool open_row_ = false;
    GpuTableRow row_;
    WrappedRow words_{is_cell_};     ///< of the row that is being read, without its name
    std::vector<std::string> word_;  ///< the same, once the row is whole
};

}  // namespace

std::optional<GpuTable> find_gpu_table(const Lines& lines, std::size_t start,
                                       bool (*is_cell)(std::string_view word),
                                       std::vector<bool>& understood) {
    for (;;) {
        TableReader reader(lines, is_cell);
        auto table = reader.read(start);
        if (!table) return std::nullopt;
        if (!reader.foreign()) {
            understood.resize(lines.lines.size());
            for (const std::size_t line : reader.lines_read()) understood[line] = true;
            return table;
        }
        start = table->end;
    }
}

std::optional<CpuSet> cpu_list(std::string_view text) {
    std::vector<int> indices;
    while (!text.empty()) {
        const std::size_t end = std::min(text.find(','), text.size());
        const std::string_view range = trim(text.substr(0, end));
        text.remove_prefix(std::min(end + 1, text.size()));
        if (range.empty()) continue;  // a comma at the end: the list was cut there
        const std::size_t dash = range.find('-');
        const auto first = to_integer(range.substr(0, dash));
        const auto last =
            dash == std::string_view::npos ? first : to_integer(range.substr(dash + 1));
        const long long least = indices.empty() ? 0 : indices.back() + 1;
        if (!first || !last || *first < least || *last < *first || *last > kLargestCpu)
            return std::nullopt;
        for (long long cpu = *first; cpu <= *last; ++cpu) indices.push_back(static_cast<int>(cpu));
    }
    if (indices.empty()) return std::nullopt;
    return CpuSet(std::move(indices));
}

std::optional<int> first_of_list(std::string_view text) {
    if (text.find_first_not_of("0123456789,-") != std::string_view::npos) return std::nullopt;
    const auto number = to_integer(text.substr(0, text.find_first_of(",-")));
    if (!number || *number < 0 || *number > 65535) return std::nullopt;
    return static_cast<int>(*number);
}

Machine machine_with_gpus(const std::vector<int>& indices, std::string_view vendor) {
    Machine machine;
    machine.nics_known = false;
    for (const int index : indices) {
        Gpu gpu;
        gpu.index = index;
        gpu.vendor = vendor;
        machine.gpus.push_back(std::move(gpu));
    }
    return machine;
}

}  // namespace toporun::detect
