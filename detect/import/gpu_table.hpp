#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "detect/import/importer.hpp"

/// Square tables of GPUs as text: a header `GPU0 GPU1 ... NIC0 ... CPU Affinity ...` and rows that
/// start with a column's name. What nvidia-smi and rocm-smi print and people paste.
namespace toporun::detect {

inline constexpr std::size_t kMostTableGpus =
    256;  ///< of one capture; no operating system has more
inline constexpr std::size_t kMostTableColumns = 2048;
inline constexpr std::string_view kUnknownCell = "?";

/// Whether a word is a cell of the table that is looked for ("NV18", "OK", "XGMI").
using IsCell = bool (*)(std::string_view word);

struct GpuTableRow {
    std::size_t column = 0;             ///< the row's own column
    std::vector<std::string> cells;     ///< by column; shorter than the header when cut
    std::vector<std::string> affinity;  ///< words after the cells: CPU list, NUMA nodes, ...
    std::size_t line = 0;               ///< index into Lines::lines
};

struct GpuTable {
    std::vector<std::string> columns;  ///< GPUs first, without the affinity columns
    std::vector<int> gpus;             ///< the numbers of the GPU columns
    bool cpu_affinity = false;         ///< there is such a column
    bool numa_affinity = false;
    std::vector<GpuTableRow> rows;   ///< each column at most once, in the order of the text
    std::vector<std::string> notes;  ///< what was repaired or left out
    std::size_t header = 0;          ///< index into Lines::lines
    std::size_t end = 0;             ///< line behind the last row
};

/// The number of "GPU12"; nothing for other words.
std::optional<int> gpu_number(std::string_view word);

/// The first table at or below line `start` whose cells `is_cell` knows. Wrapped lines are joined,
/// cells that were glued together ("PIXNODE") are parted. Marks its lines in `understood`.
std::optional<GpuTable> find_gpu_table(const Lines& lines, std::size_t start, IsCell is_cell,
                                       std::vector<bool>& understood);

/// A CPU list, "0-7,64-71"; nothing for other texts and CPUs beyond 8191 (Linux: CONFIG_NR_CPUS).
std::optional<CpuSet> cpu_list(std::string_view text);

/// The first number of "0,3-9"; nothing when the text is no such list.
std::optional<int> first_of_list(std::string_view text);

/// A machine with these GPUs and nothing else known of them.
Machine machine_with_gpus(const std::vector<int>& indices, std::string_view vendor);

}  // namespace toporun::detect
