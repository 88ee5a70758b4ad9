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
inline constexpr std::string_view kUnknownCell = "?";

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
    std::size_t affinity_columns = 0;  ///< how many columns the header has behind the matrix
    bool header_cut = false;           ///< within the name of the last one
    std::vector<GpuTableRow> rows;     ///< each column at most once, in the order of the text
    std::vector<std::string> notes;    ///< what was repaired or left out
    std::size_t header = 0;            ///< index into Lines::lines
    std::size_t end = 0;               ///< line behind the last row
};

/// The first table at or below line `start` whose cells `is_cell` knows: whether a word is one
/// ("NV18", "OK", "XGMI"). Wrapped lines are joined, cells that were glued together ("PIXNODE") are
/// parted; words behind the cells are left out where the wrap leaves open what they are. Marks its
/// lines in `understood`.
std::optional<GpuTable> find_gpu_table(const Lines& lines, std::size_t start,
                                       bool (*is_cell)(std::string_view word),
                                       std::vector<bool>& understood);

/// A CPU list, "0-7,64-71"; nothing for other texts, for CPUs beyond 8191 (Linux: CONFIG_NR_CPUS)
/// and for CPUs out of order, which no tool prints: a number was cut there.
std::optional<CpuSet> cpu_list(std::string_view text);

/// The first number of "0,3-9"; nothing when the text is no such list.
std::optional<int> first_of_list(std::string_view text);

/// A machine with these GPUs and nothing else known of them.
Machine machine_with_gpus(const std::vector<int>& indices, std::string_view vendor);

}  // namespace toporun::detect
